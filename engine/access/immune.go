package access

import (
	"slices"

	"github.com/usher-dev/usher/rule/access"
)

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

func isImmune(immune []access.Subject, q *access.Query) bool {
	return slices.ContainsFunc(immune, func(s access.Subject) bool { return s.Has(q) })
}
