package live_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/live"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/trial"
)

// slow is a policy whose CUE needs CUE's evaluator.
func slow(name, value string) api.Policy {
	return policy(name, `{"cue": "object: _\n#V: \"`+value+`\"\npatches: [{op: \"add\", path: \"/metadata/labels/slow\", value: #V}]"}`)
}

// impatient returns a harness whose first update waits for nothing.
func impatient(t *testing.T, a *script) *harness {
	t.Helper()
	h := &harness{t: t, log: &recorder{}, updates: make(chan live.Status, 100)}
	h.live = live.New(live.Options{
		CompileTimeout: time.Nanosecond,
		// The process that evaluates CUE may start slowly.
		Engine:   engine.Options{RuleTimeout: time.Minute},
		Log:      slog.New(slog.NewJSONHandler(h.log, nil)),
		OnUpdate: func(s live.Status) { h.updates <- s },
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.live.Run(ctx, a) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	return h
}

// A policy that is not compiled in time always fails until it is; the others are in force.
func TestPoliciesAreCompiledInTheBackground(t *testing.T) {
	t.Parallel()
	a := newScript()
	h := impatient(t, a)
	a.update(set(slow("a", "1"), label("b", "x", "1")))
	status := h.next()
	want := []usher.PolicyRef{{Kind: "ClusterOverridePolicy", Name: "a"}}
	if d := cmp.Diff(want, status.Pending); d != "" || len(status.Problems) != 1 || !status.Problems[0].Pending {
		t.Errorf("problems %v, pending (-want +got):\n%s", status.Problems, d)
	}
	policies := h.live.Policies()
	d, err := h.live.Decide(t.Context(), createPod())
	// On a busy machine the policy may be compiled by now.
	if h.live.Status().Generation == status.Generation {
		for _, p := range policies {
			if pending := p.Policy.Name == "a"; p.Compiled == pending || p.Enforced == pending {
				t.Errorf("%s: compiled %t, enforced %t", p.Policy, p.Compiled, p.Enforced)
			}
		}
		if err != nil || d.Verdict != usher.Deny || !strings.Contains(d.Message, "has not been checked yet") {
			t.Errorf("decision %v, %v: it is not left to the failure policy", d, err)
		}
	}

	for len(status.Pending) > 0 {
		status = h.next()
	}
	if len(status.Problems) > 0 {
		t.Errorf("problems are left: %v", status.Problems)
	}
	h.wantPatch(`[{"op":"add","path":"/metadata/labels/slow","value":"1"},{"op":"add","path":"/metadata/labels/x","value":"1"}]`)

	a.update(set(slow("a", "2")))
	for status = h.next(); len(status.Pending) > 0; {
		status = h.next()
	}
	h.wantPatch(`[{"op":"add","path":"/metadata/labels/slow","value":"2"}]`)
}

// What compiling, or trying, a policy came to because Run ended is no problem of the policy.
func TestTheEndIsNoProblem(t *testing.T) {
	t.Parallel()
	for _, last := range []compile.Depth{compile.Compiling, compile.Trying} {
		entered, a, log := make(chan struct{}), newScript(), &recorder{}
		l := live.New(live.Options{
			Log: slog.New(slog.NewJSONHandler(log, nil)), Stored: trial.New(trial.Options{}),
			Compile: compile.Options{Checker: depthFunc(func(ctx context.Context, depth compile.Depth) compile.Checked {
				if depth != last {
					return compile.Checked{}
				}
				close(entered)
				<-ctx.Done()
				return compile.Checked{Problem: rule.Problem{Pending: true, What: "given up"}}
			})},
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx, a) }()
		a.update(set(label("a", "x", "1")))
		<-entered
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
		if n, found := log.count("policy problem"), live.Problems(l); n != 0 || len(found) != 0 {
			t.Errorf("depth %d: %d problems in the log, %v", last, n, found)
		}
	}
}

type depthFunc func(context.Context, compile.Depth) compile.Checked

func (f depthFunc) Check(ctx context.Context, _ api.Policy, depth compile.Depth) compile.Checked {
	return f(ctx, depth)
}
