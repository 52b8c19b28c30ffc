package serve_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/overrun"
	"github.com/usher-dev/usher/internal/serve"
)

// TestReplacement: a server ends if evaluations do not, but not within ten minutes of its start, and not at
// the same time as others.
func TestReplacement(t *testing.T) {
	t.Parallel()
	const never = time.Duration(-1)
	for _, row := range []struct {
		reason string
		// count evaluations are due at a time after the start, and end at another one, or never.
		count    int
		due, end time.Duration
		// The server ends between these times, or never.
		least, most time.Duration
	}{
		{"nothing is late", 0, 0, never, never, never},
		{"one is late for a while", 1, 20 * time.Minute, 20*time.Minute + 20*time.Second, never, never},
		{"one does not end", 1, 20 * time.Minute, never, 20*time.Minute + 30*time.Second, 22 * time.Minute},
		{"one does not end, soon after the start", 1, time.Minute, never, 10 * time.Minute, 11 * time.Minute},
		{"one ends before the server is old enough", 1, time.Minute, 9 * time.Minute, never, never},
		{"many are late at once", 5, 20 * time.Minute, never, 20 * time.Minute, 21*time.Minute + 20*time.Second},
		{"some are late at once", 4, 20 * time.Minute, 20*time.Minute + 20*time.Second, never, never},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				state := func() overrun.State {
					age := time.Since(began)
					if age < row.due || row.end != never && age >= row.end {
						return overrun.State{}
					}
					s := overrun.State{}
					for range row.count {
						s.Late = append(s.Late, overrun.Overrun{Due: began.Add(row.due)})
					}
					return s
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				ended := serve.AwaitSickness(ctx, state, slog.New(slog.DiscardHandler))
				after := time.Since(began)
				if ended != (row.least != never) || ended && (after < row.least || after > row.most) {
					t.Errorf("ended: %t, after %s", ended, after)
				}
			})
		})
	}
}

// TestReadinessTellsOfOverruns: the server stays ready, and names policies only to who asks for more.
func TestReadinessTellsOfOverruns(t *testing.T) {
	t.Parallel()
	h := start(t, serve.Config{Policies: []string{t.TempDir()}})
	h.eventually("it is ready", func() bool { return h.status("/readyz") == 200 })
	began, end := make(chan struct{}), make(chan struct{})
	defer close(end)
	g := h.server.Overruns().Go(func() {
		close(began)
		<-end
	})
	<-began
	g.Leave(overrun.Overrun{Policy: usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: "slow"}, Rule: "spec", User: "mallory", Due: time.Now().Add(-time.Minute)})
	h.eventually("it is late", func() bool { return len(h.server.Overruns().State().Late) == 1 })
	if text := h.get("/readyz"); h.status("/readyz") != 200 || !strings.Contains(text, "evaluations that go on after their time: 1\n") || strings.Contains(text, "slow") {
		t.Errorf("it says:\n%s", text)
	}
	if text := h.get("/readyz?verbose"); !strings.Contains(text, `ClusterObjectPolicy slow spec, for mallory in "", since `) {
		t.Errorf("verbose:\n%s", text)
	}
	h.eventually("the log has the stack", func() bool {
		log := h.log.String()
		return strings.Contains(log, "evaluation goes on after its time") && strings.Contains(log, "TestReadinessTellsOfOverruns")
	})
}
