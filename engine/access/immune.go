package access

import (
	"slices"

	usher "github.com/usher-dev/usher"
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

// ownDecision is that on what Usher needs to know its own policies.
var ownDecision = usher.Decision{Verdict: usher.Allow, Message: "usher reads policies"}

// ownResources are what Usher may always read.
var ownResources = map[string][]string{
	"usher.dev":                 {"authorizationpolicies", "clusterauthorizationpolicies"},
	"policy.kcloudlabs.io":      {"overridepolicies", "clusteroverridepolicies", "clustervalidatepolicies"},
	"rbac.authorization.k8s.io": {"roles", "rolebindings", "clusterroles", "clusterrolebindings"},
}

// own reports whether Usher itself wants to read what it decides by.
func (e *Engine) own(r *usher.Request) bool {
	if e.options.Self == "" || r.User.Name != e.options.Self || r.Access.NonResource || r.Subresource != "" {
		return false
	}
	return slices.Contains([]string{"get", "list", "watch"}, r.Access.Verb) &&
		slices.Contains(ownResources[r.Resource.Group], r.Resource.Resource)
}
