package lockout

import (
	"context"
	"fmt"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule"
)

// The writer of a policy waits for longestTrial while it is tried on samples, and then for longestTry or
// longestTenantTry for the check. On a busy machine that takes many times as long as on an idle one; policies
// of the cluster can keep it from recovering.
const (
	longestTrial     = 100 * time.Millisecond
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
		result, err := Check(ctx, c.Rules, o)
		if err != nil || result.Untried > 0 {
			problems = append(problems, rule.Problem{Policy: c.Ref, Severity: rule.Warning, What: untried(&result, err), Do: "run usher check --lockout"})
		}
		for _, p := range Problems(result.Findings) {
			p.Severity = rule.Warning
			problems = append(problems, c.Place(p))
		}
		return problems
	}
}

func untried(r *Report, err error) string {
	if err != nil {
		return fmt.Sprintf("not tried on the requests without which a cluster cannot recover: %v", err)
	}
	return fmt.Sprintf("not tried on %d of the requests without which a cluster cannot recover: there was no time", r.Untried)
}

// All checks several policies, each by itself, with the bindings that put them into force. The result
// is in the order of the policies' first rules.
func All(ctx context.Context, compiled []compile.Compiled, o Options) ([]Report, error) {
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
	}
	return results, nil
}
