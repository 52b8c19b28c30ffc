package access

import "github.com/usher-dev/usher/rule/access"

// Immune returns the users that are never denied anything, because a cluster that denies
// them cannot be repaired from within: the control plane, the nodes, and the service
// accounts of kube-system.
func Immune() []access.Subject {
	return []access.Subject{{
		Users:           literals("system:apiserver", "system:kube-controller-manager", "system:kube-scheduler"),
		Groups:          literals("system:masters", "system:nodes"),
		ServiceAccounts: []access.ServiceAccount{{Namespace: access.Pattern{Prefix: "kube-system"}, Name: access.Pattern{Star: true}}},
	}}
}

func literals(texts ...string) []access.Pattern {
	patterns := make([]access.Pattern, len(texts))
	for i, text := range texts {
		patterns[i] = access.Pattern{Prefix: text}
	}
	return patterns
}

// spares reports whether the user of q is immune.
func (e *Engine) spares(q *access.Query) bool {
	return has(e.immune, q) || e.options.Immune != nil && has(e.options.Immune(), q)
}

func has(subjects []access.Subject, q *access.Query) bool {
	for i := range subjects {
		if subjects[i].Has(q) {
			return true
		}
	}
	return false
}
