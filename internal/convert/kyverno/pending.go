package kyverno

import "github.com/usher-dev/usher/internal/convert/kyverno/syntax"

// podSecurity converts a rule for a level of the pod security standards.
func (c *conversion) podSecurity(r *syntax.Rule) (*piece, error) {
	return nil, refuse(r.Validate.Field+".podSecurity", "it is a level of the pod security standards", "use the pack of that level: 'usher library list'")
}
