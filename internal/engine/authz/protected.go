package authz

import "github.com/usher-dev/usher/internal/rule/authz"

// ProtectedUsers returns the users that are never denied anything, because a cluster that denies
// them cannot be repaired from within: the control plane, the nodes, and the service
// accounts of kube-system.
func ProtectedUsers() []authz.Subject {
	return []authz.Subject{{
		Users:           literals("system:apiserver", "system:kube-controller-manager", "system:kube-scheduler"),
		Groups:          literals("system:masters", "system:nodes"),
		ServiceAccounts: []authz.ServiceAccount{{Namespace: authz.Pattern{Prefix: "kube-system"}, Name: authz.Pattern{Star: true}}},
	}}
}

func literals(texts ...string) []authz.Pattern {
	patterns := make([]authz.Pattern, len(texts))
	for i, text := range texts {
		patterns[i] = authz.Pattern{Prefix: text}
	}
	return patterns
}

// protects reports whether the user of q is protected.
func (e *Engine) protects(q *authz.Query) bool {
	return authz.AnySubject(e.protected, q) || e.options.ProtectedUsers != nil && authz.AnySubject(e.options.ProtectedUsers(), q)
}
