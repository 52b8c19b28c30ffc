package authz

import (
	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// Grants returns what the policies allow a user in a namespace, in the order of evaluation; the
// empty namespace means cluster-scoped resources.
func (e *Engine) Grants(user usher.User, namespace string) usher.Grants {
	q := authz.QueryOf(&usher.Request{User: user, Access: &usher.Access{}}, nil)
	q.Namespace = authz.Value{Text: namespace}
	var grants usher.Grants
	for _, r := range e.matcher.Rules() {
		if e.ended(r.Policy) || !r.Policy.Concerns(&q) || !r.IsIn(&q) || e.unenforced(r.Policy, &q) != "" {
			continue
		}
		switch grant, listable := r.Grant(); {
		case r.Policy.Effect != authz.Allow || depends(r.Policy) || !listable:
			grants.Incomplete = true
		default:
			grants.Allowed = append(grants.Allowed, grant)
		}
	}
	return grants
}

// depends reports whether a policy depends on more than the target of a request.
func depends(p *authz.Policy) bool {
	return len(p.When) > 0 || len(p.Unless) > 0 || len(p.Labels) > 0 || len(p.Fields) > 0
}
