// Package bounded compiles the policies of a source, each within a time. It is for commands: what does not end is
// left behind.
package bounded

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
	"github.com/usher-dev/usher/source"
)

// A Compiler compiles policies, each within a time. One that takes longer has a problem that says so.
type Compiler struct {
	Options compile.Options
	// Timeout is how long a policy may take; 0 is any time.
	Timeout time.Duration
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
	if stalled, ok := errors.AsType[*stall.Error](err); ok {
		compiled = compile.Compiled{Policy: policy, Ref: compile.Ref(policy.Object)}
		compiled.Problems = []rule.Problem{Late(&compiled, "compiling it", stalled)}
		return compiled, nil
	}
	if err == nil {
		// What was compiled while the command was to end is not checked.
		err = context.Cause(ctx)
	}
	return compiled, err
}

// Late returns the problem of a policy that takes too long for something.
func Late(c *compile.Compiled, doing string, err *stall.Error) rule.Problem {
	field, _ := strings.CutPrefix(err.At, c.Ref.String()+": ")
	if field == "" {
		field = "spec"
	}
	return c.Place(rule.Problem{
		Severity: rule.Error, Field: field, What: fmt.Sprintf("%s takes longer than %s", doing, err.Limit),
		Do: "make it simpler, or give it more time with --policy-timeout",
	})
}

// Problems returns all problems of a set that was compiled, sorted and not nil.
func Problems(set source.Set, compiled []compile.Compiled) []rule.Problem {
	problems := []rule.Problem{}
	for _, u := range set.Unreadable {
		problems = append(problems, rule.Problem{Severity: rule.Error, File: u.Position.File, Line: u.Position.Line, What: u.Err.Error(), Do: u.Do})
	}
	problems = append(problems, compile.Problems(compiled)...)
	rule.SortProblems(problems)
	return problems
}
