package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/stall"
)

// TestStalledRulesAreNamed: who gives up a decision learns which rule it was at.
func TestStalledRulesAreNamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		stalled := program(func(context.Context, *rule.Input) (rule.Outcome, error) {
			<-release
			return rule.Outcome{}, nil
		})
		e := newEngine(usher.Validate, engine.Options{RuleTimeout: time.Hour}, nil, one("first", pass()), one("second", stalled), one("third", pass()))
		_, err := stall.Within(t.Context(), time.Second, func(ctx context.Context) (usher.Decision, error) {
			return e.Decide(ctx, request(usher.Validate, usher.Create))
		})
		late, ok := errors.AsType[*stall.Error](err)
		if want := policy("second").String() + ": spec.rules[0]"; !ok || late.At != want {
			t.Errorf("error %v, want one at %q", err, want)
		}
	})
}
