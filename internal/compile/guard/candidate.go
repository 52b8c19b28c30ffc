package guard

import (
	"context"
	"fmt"
	"slices"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule"
)

// candidateRights returns the rights that the writer of a candidate needs: for each policy that it
// embeds those to create it, and those that the policy itself needs; to delete a policy that it removes.
// What a candidate counts would otherwise tell what its writer may not read.
func candidateRights(ctx context.Context, user usher.User, c compile.Compiled, places Places) (Rights, error) {
	var all Rights
	if ref := c.Candidate.Replaces; len(c.Candidate.Policies) == 0 && ref.Name != "" {
		all = append(all, writeRight(user, ref, "delete", "spec.replaces needs"))
	}
	for i := range c.Candidate.Policies {
		p := &c.Candidate.Policies[i]
		field := fmt.Sprintf("spec.policies[%d]", i)
		create := p.Ref
		create.Name = ""
		all = append(all, writeRight(user, create, "create", field+" needs"))
		own, err := RightsOf(ctx, user, *p, places)
		if err != nil {
			return nil, err
		}
		for _, right := range own {
			right.What = field + ": " + right.What
			all = append(all, right)
		}
	}
	if len(all) > questions {
		many := ask(user, "escalate", "*")
		many.Resource.Group = "*"
		return Rights{{What: "a candidate whose policies need too many rights to ask about each needs", Ask: many, Help: "embed fewer policies"}}, nil
	}
	return all, nil
}

// writeRight returns the right to create policies of a kind, or to delete one.
func writeRight(user usher.User, ref usher.PolicyRef, verb, what string) Right {
	kind, _ := api.KindCalled(ref.Kind)
	request := ask(user, verb, kind.Resource)
	request.Resource.Group, request.Namespace, request.Name = kind.Group, ref.Namespace, ref.Name
	return Right{What: what, Help: "a candidate needs the rights that its policies need", Ask: request}
}

// eachPart returns what find says about each of the policies, with the fields of the whole.
func eachPart(c compile.Compiled, find func(compile.Compiled) []rule.Problem) []rule.Problem {
	var problems []rule.Problem
	policies, fields := c.Parts()
	for i := range policies {
		for _, p := range find(policies[i]) {
			p.Field = compile.Within(fields[i], p.Field)
			problems = append(problems, c.Place(p))
		}
	}
	return problems
}

// latePart returns why one of the policies may not be written because of its end; empty for others.
func (g *guard) latePart(c compile.Compiled) string {
	policies, fields := c.Parts()
	at := slices.IndexFunc(policies, func(p compile.Compiled) bool { return g.tooLong(p.Policy.Object) != "" })
	if at < 0 {
		return ""
	}
	return compile.Within(fields[at], g.tooLong(policies[at].Policy.Object))
}
