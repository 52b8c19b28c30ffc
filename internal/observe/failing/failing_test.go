package failing_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/observe/failing"
	"github.com/usher-dev/usher/internal/rule"
)

const canary = "hunter2"

var team = usher.PolicyRef{Kind: "ClusterValidatePolicy", Name: "require-team"}

func inForce(policy usher.PolicyRef, generation int64) rule.State {
	return rule.State{Policy: policy, UID: types.UID("uid-" + policy.Name), Generation: generation, Compiled: true, Enforced: true}
}

func pod() *usher.Request {
	return &usher.Request{
		Operation: usher.Create, Kind: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, Namespace: "shop", Name: "cart",
		Object: usher.TreeObject(map[string]any{"data": canary}),
	}
}

func failed(err error) usher.Finding {
	return usher.Finding{Policy: team, Rule: "spec.validateRules[0]", Outcome: usher.Failed, Err: err}
}

// decide has a tracker see findings.
func decide(t *testing.T, tracker *failing.Tracker, r *usher.Request, findings ...usher.Finding) {
	t.Helper()
	d := tracker.Wrap(usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) {
		return usher.Decision{Verdict: usher.Allow, Findings: findings}, nil
	}))
	got, err := d.Decide(t.Context(), r)
	if err != nil || got.Verdict != usher.Allow || len(got.Findings) != len(findings) {
		t.Errorf("the decision has changed: %v, %v", got, err)
	}
}

// text is what a tracker says in lines.
func text(tracker *failing.Tracker) string {
	var lines []string
	for _, f := range tracker.Failures() {
		lines = append(lines, fmt.Sprintf("%s/%d %s %d: %s: %s", f.UID, f.Generation, f.Rule, f.Count, f.Example, f.Error))
	}
	return strings.Join(lines, "\n")
}

func TestFailures(t *testing.T) {
	t.Parallel()
	passed := failed(nil)
	passed.Outcome = usher.Passed
	confidential := failed(errors.New("value " + canary))
	confidential.Confidential = true
	written := failed(errors.New("x"))
	written.Written = true
	otherRule := passed
	otherRule.Rule = "spec.validateRules[1]"
	dry, secret, long := pod(), pod(), pod()
	dry.DryRun, secret.Kind.Kind, long.Name = true, "Secret", strings.Repeat("n\n", 1000)
	exec := pod()
	exec.Operation, exec.Kind.Kind, exec.Subresource = usher.Connect, "PodExecOptions", "exec"
	tests := []struct {
		request  *usher.Request
		findings []usher.Finding
		want     string
		reason   string
	}{
		{pod(), []usher.Finding{passed}, "", "a rule that works"},
		{pod(), []usher.Finding{failed(errors.New(`conflicting values "` + canary + `" and int`)), passed},
			"uid-require-team/3 spec.validateRules[0] 1: CREATE Pod shop/cart: conflicting values (…) and int", "a rule that fails, without values"},
		{pod(), []usher.Finding{confidential},
			"uid-require-team/3 spec.validateRules[0] 1: CREATE Pod shop/cart: not shown: it may repeat a secret", "a rule that has read a secret"},
		{secret, []usher.Finding{failed(errors.New(canary))},
			"uid-require-team/3 spec.validateRules[0] 1: CREATE Secret shop/cart: not shown: it may repeat a secret", "an object that is a secret"},
		{exec, []usher.Finding{failed(errors.New("x"))},
			"uid-require-team/3 spec.validateRules[0] 1: CONNECT PodExecOptions/exec shop/cart: x", "a subresource"},
		{pod(), []usher.Finding{{Policy: team, Rule: "binding b", Outcome: usher.Rejected, Checks: []usher.Check{{Message: "at most 3"}}}}, "", "a part that denies"},
		{pod(), []usher.Finding{{Policy: team, Rule: "binding b", Outcome: usher.Passed, Checks: []usher.Check{{Message: "at most 3"}, {Message: "no such key: x", Failed: true}}}},
			"uid-require-team/3 binding b 1: CREATE Pod shop/cart: no such key: x", "a part that fails, whatever follows from that"},
		{dry, []usher.Finding{failed(fmt.Errorf("fact: %w", fact.ErrDryRun))}, "", "what is not requested in a dry run"},
		{pod(), []usher.Finding{failed(fmt.Errorf("took too long: %w", rule.ErrUnreached))}, "", "a rule that was not reached, since others took the time"},
		{dry, []usher.Finding{failed(errors.New("x"))},
			"uid-require-team/3 spec.validateRules[0] 1: CREATE Pod shop/cart: x", "a dry run shows other failures, too"},
		{pod(), []usher.Finding{written}, "", "a policy that is written"},
		{pod(), []usher.Finding{{Policy: usher.PolicyRef{Kind: "OverridePolicy", Name: "gone"}, Outcome: usher.Failed}}, "", "a policy that is not in force"},
		{long, []usher.Finding{failed(errors.New("x"))},
			"uid-require-team/3 spec.validateRules[0] 1: CREATE Pod shop/" + strings.Repeat("n ", 140) + "n…: x", "a long name, as clients of access reviews may give one"},
	}
	for _, test := range tests {
		tracker := failing.New(nil)
		tracker.Keep([]rule.State{inForce(team, 3)})
		decide(t, tracker, test.request, test.findings...)
		if got := text(tracker); got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.reason, got, test.want)
		}
	}
}

// TestRecovery: a rule that has worked again, and has not failed for a minute, is over it.
func TestRecovery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := 0
		tracker := failing.New(func() { began++ })
		tracker.Keep([]rule.State{inForce(team, 3)})
		passed, other := failed(nil), failed(nil)
		passed.Outcome, other.Outcome, other.Rule = usher.Passed, usher.Rejected, "spec.validateRules[1]"
		skipped := failed(nil)
		skipped.Outcome, skipped.Message, skipped.Condition = usher.Skipped, "match condition sold is false", "sold"
		step := func(want int, what string) {
			t.Helper()
			if got := tracker.Count(); got != want {
				t.Errorf("%s: %d policies fail, want %d", what, got, want)
			}
		}
		decide(t, tracker, pod(), failed(errors.New("x")))
		decide(t, tracker, pod(), failed(errors.New("x")))
		step(1, "failed")
		time.Sleep(5 * time.Minute)
		decide(t, tracker, pod(), other)
		step(1, "another rule works")
		decide(t, tracker, pod(), failed(errors.New("x")))
		decide(t, tracker, pod(), passed)
		step(1, "it fails for some objects and works for others")
		decide(t, tracker, pod(), failed(errors.New("x")))
		decide(t, tracker, pod(), skipped)
		time.Sleep(time.Minute)
		step(1, "it is not for other objects")
		decide(t, tracker, pod(), passed)
		time.Sleep(time.Minute)
		step(0, "it has worked, and not failed for a minute")
		decide(t, tracker, pod(), failed(errors.New("x")))
		if fs := tracker.Failures(); len(fs) != 1 || fs[0].Count != 1 || began != 2 {
			t.Errorf("it fails again: %v, began %d times, want a new count", fs, began)
		}
		tracker.Keep([]rule.State{inForce(team, 3)})
		step(1, "another policy has changed")
		tracker.Keep([]rule.State{inForce(team, 4)})
		step(0, "it has been edited")
		if fs := tracker.Failures(); len(fs) != 1 || fs[0].Generation != 4 || !fs[0].Last.IsZero() || began != 2 {
			t.Errorf("it has been edited: %v, began %d times, want a version that no request has met", fs, began)
		}
		decide(t, tracker, pod(), skipped)
		if fs := tracker.Failures(); len(fs) != 1 || !fs[0].Last.IsZero() || began != 2 {
			t.Errorf("a request that it is not for: %v, began %d times, want a version that no request has met", fs, began)
		}
		decide(t, tracker, pod(), other)
		decide(t, tracker, pod(), passed)
		if fs := tracker.Failures(); len(fs) != 1 || fs[0].Count != 0 || !fs[0].Last.Equal(time.Now()) || began != 3 {
			t.Errorf("a request has met it: %v, began %d times, want a time, told once", fs, began)
		}
		decide(t, tracker, pod(), failed(errors.New("x")))
		step(1, "the edited one fails, too")
		time.Sleep(time.Hour)
		step(0, "nothing has been heard for an hour")
		tracker.Await(team)
		if fs := tracker.Failures(); len(fs) != 1 || fs[0].Count != 0 || fs[0].Generation != 4 {
			t.Errorf("requests are awaited: %v", fs)
		}
		tracker.Keep(nil)
		if fs := tracker.Failures(); len(fs) > 0 {
			t.Errorf("the policy is gone: %v", fs)
		}
	})
}

// TestRefusalsAreToldFirst: a failure that was ignored is told only while no rule refuses requests, and the other way round at once.
func TestRefusalsAreToldFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tracker := failing.New(nil)
		tracker.Keep([]rule.State{inForce(team, 1)})
		ignored, refuses, works := failed(errors.New("x")), failed(errors.New("y")), failed(nil)
		ignored.Rule, ignored.Ignored, works.Outcome = "spec.podTemplates", true, usher.Passed
		for i, step := range []struct {
			finding usher.Finding
			want    string
			ignored bool
		}{
			{ignored, "spec.podTemplates 1: CREATE Pod shop/cart: x", true},
			{refuses, "spec.validateRules[0] 2: CREATE Pod shop/cart: y", false},
			{ignored, "spec.validateRules[0] 3: CREATE Pod shop/cart: y", false},
			{works, "spec.validateRules[0] 3: CREATE Pod shop/cart: y", false},
			{ignored, "spec.podTemplates 4: CREATE Pod shop/cart: x", true},
			{refuses, "spec.validateRules[0] 5: CREATE Pod shop/cart: y", false},
		} {
			decide(t, tracker, pod(), step.finding)
			if fs := tracker.Failures(); len(fs) != 1 || text(tracker) != "uid-require-team/1 "+step.want || fs[0].Ignored != step.ignored {
				t.Errorf("step %d: %s, ignored: %t, want %s, %t", i, text(tracker), fs[0].Ignored, step.want, step.ignored)
			}
		}
	})
}

// TestTheLastOfAFew: the example is of the last failure, however soon it came after those before.
func TestTheLastOfAFew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tracker := failing.New(nil)
		tracker.Keep([]rule.State{inForce(team, 1)})
		for i := range 3 {
			r, made := pod(), 0
			r.Name = fmt.Sprint("pod-", i)
			decide(t, tracker, r, failed(&counted{made: &made}))
		}
		if fs := tracker.Failures(); len(fs) != 1 || fs[0].Count != 3 || fs[0].Example != "CREATE Pod shop/pod-2" {
			t.Errorf("got %v", fs)
		}
	})
}

// TestFloodOfFailures: what is kept of failures that clients cause does not grow with them.
func TestFloodOfFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tracker := failing.New(nil)
		tracker.Keep([]rule.State{inForce(team, 1)})
		made := 0
		costly := &counted{made: &made}
		for i := range 10_000 {
			r := pod()
			r.Name = fmt.Sprint("pod-", i)
			decide(t, tracker, r, failed(costly))
		}
		fs := tracker.Failures()
		if len(fs) != 1 || fs[0].Count != 10_000 || made != 16 {
			t.Errorf("%d entries, %d texts made, want 1 and 16: %v", len(fs), made, fs)
		}
	})
}

// counted counts how often its text is made.
type counted struct{ made *int }

func (c *counted) Error() string { *c.made++; return "x" }
