package policies

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/stall"
)

// A Compiler compiles policies, each within a time. One that takes longer has a problem that says so.
type Compiler struct {
	Options compile.Options
	// Timeout is how long a policy may take; 0 is any time.
	Timeout time.Duration
}

// Compiler returns what compiles policies within the limits that the flags set.
func (l *Limits) Compiler() (Compiler, error) {
	limits, err := l.Limits()
	return Compiler{compile.Options{Limits: limits}, l.timeout}, err
}

// All compiles all policies, each independently. The error is that of ctx.
func (c Compiler) All(ctx context.Context, policies []api.Policy) ([]compile.Compiled, error) {
	compiled := make([]compile.Compiled, len(policies))
	for i := range policies {
		var err error
		if compiled[i], err = c.Policy(ctx, policies[i]); err != nil {
			return nil, err
		}
	}
	return compiled, nil
}

// Policy compiles one policy. The error is that of ctx.
func (c Compiler) Policy(ctx context.Context, policy api.Policy) (compile.Compiled, error) {
	compiled, err := stall.Within(ctx, c.Timeout, func(ctx context.Context) (compile.Compiled, error) {
		return c.Options.Policy(ctx, policy), nil
	})
	if late, ok := errors.AsType[*stall.Error](err); ok {
		compiled = compile.Compiled{Policy: policy, Ref: compile.Ref(policy.Object)}
		compiled.Problems = []rule.Problem{Late(&compiled, "compiling it", late)}
		return compiled, nil
	}
	if err == nil {
		// What was compiled while the command was to end is not checked.
		err = context.Cause(ctx)
	}
	return compiled, err
}

// Late returns the problem of a policy that takes too long for something.
func Late(c *compile.Compiled, doing string, late *stall.Error) rule.Problem {
	field, _ := strings.CutPrefix(late.At, c.Ref.String()+": ")
	if field == "" {
		field = "spec"
	}
	return c.Place(rule.Problem{
		Severity: rule.Error, Field: field, What: fmt.Sprintf("%s takes longer than %s", doing, late.Limit),
		Do: "make it simpler, or give it more time with --policy-timeout",
	})
}

// Within does something with policies, on no rule of which it may spend more than the timeout. What
// says what it does; the error names the rule.
func Within[T any](ctx context.Context, timeout time.Duration, what string, do func(context.Context) (T, error)) (T, error) {
	value, err := stall.Within(ctx, timeout, do)
	if _, ok := errors.AsType[*stall.Error](err); ok {
		err = fmt.Errorf("%s: %w: make it simpler, or give it more time with --policy-timeout", what, err)
	}
	return value, err
}
