package engine_test

import (
	"context"
	"errors"
	"testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/engine"
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
