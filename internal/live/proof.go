package live

import (
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// withheld reports whether a policy is not in force because its writer is not known to have had the
// right to write it. The denials of an authorization policy are in force nevertheless. An effect that
// prevents denials of later tiers counts as allowing.
func withheld(c compile.Compiled) bool {
	if c.Policy.Proof.State != api.Unproven {
		return false
	}
	return len(c.Access) == 0 || c.Access[0].Policy.Effect != authz.Deny
}

// unproven returns the problem of a policy whose writer is not known to have had the right; none if
// it is proven, or needs no proof.
func unproven(c compile.Compiled, withheld bool) []rule.Problem {
	if !lacksProof(c.Policy) {
		return nil
	}
	p := rule.Problem{
		Policy: c.Ref, Severity: rule.Warning, Field: "metadata.annotations",
		What: "the right to write it is not proven, and it is in force nevertheless: " + c.Policy.Proof.Why,
		Do:   "have it adopted by somebody who may, with 'usher authz adopt'",
	}
	if withheld {
		p.Severity = rule.Error
		p.What = "the right to write it is not proven, so that it is not in force: " + c.Policy.Proof.Why
		p.Do = "look at what it allows, and have it adopted by somebody who may, with 'usher authz adopt', or delete it"
	}
	return []rule.Problem{p}
}

func lacksProof(policy api.Policy) bool {
	return policy.Proof.State == api.Unproven || policy.Proof.State == api.Recorded
}
