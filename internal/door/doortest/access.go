package doortest

import (
	"context"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/policytest"
)

// An AccessDoor sends an authorization request to the decider behind it, and returns the response
// as its callers see it. It is safe for concurrent use.
type AccessDoor interface {
	Ask(t *testing.T, r *usher.Request) AccessAnswer
}

// An AccessAnswer is the response to an authorization request.
type AccessAnswer struct {
	Verdict usher.Verdict
	// Reason is the reason in the response.
	Reason string
}

// AccessOptions are the limits of a door. The zero value is a door without limits.
type AccessOptions struct {
	// Unsent, if not nil, returns why the door's protocol cannot carry a request; empty if it can.
	Unsent func(r *usher.Request) string
	// Apart reports that the door calls the engine, not the decider, and has no reason if it has no
	// opinion.
	Apart bool
}

// Access sends the requests of tests of authorization policies through doors, one for each,
// and compares the answer with the decision. It returns how many were sent; tests of
// something else are left out.
func Access(t *testing.T, tests []policytest.Test, o AccessOptions, open func(t *testing.T, s policytest.AccessSetup, d usher.Decider) AccessDoor) int {
	t.Helper()
	sent := 0
	var mu sync.Mutex
	t.Run("tests", func(t *testing.T) {
		for _, test := range tests {
			setup, ok := test.Access()
			if !ok {
				continue
			}
			t.Run(test.Name, func(t *testing.T) {
				t.Parallel()
				if test.Skip != "" {
					t.Skip(test.Skip)
				}
				if o.Unsent != nil {
					if reason := o.Unsent(setup.Request); reason != "" {
						t.Skip(reason)
					}
				}
				o.ask(t, setup, open)
				mu.Lock()
				defer mu.Unlock()
				sent++
			})
		}
	})
	return sent
}

func (o *AccessOptions) ask(t *testing.T, setup policytest.AccessSetup, open func(t *testing.T, s policytest.AccessSetup, d usher.Decider) AccessDoor) {
	t.Helper()
	w := &witness{decider: setup.Engine}
	got := open(t, setup, w).Ask(t, setup.Request)
	seen, _ := w.saw()
	switch {
	case seen == nil && !o.Apart:
		t.Fatal("the decider was not asked")
	case seen != nil:
		if diff := cmp.Diff(question(setup.Request), question(seen), cmpopts.EquateEmpty(), cmpopts.SortSlices(sooner)); diff != "" {
			t.Errorf("-asked +seen:\n%s", diff)
		}
	}
	d, err := setup.Engine.Decide(context.Background(), setup.Request)
	if err != nil {
		t.Fatal(err)
	}
	want := AccessAnswer{Verdict: d.Verdict, Reason: d.Message}
	if o.Apart && d.Verdict == usher.NoOpinion {
		want.Reason, got.Reason = "", ""
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-decided +answered:\n%s", diff)
	}
}

// sooner orders the values of a requirement, which are a set.
func sooner(a, b string) bool { return a < b }

// question is a request in a form that can be compared.
func question(r *usher.Request) map[string]any {
	return map[string]any{
		"resource": r.Resource, "subresource": r.Subresource, "name": r.Name, "namespace": r.Namespace, "user": r.User, "access": *r.Access,
	}
}
