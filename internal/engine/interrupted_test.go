package engine_test

import (
	"context"
	"errors"
	"testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/rule"
)

// An endingContext is done after it was asked once: while the object is decoded.
type endingContext struct {
	context.Context
	asked bool
}

func (c *endingContext) Err() error {
	if !c.asked {
		c.asked = true
		return nil
	}
	return context.DeadlineExceeded
}

// If the time is over while an object is decoded, nothing is known to be wrong with it: there is
// no decision, and the caller is not told that the request was bad.
func TestInterruptedDecodingIsNoDecision(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason    string
		phase     usher.Phase
		operation usher.Operation
		undecided bool
	}{
		{"validate", usher.Validate, usher.Create, true},
		{"mutate", usher.Mutate, usher.Create, true},
		{"whether to delete", usher.Validate, usher.Delete, true},
		{"what to change about what is deleted", usher.Mutate, usher.Delete, false},
	} {
		r := &usher.Request{Phase: row.phase, Operation: row.operation, Object: usher.RawObject([]byte(`{"kind":`))}
		if row.operation == usher.Delete {
			r.Object, r.OldObject = nil, r.Object
		}
		e := newEngine(row.phase, engine.Options{}, nil, one("a", pass()))
		decision, err := e.Decide(&endingContext{Context: t.Context()}, r)
		if errors.Is(err, context.DeadlineExceeded) != row.undecided {
			t.Errorf("%s: decided %+v, %v", row.reason, decision, err)
		}
	}
}

// TestDeletionThatEnds: a mutation on Delete whose time is over allows the deletion, and names the rule
// that did not run.
func TestDeletionThatEnds(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason string
		rules  func(cancel func()) []rule.Rule
	}{
		{"before the first rule", func(cancel func()) []rule.Rule { cancel(); return []rule.Rule{one("a", pass())} }},
		{"after the first rule", func(cancel func()) []rule.Rule {
			return []rule.Rule{one("a", func(context.Context, *rule.Input) (rule.Outcome, error) { cancel(); return rule.Outcome{}, nil }), one("b", pass())}
		}},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		e := newEngine(usher.Mutate, engine.Options{}, nil, row.rules(cancel)...)
		d, err := e.Decide(ctx, request(usher.Mutate, usher.Delete))
		if err != nil {
			t.Error(row.reason, err)
		}
		for _, f := range d.Findings {
			if f.Policy == (usher.PolicyRef{}) || f.Outcome == "" {
				t.Errorf("%s: a finding without policy and outcome: %+v; audit %v", row.reason, f, d.Audit)
			}
		}
	}
}
