package load

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"time"
)

// A shot is a request as it goes over the wire.
type shot struct {
	wire []byte
	uid  string
}

func newShot(u *url.URL, body []byte) shot {
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: usher-bench\r\n", u.RequestURI(), u.Host)
	fmt.Fprintf(&b, "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(body))
	b.Write(body)
	return shot{wire: b.Bytes(), uid: uidOf(body)}
}

// A worker is a connection, opened again when it breaks.
type worker struct {
	server  *url.URL
	tls     *tls.Config
	timeout time.Duration

	connection net.Conn
	reader     *bufio.Reader
	body       bytes.Buffer
	// used is when the connection was opened or used last.
	used time.Time
	// known are the last good responses, one per shot: most responses are like the one before, and
	// need not be parsed again.
	known []answer
}

// maxIdle is how long a connection may be idle before closing it is not an error of the server.
const maxIdle = time.Second

type answer struct {
	body    []byte
	verdict string
}

func (w *worker) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	address := w.server.Host
	if w.server.Port() == "" {
		address = net.JoinHostPort(w.server.Hostname(), w.server.Scheme)
	}
	var connection net.Conn
	var err error
	if w.server.Scheme == "https" {
		config := &tls.Config{MinVersion: tls.VersionTLS12}
		if w.tls != nil {
			config = w.tls.Clone()
		}
		config.NextProtos = []string{"http/1.1"}
		connection, err = (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", address)
	} else {
		connection, err = (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}
	if err != nil {
		return err
	}
	w.connection, w.reader, w.used = connection, bufio.NewReaderSize(connection, 16<<10), time.Now()
	return nil
}

func (w *worker) close() {
	if w.connection != nil {
		_ = w.connection.Close()
		w.connection = nil
	}
}

// shoot posts the n-th shot and returns the verdict of the response, or its error.
func (w *worker) shoot(ctx context.Context, s *shot, n int) (verdict string, err error) {
	if w.connection == nil {
		if err := w.connect(context.WithoutCancel(ctx)); err != nil {
			return "", &Error{Kind: kindOf(err, "connect"), Err: err}
		}
	}
	idle := time.Since(w.used)
	status, err := w.exchange(s.wire)
	if err != nil && idle > maxIdle && !errors.Is(err, os.ErrDeadlineExceeded) {
		// The server has closed the connection, as it may.
		w.close()
		if err = w.connect(context.WithoutCancel(ctx)); err == nil {
			status, err = w.exchange(s.wire)
		}
	}
	if err != nil {
		w.close()
		return "", &Error{Kind: kindOf(err, "connection broken"), Err: err}
	}
	body := w.body.Bytes()
	if status != http.StatusOK {
		text := bytes.TrimSpace(body[:min(len(body), 200)])
		return "", &Error{Kind: fmt.Sprintf("status %d", status), Err: errors.New(string(text))}
	}
	if known := &w.known[n]; known.body != nil && bytes.Equal(known.body, body) {
		return known.verdict, nil
	}
	if verdict, err = verdictOf(body, s.uid); err != nil {
		return "", &Error{Kind: "bad answer", Err: err}
	}
	w.known[n] = answer{body: bytes.Clone(body), verdict: verdict}
	return verdict, nil
}

// exchange sends a request and reads the answer into w.body.
func (w *worker) exchange(wire []byte) (status int, err error) {
	if err := w.connection.SetDeadline(time.Now().Add(w.timeout)); err != nil {
		return 0, err
	}
	if _, err := w.connection.Write(wire); err != nil {
		return 0, err
	}
	response, err := http.ReadResponse(w.reader, nil)
	if err != nil {
		return 0, err
	}
	w.used = time.Now()
	w.body.Reset()
	if _, err := w.body.ReadFrom(response.Body); err != nil {
		return 0, err
	}
	if response.Close {
		w.close()
	}
	return response.StatusCode, response.Body.Close()
}

// An Error is a request that came to nothing.
type Error struct {
	// Kind is one of a few: timeout, connection refused, connection broken, connect,
	// certificate, bad answer, or the HTTP status.
	Kind string
	Err  error
}

func (e *Error) Error() string { return e.Kind + ": " + e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

func kindOf(err error, otherwise string) string {
	var network net.Error
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case certificate:
		return "certificate"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return "timeout"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection broken"
	}
	return otherwise
}
