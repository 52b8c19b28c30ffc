package limit_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/usher-dev/usher/internal/limit"
)

// A guarded server bounds its connections.
func guarded(t *testing.T, h http.Handler) (*limit.Conns, *httptest.Server) {
	t.Helper()
	conns := &limit.Conns{}
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.Listener = conns.Guard(s.Config, s.Listener)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	s.Client().Transport.(*http.Transport).TLSClientConfig.ServerName = "example.com"
	return conns, s
}

// dial opens a connection from an address of this machine.
func dial(t *testing.T, s *httptest.Server, from string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.DialContext(t.Context(), "tcp", s.Listener.Addr().String())
	if err != nil {
		t.Skipf("this machine has no address %s: %v", from, err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	answer := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	conns, s := guarded(t, answer)
	// The address with pending handshakes is not the one with the most connections.
	early := dial(t, s, "127.0.0.1")
	poll(t, func() bool { pending, _, _ := conns.Open(); return pending == 1 })
	var silent []net.Conn
	for range 600 {
		silent = append(silent, dial(t, s, "127.0.0.2"))
	}
	poll(t, func() bool { _, _, closed := conns.Open(); return closed == 345 })
	if pending, _, _ := conns.Open(); pending != 256 {
		t.Errorf("%d connections are pending", pending)
	}
	if n, err := silent[0].Read(make([]byte, 1)); err == nil {
		t.Errorf("the oldest connection has %d bytes to read", n)
	}
	c := tls.Client(early, s.Client().Transport.(*http.Transport).TLSClientConfig)
	if _, err := fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if got := status(t, c); got != "HTTP/1.1 200 OK" {
		t.Errorf("the early one is answered %q", got)
	}
	for _, c := range silent {
		_ = c.Close()
	}
	_ = c.Close()
	poll(t, func() bool { pending, calm, _ := conns.Open(); return pending+calm == 0 })
}

func status(t *testing.T, c net.Conn) string {
	t.Helper()
	line := make([]byte, len("HTTP/1.1 200 OK"))
	if _, err := c.Read(line); err != nil {
		t.Fatal(err)
	}
	return string(line)
}

// Who has proved who they are keeps the connection, and who has only been answered once does
// not get another one's place.
func TestConnectionsOfProvenCallersStay(t *testing.T) {
	t.Parallel()
	l := quiet(limit.Options{Provable: true})
	mux := http.NewServeMux()
	answer := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	mux.Handle("/proven", l.Proven(answer))
	mux.Handle("/", answer)
	conns, s := guarded(t, mux)
	config := s.Client().Transport.(*http.Transport).TLSClientConfig
	ask := func(path string) net.Conn {
		c := tls.Client(dial(t, s, "127.0.0.1"), config)
		if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
			t.Fatal(err)
		}
		if got := status(t, c); got != "HTTP/1.1 200 OK" {
			t.Errorf("answered %q", got)
		}
		return c
	}
	proven := ask("/proven")
	if pending, calm, _ := conns.Open(); pending+calm != 0 {
		t.Errorf("a proven caller is counted: %d, %d", pending, calm)
	}
	ask("/")
	poll(t, func() bool { pending, calm, _ := conns.Open(); return pending == 0 && calm == 1 })
	for range 300 {
		dial(t, s, "127.0.0.1")
	}
	poll(t, func() bool { _, _, closed := conns.Open(); return closed == 300-256 })
	if _, err := fmt.Fprintf(proven, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Error(err)
	}
	// What is left of the first answer comes before.
	if n, err := proven.Read(make([]byte, 4096)); n == 0 || err != nil {
		t.Errorf("the proven connection gives %d bytes, %v", n, err)
	}
}
