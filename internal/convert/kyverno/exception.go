package kyverno

import (
	"slices"

	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
)

// An exception is a PolicyException.
type exception struct {
	of *convert.Foreign
	is *syntax.Exception
}

// except adds what exceptions say that a rule is not for.
func (c *conversion) except(r *syntax.Rule, s *selection) error {
	for _, e := range c.exceptions {
		for _, rules := range e.is.Spec.Exceptions {
			name := c.p.Name
			if c.p.Kind == "Policy" {
				name = c.namespace() + "/" + name
			}
			if rules.PolicyName != name || !slices.ContainsFunc(rules.RuleNames, func(pattern string) bool { return wildcard(pattern).MatchString(r.Name) }) {
				continue
			}
			if e.is.Spec.Conditions != nil || len(e.is.Spec.PodSecurity) > 0 {
				return refuse("metadata.name", "the PolicyException "+e.is.Name+" has conditions", "write a ClusterPolicyExemption")
			}
			m := e.is.Spec.Match
			for n := range m.Any {
				m.Any[n].Resources.Operations = nil
			}
			if err := c.excluding(s, &m); err != nil {
				return err
			}
		}
	}
	return nil
}
