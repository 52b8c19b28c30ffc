package doortest

import (
	"context"
	"strings"
	"testing"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/overrun"
	"github.com/usher-dev/usher/internal/rule"
)

// A stuck program does not heed its context.
type stuck struct{ end chan struct{} }

// Run implements [rule.Program].
func (s stuck) Run(context.Context, *rule.Input) (rule.Outcome, error) {
	<-s.end
	return rule.Outcome{}, nil
}

// String implements [rule.Program].
func (stuck) String() string { return "stuck" }

// neverEnds has a policy that never ends decide: at the deadline its failure policy does.
func neverEnds(t *testing.T, open func(t *testing.T, d usher.Decider) Door) {
	for _, phase := range phases() {
		for _, row := range []struct {
			reason  string
			policy  usher.FailurePolicy
			verdict usher.Verdict
		}{
			{"it fails", usher.Fail, usher.Deny},
			{"its failure is ignored", usher.Ignore, usher.Allow},
		} {
			end := make(chan struct{})
			t.Cleanup(func() { close(end) })
			e := engine.New(index.New([]rule.Rule{{
				Policy: usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: "slow"}, Name: "spec", Phase: phase, FailurePolicy: row.policy,
				Steps: []rule.Step{{Program: stuck{end}}},
			}}), nil, engine.Options{Overruns: overrun.New(overrun.Options{})})
			door := open(t, usher.DeciderFunc(func(ctx context.Context, r *usher.Request) (usher.Decision, error) {
				soon, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
				defer cancel()
				return e.Decide(soon, r)
			}))
			got := door.Send(t, request(phase, usher.Create))
			if denied := got.Verdict == usher.Deny; got.Verdict != row.verdict || denied && !(strings.Contains(got.Message, "took too long") && strings.Contains(got.Message, "ClusterObjectPolicy slow")) {
				t.Errorf("%s, %s: %s: %s", phase, row.reason, got.Verdict, got.Message)
			}
		}
	}
}
