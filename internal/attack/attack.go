// Package attack simulates attackers on a webhook server: callers that take connections, memory or
// time from others. Tests and the soak test run honest callers beside them.
package attack

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/usher-dev/usher/internal/deadline"
)

// A Target is the server to attack.
type Target struct {
	// Address is host:port, and TLS how to connect to it.
	Address string
	TLS     *tls.Config
	// From is the IP address of the attacker, one of this machine.
	From string
	// Path is that of the webhook.
	Path string
	// Pause is how long an attacker rests after each attempt.
	Pause time.Duration
	// Arrived counts what was sent: heads, bodies that have begun, or other units.
	Arrived atomic.Int64
}

// An Attack is one way to harm a server.
type Attack struct {
	Name string
	// Heavy means that the attack is expensive for the attacker, too.
	Heavy bool
	// once does it on one connection, until the server ends that or ctx is done.
	once func(ctx context.Context, t *Target) error
}

// Run attacks with a number of connections at a time until ctx is done.
func (a Attack) Run(ctx context.Context, t *Target, connections int) {
	var all sync.WaitGroup
	for range connections {
		all.Go(func() {
			for ctx.Err() == nil {
				if a.once(ctx, t) != nil {
					// If a server refuses connections, wait before the next attempt.
					deadline.Sleep(ctx, 50*time.Millisecond)
				}
				deadline.Sleep(ctx, t.Pause)
			}
		})
	}
	all.Wait()
}

// RunAll runs all attacks at the same time, each on a few connections, until ctx is done. It calls
// there after each has sent something.
func RunAll(ctx context.Context, t func() *Target, there func()) {
	var all, arriving sync.WaitGroup
	for _, a := range All() {
		target := t()
		arriving.Go(func() {
			for target.Arrived.Load() == 0 {
				if !deadline.Sleep(ctx, 5*time.Millisecond) {
					return
				}
			}
		})
		all.Go(func() { a.Run(ctx, target, 2) })
	}
	arriving.Wait()
	there()
	all.Wait()
}

// All returns the attacks that there are.
func All() []Attack {
	return append(held(), posted()...)
}

// held are the attacks that send little, and wait.
func held() []Attack {
	return []Attack{
		{"connections that send nothing", false, func(ctx context.Context, t *Target) error { return t.raw(ctx, "") }},
		{"handshakes that do not end", false, func(ctx context.Context, t *Target) error {
			return t.raw(ctx, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
		}},
		{"a head that does not end", false, func(ctx context.Context, t *Target) error {
			return t.trickle(ctx, t.head("Content-Length: 9"), "X-A: b\r\n")
		}},
		{"a length above the maximum", false, func(ctx context.Context, t *Target) error {
			return t.trickle(ctx, t.head("Content-Length: 268435456")+"\r\n{", "")
		}},
		{"a length below the maximum", false, func(ctx context.Context, t *Target) error {
			return t.trickle(ctx, t.head("Content-Length: 30000000")+"\r\n{", "")
		}},
		{"a body byte by byte", false, func(ctx context.Context, t *Target) error {
			return t.trickle(ctx, t.head("Content-Length: 30000000")+"\r\n{", " ")
		}},
		{"chunks with long extensions", false, func(ctx context.Context, t *Target) error {
			return t.trickle(ctx, t.head("Transfer-Encoding: chunked")+"\r\n", "1;"+strings.Repeat("a", 2000)+"\r\n \r\n")
		}},
		{"a body that is never sent", false, func(ctx context.Context, t *Target) error {
			return t.trickle(ctx, t.head("Content-Length: 1000000", "Expect: 100-continue")+"\r\n", "")
		}},
		{"answers that nobody reads", false, func(ctx context.Context, t *Target) error {
			return t.trickle(ctx, strings.Repeat(t.head("Content-Length: 2")+"\r\n{}", 2000), "")
		}},
		{"a head without an end", false, func(ctx context.Context, t *Target) error {
			return t.trickle(ctx, t.head(strings.Repeat("X: y\r\n", 20000)+"X: y"), "")
		}},
		{"an endless URL", false, func(ctx context.Context, t *Target) error {
			return t.trickle(ctx, "POST "+t.Path+"?"+strings.Repeat("a", 1<<20)+" HTTP/1.1\r\n", "")
		}},
		{"streams of HTTP/2 that wait", true, func(ctx context.Context, t *Target) error { return t.streams(ctx) }},
	}
}

// head is the beginning of a request, without the empty line that ends it.
func (t *Target) head(headers ...string) string {
	return "POST " + t.Path + "?timeout=30s HTTP/1.1\r\nHost: usher\r\nContent-Type: application/json\r\n" + strings.Join(headers, "\r\n") + "\r\n"
}

func (t *Target) dial(ctx context.Context) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(t.From)}, Timeout: 10 * time.Second}
	c, err := d.DialContext(ctx, "tcp", t.Address)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = c.Close() })
	return c, nil
}

func (t *Target) dialTLS(ctx context.Context) (*tls.Conn, error) {
	c, err := t.dial(ctx)
	if err != nil {
		return nil, err
	}
	config := t.TLS.Clone()
	config.NextProtos = []string{"http/1.1"}
	if host, _, err := net.SplitHostPort(t.Address); err == nil && config.ServerName == "" {
		config.ServerName = host
	}
	secure := tls.Client(c, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("connect: %w", err)
	}
	return secure, nil
}

// raw sends text without TLS, and waits for the end.
func (t *Target) raw(ctx context.Context, text string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := t.dial(ctx)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(c, text); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	t.Arrived.Add(1)
	_, err = io.Copy(io.Discard, c)
	return err
}

// trickle sends text, and then more from time to time, until the server ends the connection. It
// does not read responses.
func (t *Target) trickle(ctx context.Context, text, more string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := t.dialTLS(ctx)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(c, text); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	t.Arrived.Add(1)
	for deadline.Sleep(ctx, 200*time.Millisecond) {
		// An empty record costs nothing and shows whether the connection still exists.
		if _, err := io.WriteString(c, more); err != nil {
			return fmt.Errorf("send: %w", err)
		}
		if more == "" && gone(c.NetConn()) {
			return io.EOF
		}
	}
	return nil
}

// gone reports whether the server has closed a connection.
func gone(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := c.Read(make([]byte, 1))
	timeout, ok := err.(net.Error)
	return err != nil && !(ok && timeout.Timeout())
}

// streams opens a hundred requests on one connection. Their bodies stop after one byte.
func (t *Target) streams(ctx context.Context) error {
	// A transport keeps connections that it has made for requests which did not wait for them.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	transport := &http.Transport{
		TLSClientConfig: t.TLS.Clone(), ForceAttemptHTTP2: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return t.dial(ctx) },
	}
	var all sync.WaitGroup
	var failed atomic.Pointer[error]
	for range 100 {
		all.Go(func() {
			body, writer := io.Pipe()
			defer func() { _ = body.Close() }()
			go func() {
				_, _ = io.WriteString(writer, "{")
				t.Arrived.Add(1)
			}()
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+t.Address+t.Path, body)
			if err != nil {
				failed.Store(&err)
				return
			}
			r.Header.Set("Content-Type", "application/json")
			response, err := transport.RoundTrip(r)
			if err != nil {
				failed.Store(&err)
				return
			}
			_ = response.Body.Close()
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// post sends bodies one after the other on one connection, until the server ends it.
func (t *Target) post(ctx context.Context, header string, body func() io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := t.dialTLS(ctx)
	if err != nil {
		return err
	}
	answers := bufio.NewReader(c)
	for range 10 {
		// A server that has had enough answers before it has everything.
		sent := make(chan error, 1)
		go func() {
			_, err := io.WriteString(c, t.head(header)+"\r\n")
			t.Arrived.Add(1)
			if err == nil {
				_, err = io.Copy(c, body())
			}
			sent <- err
		}()
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		response, err := http.ReadResponse(answers, nil)
		if err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		if response.Close {
			return nil
		}
		if err := <-sent; err != nil {
			return fmt.Errorf("send: %w", err)
		}
	}
	return nil
}
