package authz_test

import (
	"context"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	usher "github.com/usher-dev/usher"
	engine "github.com/usher-dev/usher/internal/engine/authz"
	"github.com/usher-dev/usher/internal/overrun"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// TestConditionsThatNeverEnd: a request is decided in time, by the conditions that have ended.
func TestConditionsThatNeverEnd(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason   string
		policies func(stuck func(source string) func(*authz.Policy)) []*authz.Policy
		want     string
	}{
		{"a deny", func(stuck func(string) func(*authz.Policy)) []*authz.Policy {
			return []*authz.Policy{policy("a", authz.Platform, authz.Allow, when("no", says{})), policy("b", authz.Cluster, authz.Deny, stuck("x"))}
		}, "deny; failed b"},
		{"a deny that skips errors, and an allow that needs no condition", func(stuck func(string) func(*authz.Policy)) []*authz.Policy {
			return []*authz.Policy{policy("a", authz.Platform, authz.Deny, skipping, stuck("x")), policy("b", authz.Cluster, authz.Allow)}
		}, "allow; failed a (ignored); passed b"},
		{"a condition that was not reached", func(stuck func(string) func(*authz.Policy)) []*authz.Policy {
			return []*authz.Policy{policy("a", authz.Platform, authz.Allow, stuck("x")), policy("b", authz.Cluster, authz.Allow, when("yes", says{holds: true}))}
		}, "none; failed a (ignored); failed b (ignored)"},
		{"a condition that has held", func(stuck func(string) func(*authz.Policy)) []*authz.Policy {
			return []*authz.Policy{
				policy("a", authz.Platform, authz.Allow, when("yes", says{holds: true}), stuck("x")), policy("b", authz.Cluster, authz.Allow, when("yes", says{holds: true})),
			}
		}, "allow; failed a (ignored); passed b"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				end := make(chan struct{})
				defer close(end)
				stuck := func(source string) func(*authz.Policy) {
					return func(p *authz.Policy) {
						p.When = append(p.When, authz.Condition{Name: source, Source: source, Predicate: predicate(func() (bool, error) { <-end; return true, nil })})
					}
				}
				watch := overrun.New(overrun.Options{})
				e := engine.New(matching(test.policies(stuck)...), engine.Options{Overruns: watch})
				ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
				defer cancel()
				began := time.Now()
				d, err := e.Decide(ctx, request("jane"))
				if took := time.Since(began); err != nil || outcome(d) != test.want || took > 600*time.Millisecond {
					t.Errorf("got %s, %v, after %s", outcome(d), err, took)
				}
				x, err := e.Explain(t.Context(), request("ann"))
				if err != nil || x.Decision.Verdict != d.Verdict {
					t.Errorf("explained as %s, %v", outcome(x.Decision), err)
				}
				time.Sleep(time.Second)
				if late := watch.State().Late; len(late) == 0 || late[0].Rule != "x" || late[0].User != "jane" {
					t.Errorf("late are %+v", late)
				}
				// Now the condition is not evaluated at all.
				began = time.Now()
				d, err = e.Decide(t.Context(), request("jane"))
				if err != nil || time.Since(began) > 0 || !strings.Contains(outcome(d), "failed") {
					t.Errorf("then got %s, %v, after %s", outcome(d), err, time.Since(began))
				}
			})
		})
	}
}

// TestNoResultOfAnotherRequest: a request whose time is over before its goroutine begins is not decided by the
// conditions of the request before.
func TestNoResultOfAnotherRequest(t *testing.T) {
	t.Parallel()
	var holds atomic.Bool
	e := engine.New(matching(policy("a", authz.Cluster, authz.Allow, func(p *authz.Policy) {
		p.When = []authz.Condition{{Name: "x", Source: "x", Predicate: predicate(func() (bool, error) { return holds.Load(), nil })}}
	})), engine.Options{Overruns: overrun.New(overrun.Options{})})
	over, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Minute))
	defer cancel()
	for range 200 {
		holds.Store(true)
		if d, err := e.Decide(t.Context(), request("jane")); err != nil || d.Verdict != usher.Allow {
			t.Fatalf("got %s, %v", outcome(d), err)
		}
		holds.Store(false)
		if d, err := e.Decide(over, request("ann")); err != nil || d.Verdict == usher.Allow {
			t.Fatalf("by the condition of another request: got %s, %v", outcome(d), err)
		}
	}
}

// TestConditionsTakeTurns: a condition of a namespace that is not short waits until another one has had its
// turn, one of the cluster does not.
func TestConditionsTakeTurns(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ reason, namespace, want string }{
		{"a namespace", "team-a", "none; failed a (ignored)"},
		{"the cluster", "", "allow; passed a"},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				watch := overrun.New(overrun.Options{})
				for range max(runtime.GOMAXPROCS(0)/2, 1) {
					turn := watch.Turn("team-b")
					if err := turn.Wait(t.Context(), time.Second); err != nil {
						t.Fatal(err)
					}
					defer turn.End()
				}
				p := policy("a", authz.Cluster, authz.Allow)
				p.Ref.Namespace = row.namespace
				p.When = []authz.Condition{{Name: "x", Source: "x", Predicate: long{}}}
				ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
				defer cancel()
				d, err := engine.New(matching(p), engine.Options{Overruns: watch}).Decide(ctx, request("jane"))
				if err != nil || outcome(d) != row.want {
					t.Errorf("got %s, %v", outcome(d), err)
				}
			})
		})
	}
}

// long is a predicate that takes a second of its allowance.
type long struct{}

func (long) Holds(ctx context.Context, q *authz.Query) (bool, error) {
	if q.Allowance == nil {
		return true, nil
	}
	if err := q.Allowance.Take(time.Second, 0); err != nil {
		return false, err
	}
	return true, q.Allowance.Wait(ctx)
}
