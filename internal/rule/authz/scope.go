package authz

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/api"
)

// A Scope reports whether the objects of a resource are namespaced.
type Scope uint8

// The scopes.
const (
	ScopeUnknown Scope = iota
	ScopeCluster
	ScopeNamespace
)

// ScopeOf returns the scope of the resources that every API server has, of those that exist only in
// authorization, such as users, and of Usher's own.
func ScopeOf(group, resource string) Scope {
	if api.IsGroup(group) {
		return scopeOfOwn(schema.GroupResource{Group: group, Resource: resource})
	}
	resources, ours := clusterScoped[group]
	if !ours {
		return ScopeUnknown
	}
	if slices.Contains(resources, resource) {
		return ScopeCluster
	}
	return ScopeNamespace
}

// scopeOfOwn is the scope of policies, and of the resources that exist only in their authorization.
func scopeOfOwn(resource schema.GroupResource) Scope {
	if kind, ok := api.KindServed(resource); ok && !kind.Namespaced || resource.Resource == tiers {
		return ScopeCluster
	}
	return ScopeNamespace
}

// tiers are the resources by which writing policies of a tier is authorized.
const tiers = "authorizationtiers"

// clusterScoped are the cluster-scoped resources of the groups whose resources are all known. The
// table never changes.
var clusterScoped = map[string][]string{
	"": {
		"nodes", "namespaces", "persistentvolumes", "componentstatuses",
		"users", "groups", "userextras", "uids",
	},
	"admissionregistration.k8s.io": {
		"mutatingwebhookconfigurations", "validatingwebhookconfigurations",
		"mutatingadmissionpolicies", "mutatingadmissionpolicybindings",
		"validatingadmissionpolicies", "validatingadmissionpolicybindings",
	},
	"apiextensions.k8s.io":         {"customresourcedefinitions"},
	"apiregistration.k8s.io":       {"apiservices"},
	"apps":                         {},
	"authentication.k8s.io":        {"tokenreviews", "selfsubjectreviews", "userextras", "uids"},
	"authorization.k8s.io":         {"subjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews"},
	"autoscaling":                  {},
	"batch":                        {},
	"certificates.k8s.io":          {"certificatesigningrequests", "clustertrustbundles", "signers"},
	"coordination.k8s.io":          {},
	"discovery.k8s.io":             {},
	"events.k8s.io":                {},
	"flowcontrol.apiserver.k8s.io": {"flowschemas", "prioritylevelconfigurations"},
	"internal.apiserver.k8s.io":    {"storageversions"},
	"networking.k8s.io":            {"ingressclasses", "ipaddresses", "servicecidrs"},
	"node.k8s.io":                  {"runtimeclasses"},
	"policy":                       {"podsecuritypolicies"},
	"rbac.authorization.k8s.io":    {"clusterroles", "clusterrolebindings"},
	"resource.k8s.io":              {"deviceclasses", "devicetaintrules", "resourceslices"},
	"scheduling.k8s.io":            {"priorityclasses"},
	"storage.k8s.io":               {"csidrivers", "csinodes", "storageclasses", "volumeattachments", "volumeattributesclasses"},
	"storagemigration.k8s.io":      {"storageversionmigrations"},
}

// Lacks reports whether an API group is one of Kubernetes whose resources in namespaces are all known, and has no such
// resource.
func Lacks(group, resource string) bool {
	known, ours := namespaced[group]
	return ours && resource != "*" && !slices.Contains(known, resource) && ScopeOf(group, resource) != ScopeCluster
}

// GroupsOf returns the API groups of Kubernetes that have a resource in namespaces, sorted.
func GroupsOf(resource string) []string {
	var groups []string
	for group, known := range namespaced {
		if slices.Contains(known, resource) {
			groups = append(groups, group)
		}
	}
	slices.Sort(groups)
	return groups
}

// namespaced are the resources in namespaces of groups that CustomResourceDefinitions cannot add to. The table never
// changes.
var namespaced = map[string][]string{
	"": {
		"bindings", "configmaps", "endpoints", "events", "limitranges", "persistentvolumeclaims", "pods", "podtemplates",
		"replicationcontrollers", "resourcequotas", "secrets", "serviceaccounts", "services",
	},
	"apps":                      {"controllerrevisions", "daemonsets", "deployments", "replicasets", "statefulsets"},
	"authorization.k8s.io":      {"localsubjectaccessreviews"},
	"autoscaling":               {"horizontalpodautoscalers"},
	"batch":                     {"cronjobs", "jobs"},
	"coordination.k8s.io":       {"leases", "leasecandidates"},
	"discovery.k8s.io":          {"endpointslices"},
	"events.k8s.io":             {"events"},
	"networking.k8s.io":         {"ingresses", "networkpolicies"},
	"policy":                    {"poddisruptionbudgets"},
	"rbac.authorization.k8s.io": {"roles", "rolebindings"},
}
