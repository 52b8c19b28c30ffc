package lockout

import (
	"context"
	"fmt"
	"slices"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule"
)

// The writer of a policy waits for longestTrial while it is tried on samples, and then for longestTry or
// longestTenantTry for the check. On a busy machine that takes many times as long as on an idle one; policies
// of the cluster can keep it from recovering.
const (
	longestTrial     = 500 * time.Millisecond
	longestTry       = 500 * time.Millisecond
	longestTenantTry = 50 * time.Millisecond
)

// With returns a function that tries a policy that is written with next, and then on the requests. Each has
// a time of its own. All problems that it adds are warnings. A policy that next finds an error in is not tried
// on the requests: what it does to them is not what its writer means.
func With(next func(context.Context, compile.Compiled) []rule.Problem, o Options) func(context.Context, compile.Compiled) []rule.Problem {
	return func(ctx context.Context, c compile.Compiled) []rule.Problem {
		trying, done := context.WithTimeout(ctx, longestTrial)
		defer done()
		problems := next(trying, c)
		if len(rule.Errors(rule.Written(problems))) > 0 {
			return problems
		}
		limit := longestTry
		if c.Ref.Namespace != "" {
			limit = longestTenantTry
		}
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		warnings, err := Warnings(ctx, c, o)
		if err != nil {
			problems = append(problems, rule.Problem{Policy: c.Ref, Severity: rule.Warning, What: err.Error(), Do: "run usher check --lockout"})
		}
		return append(problems, warnings...)
	}
}

// Warnings tries a policy on the requests, and returns all problems as warnings. The error says which requests it was not
// tried on.
func Warnings(ctx context.Context, c compile.Compiled, o Options) (warnings []rule.Problem, err error) {
	result, err := Check(ctx, c.Rules, o)
	switch {
	case err != nil:
		return nil, fmt.Errorf("not tried on the requests %s: %w", recovery, err)
	case result.Untried > 0:
		err = fmt.Errorf("not tried on %d of the requests %s: there was no time", result.Untried, recovery)
	}
	for _, p := range Problems(result.Findings) {
		p.Severity = rule.Warning
		warnings = append(warnings, c.Place(p))
	}
	return warnings, err
}

// All checks several policies, each by itself, with the bindings that put them into force, suspended ones as they would
// be in force. The result is in the order of the policies' first rules.
func All(ctx context.Context, compiled []compile.Compiled, o Options) ([]Report, error) {
	compiled = slices.Clone(compiled)
	suspended := map[usher.PolicyRef]bool{}
	for i := range compiled {
		if resumed := compiled[i].Resumed; resumed != nil {
			suspended[compiled[i].Ref] = true
			compiled[i] = *resumed
		}
	}
	rules := compile.Order(compiled)
	of := map[usher.PolicyRef][]rule.Rule{}
	var order []usher.PolicyRef
	for i := range rules {
		ref := rules[i].Policy
		if ref == (usher.PolicyRef{}) {
			continue
		}
		if of[ref] == nil {
			order = append(order, ref)
		}
		of[ref] = append(of[ref], rules[i])
	}
	results := make([]Report, len(order))
	for i, ref := range order {
		var err error
		if results[i], err = Check(ctx, of[ref], o); err != nil {
			return nil, err
		}
		for j := range results[i].Findings {
			results[i].Findings[j].Suspended = suspended[ref]
		}
	}
	return results, nil
}
