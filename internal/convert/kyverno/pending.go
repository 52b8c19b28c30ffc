package kyverno

import "github.com/usher-dev/usher/internal/convert/kyverno/syntax"

// mutate converts a rule that changes objects.
func (c *conversion) mutate(r *syntax.Rule) []*piece {
	c.leave("", refuse(r.Field+".mutate", "rules that mutate are not imported yet", "write it as a mutation of a ClusterObjectPolicy"))
	return nil
}

// podSecurity converts a rule for a level of the pod security standards.
func (c *conversion) podSecurity(r *syntax.Rule) (*piece, error) {
	return nil, refuse(r.Validate.Field+".podSecurity", "it is a level of the pod security standards", "use the pack of that level: 'usher library list'")
}
