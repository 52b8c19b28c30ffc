package serve_test

import (
	"context"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/usher-dev/usher/internal/attack"
	"github.com/usher-dev/usher/internal/limit"
	"github.com/usher-dev/usher/internal/serve"
)

// Attackers who have what honest callers have, but their address, keep none of these from
// being answered, and take no more memory than there is for them.
func TestAttackersKeepNobodyFromBeingAnswered(t *testing.T) {
	const attacker = "127.0.0.2"
	if l, err := net.Listen("tcp", attacker+":0"); err != nil {
		t.Skipf("this machine has no address %s: %v", attacker, err)
	} else if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	policies := t.TempDir()
	write(t, policies+"/label.yaml", label("honest"))
	unlimited := debug.SetMemoryLimit(256 << 20)
	h := start(t, serve.Config{Policies: []string{policies}})
	debug.SetMemoryLimit(unlimited)
	h.eventually("the server is ready", func() bool { return h.status("/readyz") == http.StatusOK })
	limits, conns := h.server.Limits()
	for _, a := range attack.All() {
		t.Run(a.Name, func(t *testing.T) {
			target := &attack.Target{
				Address: strings.TrimPrefix(h.server.URL(), "https://"), TLS: h.client.Transport.(*http.Transport).TLSClientConfig,
				From: attacker, Path: "/mutate",
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var attackers sync.WaitGroup
			parallel := 20
			if a.Heavy {
				parallel = 4
			}
			attackers.Go(func() { a.Run(ctx, target, parallel) })
			h.eventually("all attackers are there", func() bool { return target.Arrived.Load() >= int64(parallel) })
			honest(t, h, limits, conns)
			cancel()
			attackers.Wait()
			var use limit.Use
			var pending int
			defer func() {
				if t.Failed() {
					t.Errorf("there is still taken %+v, with %d pending connections", use, pending)
				}
			}()
			h.eventually("everything is given back", func() bool {
				use = limits.Use()
				pending, _, _ = conns.Open()
				return use.Bytes == 0 && use.Slots == 0 && use.Waiting == 0 && pending == 0
			})
		})
	}
	h.stop()
}

// honest asks on connections that are kept and on new ones.
func honest(t *testing.T, h *harness, limits *limit.Limiter, conns *limit.Conns) {
	t.Helper()
	review := read(t, reviews+"v1-create-pods.json")
	for i := range 10 {
		if i%5 == 0 {
			h.client.CloseIdleConnections()
		}
		body, response := h.post("/mutate?timeout=20s", review)
		if response == nil || response.StatusCode != http.StatusOK || !strings.Contains(body, `"patch"`) {
			t.Errorf("an honest caller is answered %s", body)
		}
		use := limits.Use()
		if pending, calm, _ := conns.Open(); use.Bytes > use.MaxBytes || use.Slots > use.MaxSlots || pending > 256 || calm > 512 {
			t.Errorf("there is taken %+v, with %d and %d connections", use, pending, calm)
		}
	}
}

// The same for authorization webhooks, with all attacks at once.
func TestAttackersKeepNobodyFromBeingAuthorized(t *testing.T) {
	t.Parallel()
	const attacker, review = "127.0.0.2", `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview",` +
		`"spec":{"user":"alice","resourceAttributes":{"verb":"get","resource":"pods","namespace":"shop"}}}`
	if l, err := net.Listen("tcp", attacker+":0"); err != nil {
		t.Skipf("this machine has no address %s: %v", attacker, err)
	} else if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	policies := t.TempDir()
	write(t, policies+"/label.yaml", label("honest"))
	h := start(t, serve.Config{Policies: []string{policies}, Authorization: &serve.Authorization{Address: "127.0.0.1:0", Requests: serve.Requests{Timeout: 20 * time.Second}}})
	h.eventually("the server is ready", func() bool { return h.status("/readyz") == http.StatusOK })
	url := h.server.AuthorizationURL()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	there := make(chan struct{})
	var attackers sync.WaitGroup
	attackers.Go(func() {
		attack.RunAll(ctx, func() *attack.Target {
			return &attack.Target{
				Address: strings.TrimPrefix(url, "https://"), TLS: h.client.Transport.(*http.Transport).TLSClientConfig, From: attacker, Path: "/authorize",
			}
		}, func() { close(there) })
	})
	receive(t, there)
	for i := range 20 {
		if i%5 == 0 {
			h.client.CloseIdleConnections()
		}
		body, response := h.answer(h.client.Post(url+"/authorize", "application/json", strings.NewReader(review)))
		if response == nil || response.StatusCode != http.StatusOK || !strings.Contains(body, `"allowed":false`) {
			t.Errorf("an honest caller is answered %s", body)
		}
	}
	limits, _ := h.server.Limits()
	if use := limits.Use(); use.Bytes > use.MaxBytes {
		t.Errorf("reviews take %d bytes of %d", use.Bytes, use.MaxBytes)
	}
	cancel()
	attackers.Wait()
	h.eventually("everything is given back", func() bool {
		return limits.Use().Bytes == 0 && strings.Contains(h.metrics(), `usher_unproven_connections{server="authorization",state="pending"} 0`)
	})
	for _, want := range []string{"usher_request_memory_bytes 0", "usher_requests_waiting 0", `usher_closed_connections_total{server="authorization"}`} {
		if got := h.metrics(); !strings.Contains(got, want) {
			t.Errorf("metrics have no %s", want)
		}
	}
	if lines := strings.Count(h.log.String(), "is not an access review"); lines == 0 || lines > 50 {
		t.Errorf("attackers make %d lines about requests that are no reviews", lines)
	}
	h.stop()
}
