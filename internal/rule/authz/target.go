package authz

// IsFor reports whether the rule is for the action of q, by any user.
func (r *Rule) IsFor(q *Query) bool { return r.matchesTarget(q) }

// Concerns reports whether the policy applies to the user of q, for any action.
func (p *Policy) Concerns(q *Query) bool { return p.concerns(q) }
