package authz

// IsFor reports whether the rule is for what q asks, whoever asks.
func (r *Rule) IsFor(q *Query) bool { return r.matchesTarget(q) }

// Concerns reports whether the policy is for the user of q, whatever is asked.
func (p *Policy) Concerns(q *Query) bool { return p.concerns(q) }
