package check

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/compile/bounded"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/stall"
	"github.com/usher-dev/usher/internal/trial"
)

// A NotTried is a policy that was not tried on all of its kinds.
type NotTried struct {
	Policy usher.PolicyRef `json:"policy"`
	Why    string          `json:"why"`
}

// Try tries policies without errors, or with no others than fields that are not known, and returns the findings. Of
// others it checks the types of expressions. One that takes longer than it may when it is written is tried once more
// after all others, for all the time that it may take: the machine may have been busy. A policy that takes longer than
// timeout, unless that is 0, gets that as a problem. The error is that of ctx.
func Try(ctx context.Context, timeout time.Duration, compiled []compile.Compiled, try *trial.Trial) ([]rule.Problem, []NotTried, error) {
	var problems []rule.Problem
	var skipped []NotTried
	var again []*compile.Compiled
	note := func(c *compile.Compiled, result trial.Report) {
		problems = append(problems, result.Problems...)
		for _, why := range result.Skipped {
			skipped = append(skipped, NotTried{c.Ref, why})
		}
	}
	for i := range compiled {
		c := &compiled[i]
		attempt := try.Try
		if slices.ContainsFunc(rule.Errors(rule.Written(c.Problems)), func(p rule.Problem) bool { return !slices.Contains(c.Policy.Unknown, p.Field) }) {
			attempt = try.Types
		}
		result, err := triedWithin(ctx, compile.LongestTrial, timeout, c, attempt)
		if err != nil {
			return nil, nil, err
		}
		if result.Cut {
			again = append(again, c)
			continue
		}
		note(c, result)
	}
	for _, c := range again {
		longest, limit := time.Hour, time.Duration(0)
		if timeout > 0 {
			// What ends when it is told to has not stalled.
			longest, limit = timeout, timeout+compile.LongestTrial
		}
		result, err := triedWithin(ctx, longest, limit, c, try.Try)
		if err != nil {
			return nil, nil, err
		}
		if result.Cut {
			result.Skipped = []string{result.TooSlow(longest)}
		}
		note(c, result)
	}
	return problems, skipped, nil
}

// triedWithin tries a policy for some time. One that does not end gets that as a problem.
func triedWithin(ctx context.Context, longest, timeout time.Duration, c *compile.Compiled, try func(context.Context, compile.Compiled) trial.Report) (trial.Report, error) {
	result, err := stall.Within(ctx, timeout, func(ctx context.Context) (trial.Report, error) {
		trying, cancel := context.WithTimeout(ctx, longest)
		defer cancel()
		return try(trying, *c), nil
	})
	if stalled, ok := errors.AsType[*stall.Error](err); ok {
		// It is as slow wherever else it is tried.
		c.Problems, err = append(slices.Clip(c.Problems), bounded.Late(c, "trying it", stalled)), nil
	}
	return result, cmp.Or(err, context.Cause(ctx))
}
