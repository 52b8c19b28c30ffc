package authz_test

import (
	"context"
	"sync"
	"testing"

	usher "github.com/usher-dev/usher"
	engine "github.com/usher-dev/usher/internal/engine/authz"
	index "github.com/usher-dev/usher/internal/index/authz"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// Requests that are decided at the same time have nothing to do with each other.
func TestDecideAtTheSameTime(t *testing.T) {
	t.Parallel()
	rules := many(2000)
	for _, r := range rules {
		r.Policy.When = []authz.Condition{{Name: "own", Source: "own", Predicate: reads(func(q *authz.Query) bool {
			return q.Namespace.Text == "ns-4"
		})}}
	}
	e := engine.New(index.New(rules), engine.Options{})
	want := []usher.Verdict{usher.Allow, usher.Deny, usher.NoOpinion}
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			all := requests()
			for i := range 500 {
				n := (worker + i) % len(all)
				d, err := e.Decide(t.Context(), all[n])
				if err != nil || d.Verdict != want[n] {
					t.Errorf("request %d: %q, %v, want %q", n, d.Verdict, err, want[n])
					return
				}
			}
		})
	}
	group.Wait()
}

// reads is a predicate that looks at the request.
type reads func(*authz.Query) bool

func (r reads) Holds(_ context.Context, q *authz.Query) (bool, error) { return r(q), nil }
