//go:build unix

package hostile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule"
)

var errNotProposed = errors.New("no candidate decided")

// propose has the policies of a tenant decide in shadow. What does not end in time is skipped, and has to end
// nevertheless: [candidate.Evaluator.Overruns] are those that go on.
func (a *attacker) propose(u *use, compiled []compile.Compiled) {
	own := slices.DeleteFunc(slices.Clone(compiled), func(c compile.Compiled) bool { return c.Ref.Namespace == "" || len(rule.Errors(c.Problems)) > 0 })
	if len(own) == 0 {
		return
	}
	var policies []string
	for i := range own {
		policies = append(policies, u.policies[slices.IndexFunc(compiled, func(c compile.Compiled) bool { return c.Ref == own[i].Ref })])
	}
	text := fmt.Sprintf(`{"apiVersion":"usher.dev/v1alpha1","kind":"PolicyCandidate","metadata":{"name":"c","namespace":"shop"},"spec":{"policies":[%s]}}`, strings.Join(policies, ","))
	policy, err := api.Decode([]byte(text))
	if err != nil {
		a.t.Fatal(err)
	}
	proposed := compile.Options{}.Policy(a.t.Context(), policy)
	if errs := rule.Errors(proposed.Problems); len(errs) > 0 {
		a.t.Fatalf("a policy that compiles does not in a candidate: %v", errs)
	}
	offer := a.shadow.Update([]compile.Compiled{proposed}, func() []compile.Compiled { return nil })
	a.step("shadow", u, func(ctx context.Context) error {
		for _, phase := range []usher.Phase{usher.Mutate, usher.Validate} {
			r := *a.requests[phase]
			r.Object, r.OldObject = usher.TreeObject(configMap()), nil
			offer(&r, &usher.Decision{Verdict: usher.Allow})
		}
		a.shadow.Drain(ctx)
		if n := a.shadow.States()[0].Counts; n.Seen+n.Skipped == 0 {
			return errNotProposed
		}
		return nil
	})
}
