package replica

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/usher-dev/usher/cmd/internal/cli"
)

// at returns the replica at a URL.
func (s *Set) at(server string) (*Replica, error) {
	roots, err := cli.RootCAs(s.flags.CAFile)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	return s.replica(server, strings.TrimSuffix(server, "/"), config, (&net.Dialer{Timeout: 10 * time.Second}).DialContext), nil
}

// in returns the replica in a pod. The API server of the kubeconfig connects to the pod, so that it
// is what the namespace of Usher has there; certificates of replicas are for the Service.
func (s *Set) in(pod *corev1.Pod, number int32) (*Replica, error) {
	target := s.kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	dialer, err := newDialer(s.config, target)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true} //nolint:gosec // The API server has verified what it connects to.
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		c, err := forward(ctx, dialer, number)
		if err != nil && isForbidden.MatchString(err.Error()) {
			err = fmt.Errorf("%w; %s", err, s.noRight())
		}
		return c, err
	}
	return s.replica(pod.Name, "https://"+pod.Name, config, dial), nil
}

func (s *Set) replica(name, base string, config *tls.Config, dial func(ctx context.Context, network, address string) (net.Conn, error)) *Replica {
	if own := s.credentials.config; own != nil {
		config.Certificates, config.GetClientCertificate = own.Certificates, own.GetClientCertificate
	}
	return &Replica{Name: name, base: base, credentials: s.credentials, warn: s.warn, client: &http.Client{
		Transport: &http.Transport{
			TLSClientConfig: config, DialContext: dial, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: answerTimeout, IdleConnTimeout: time.Minute,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// isForbidden finds out from the text of an error of an upgrade, which is all that there is, that the API server
// has denied it.
var isForbidden = regexp.MustCompile(`\b[Ff]orbidden\b`)

// newDialer returns what opens streams to a pod, as kubectl does: by a WebSocket, or by SPDY through
// what does not know these.
func newDialer(config *rest.Config, target *url.URL) (httpstream.Dialer, error) {
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to API server: %w", err)
	}
	older := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, target)
	newer, err := portforward.NewSPDYOverWebsocketDialerForStreaming(target, config)
	if err != nil {
		return nil, fmt.Errorf("connect to API server: %w", err)
	}
	return portforward.NewFallbackDialerForStreaming(newer, older, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}

// forward opens a connection to a port of a pod.
func forward(ctx context.Context, dialer httpstream.Dialer, number int32) (net.Conn, error) {
	type dialed struct {
		tunnel httpstream.Connection
		err    error
	}
	result := make(chan dialed, 1)
	go func() {
		tunnel, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
		result <- dialed{tunnel, err}
	}()
	var d dialed
	select {
	case d = <-result:
	case <-ctx.Done():
		go func() {
			if late := <-result; late.err == nil {
				_ = late.tunnel.Close()
			}
		}()
		return nil, ctx.Err()
	}
	if d.err != nil {
		return nil, fmt.Errorf("forward port %d: %w", number, d.err)
	}
	c, err := open(d.tunnel, number)
	if err != nil {
		_ = d.tunnel.Close()
		return nil, fmt.Errorf("forward port %d: %w", number, err)
	}
	return c, nil
}

// open opens the two streams of a connection in a tunnel.
func open(tunnel httpstream.Connection, number int32) (net.Conn, error) {
	header := http.Header{}
	header.Set(corev1.PortHeader, strconv.Itoa(int(number)))
	header.Set(corev1.PortForwardRequestIDHeader, "0")
	header.Set(corev1.StreamType, corev1.StreamTypeError)
	failures, err := tunnel.CreateStream(header)
	if err != nil {
		return nil, err
	}
	// Nothing is written to it.
	_ = failures.Close()
	header.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := tunnel.CreateStream(header)
	if err != nil {
		return nil, err
	}
	c := &conn{Stream: data, tunnel: tunnel, failed: make(chan error, 1)}
	go func() {
		text, err := io.ReadAll(io.LimitReader(failures, 4<<10))
		if err == nil && len(text) > 0 {
			err = errors.New(string(text))
		}
		c.failed <- err
		if err != nil {
			_ = tunnel.Close()
		}
	}()
	return c, nil
}

// A conn is a connection to a port of a pod. It has no deadlines.
type conn struct {
	httpstream.Stream

	tunnel httpstream.Connection
	failed chan error
}

// Read implements [net.Conn]. Its error is that of the node, if there is one.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Stream.Read(p)
	if err != nil {
		select {
		case failed := <-c.failed:
			if failed != nil {
				err = failed
			}
		default:
		}
	}
	return n, err
}

// Close implements [net.Conn].
func (c *conn) Close() error { return c.tunnel.Close() }

// LocalAddr implements [net.Conn].
func (c *conn) LocalAddr() net.Addr { return &net.TCPAddr{} }

// RemoteAddr implements [net.Conn].
func (c *conn) RemoteAddr() net.Addr { return &net.TCPAddr{} }

// SetDeadline implements [net.Conn].
func (c *conn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements [net.Conn].
func (c *conn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements [net.Conn].
func (c *conn) SetWriteDeadline(time.Time) error { return nil }
