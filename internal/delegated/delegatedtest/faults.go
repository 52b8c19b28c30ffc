package delegatedtest

import (
	"context"
	"crypto/tls"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/usher-dev/usher/internal/delegated"
)

// with returns a client that shows a certificate, on connections of its own.
func (s *server) with(certificate tls.Certificate) *server {
	transport := s.client.Transport.(*http.Transport).Clone()
	transport.TLSClientConfig.Certificates = []tls.Certificate{certificate}
	client := *s.client
	client.Transport = transport
	return &server{Cluster: s.Cluster, url: s.url, client: &client}
}

func testCertificates(t *testing.T, resource string, handler http.Handler) {
	cluster := NewCluster(t)
	s := start(t, cluster, resource, handler, delegated.Options{})
	cluster.Grant("admin", "list", resource, "")
	path := "/usher/v1/" + resource
	known := s.with(cluster.Certificate(t, "admin"))
	poll(t, "the CA of the cluster is read", func() bool { return !refused(known.ask(t, http.MethodGet, path, "")) })
	for _, row := range []struct {
		reason string
		client *server
		token  string
		want   int
	}{
		{"no certificate", s, "", http.StatusUnauthorized},
		{"a certificate of another CA", s.with(OtherCertificate(t, "admin")), "", http.StatusUnauthorized},
		{"a certificate of somebody without rights", s.with(cluster.Certificate(t, "nobody")), "", http.StatusForbidden},
		{"a certificate without name", s.with(cluster.Certificate(t, "")), "", http.StatusUnauthorized},
		{"the certificate counts, beside a token", s.with(cluster.Certificate(t, "nobody")), cluster.Token("admin", Audience), http.StatusForbidden},
	} {
		s.requests()
		if code := row.client.ask(t, http.MethodGet, path, row.token); code != row.want || len(s.requests()) > 0 {
			t.Errorf("%s: status %d, want %d", row.reason, code, row.want)
		}
	}
}

// testOutage stops the API server.
func testOutage(t *testing.T, resource string, handler http.Handler) {
	cluster := NewCluster(t)
	s := start(t, cluster, resource, handler, delegated.Options{TTL: time.Nanosecond})
	cluster.Grant("admin", "list", resource, "")
	path, token := "/usher/v1/"+resource, cluster.Token("admin", Audience)
	if code := s.ask(t, http.MethodGet, path, token); refused(code) {
		t.Fatalf("before the outage: status %d", code)
	}
	s.requests()
	cluster.Down(true)
	for reason, sent := range map[string]string{"a token that was known": token, "a token that was not": "x"} {
		if code := s.ask(t, http.MethodGet, path, sent); code != http.StatusServiceUnavailable || len(s.requests()) > 0 {
			t.Errorf("%s, without API server: status %d, want 503", reason, code)
		}
	}
	if code := s.ask(t, http.MethodGet, path, ""); code != http.StatusUnauthorized {
		t.Errorf("no token, without API server: status %d, want 401", code)
	}
	cluster.Down(false)
	if code := s.ask(t, http.MethodGet, path, token); refused(code) {
		t.Errorf("after the outage: status %d", code)
	}
}

func testRevocation(t *testing.T, resource string, handler http.Handler) {
	path := "/usher/v1/" + resource
	t.Run("answers are used again", func(t *testing.T) {
		t.Parallel()
		cluster := NewCluster(t)
		s := start(t, cluster, resource, handler, delegated.Options{TTL: time.Hour})
		cluster.Grant("admin", "list", resource, "")
		token, wrong := cluster.Token("admin", Audience), cluster.Token("nobody", Audience)
		for range 5 {
			s.ask(t, http.MethodGet, path, token)
			s.ask(t, http.MethodGet, path, wrong)
			s.ask(t, http.MethodGet, path, "forged")
		}
		if tokens, rights := cluster.Asked("tokenreviews"), cluster.Asked("subjectaccessreviews"); tokens != 3 || rights != 2 {
			t.Errorf("the API server was asked %d times about tokens and %d times about rights, want 3 and 2", tokens, rights)
		}
	})
	for reason, revoke := range map[string]func(c *Cluster, token string){
		"the right is taken away": func(c *Cluster, _ string) { c.Deny("admin") },
		"the token is revoked":    func(c *Cluster, token string) { c.Revoke(token) },
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			cluster := NewCluster(t)
			s := start(t, cluster, resource, handler, delegated.Options{TTL: 50 * time.Millisecond})
			cluster.Grant("admin", "list", resource, "")
			token := cluster.Token("admin", Audience)
			if code := s.ask(t, http.MethodGet, path, token); refused(code) {
				t.Fatalf("before: status %d", code)
			}
			revoke(cluster, token)
			poll(t, reason, func() bool { return refused(s.ask(t, http.MethodGet, path, token)) })
		})
	}
}

// testManyCallers has the API server answer nothing while more ask than are served.
func testManyCallers(t *testing.T, resource string, handler http.Handler) {
	const inFlight, callers = 4, 40
	cluster := NewCluster(t)
	s := start(t, cluster, resource, handler, delegated.Options{MaxInFlight: inFlight})
	cluster.Grant("admin", "list", resource, "")
	path := "/usher/v1/" + resource
	release := cluster.Hold()
	defer release()
	var asking sync.WaitGroup
	codes := make(chan int, callers)
	for range callers {
		token := cluster.Token("admin", Audience)
		asking.Go(func() { codes <- s.ask(t, http.MethodGet, path, token) })
	}
	// Callers that disconnect do not release capacity for others.
	gone, cancel := context.WithCancel(t.Context())
	for range callers {
		asking.Go(func() {
			r, err := http.NewRequestWithContext(gone, http.MethodGet, s.url+path, nil)
			if err != nil {
				return
			}
			r.Header.Set("Authorization", "Bearer "+cluster.Token("admin", Audience))
			if response, err := s.client.Do(r); err == nil {
				_ = response.Body.Close()
			}
		})
	}
	poll(t, "reviews are held", func() bool { now, _ := cluster.Held(); return now > 0 })
	cancel()
	excess := 0
	for range callers - inFlight {
		if code := <-codes; code == http.StatusTooManyRequests {
			excess++
		}
	}
	if _, most := cluster.Held(); most > inFlight {
		t.Errorf("%d questions to the API server were under way, want %d at most", most, inFlight)
	}
	release()
	asking.Wait()
	if excess == 0 {
		t.Error("nobody was told to try again")
	}
	// Those who disconnected may be served for a moment longer than they wait.
	poll(t, "requests are answered again", func() bool {
		return !refused(s.ask(t, http.MethodGet, path, cluster.Token("admin", Audience)))
	})
}

// poll waits until something is so.
func poll(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(timeout); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", timeout, what)
		}
	}
}
