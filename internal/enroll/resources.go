package enroll

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/rule"
)

// policies are the resources of all kinds of policy, which are always sent when they are
// created or changed: guard decides on them.
func policies() []schema.GroupVersionResource {
	var all []schema.GroupVersionResource
	for _, kind := range api.Kinds() {
		resource, _ := meta.UnsafeGuessKindToResource(kind) // right for the names of our kinds
		all = append(all, resource)
	}
	return all
}

// policyGroups are the API groups of policies, as a list in CEL.
func policyGroups() string {
	set := map[string]bool{}
	for _, resource := range policies() {
		set["'"+resource.Group+"'"] = true
	}
	return "[" + strings.Join(sorted(set), ", ") + "]"
}

// A place is an endpoint whose requests carry objects of a kind, and which operations
// there are.
type place struct {
	group, version string
	// resource has the subresource behind a slash.
	resource   string
	operations []usher.Operation
}

var writes = []usher.Operation{usher.Create, usher.Update, usher.Delete}

// places are the kinds that discovery tells no resource for, or not all of them. The
// status of objects is left out on purpose: it is what controllers and kubelets report,
// all the time, and to refuse or change it would only make them lie.
//
// Scale stands for every resource that can be scaled, custom ones too.
var places = map[schema.GroupVersionKind][]place{
	core("Pod"): {
		{"", "v1", "pods", writes},
		{"", "v1", "pods/ephemeralcontainers", only(usher.Update)},
		{"", "v1", "pods/resize", only(usher.Update)},
	},
	core("Binding"):                                      {{"", "v1", "bindings", only(usher.Create)}, {"", "v1", "pods/binding", only(usher.Create)}},
	core("PodAttachOptions"):                             {{"", "v1", "pods/attach", only(usher.Connect)}},
	core("PodExecOptions"):                               {{"", "v1", "pods/exec", only(usher.Connect)}},
	core("PodPortForwardOptions"):                        {{"", "v1", "pods/portforward", only(usher.Connect)}},
	core("PodProxyOptions"):                              {{"", "v1", "pods/proxy", only(usher.Connect)}},
	core("ServiceProxyOptions"):                          {{"", "v1", "services/proxy", only(usher.Connect)}},
	core("NodeProxyOptions"):                             {{"", "v1", "nodes/proxy", only(usher.Connect)}},
	{Group: "policy", Version: "v1", Kind: "Eviction"}:   {{"", "v1", "pods/eviction", only(usher.Create)}},
	{Group: "autoscaling", Version: "v1", Kind: "Scale"}: {{"*", "*", "*/scale", only(usher.Update)}},
	{Group: "authentication.k8s.io", Version: "v1", Kind: "TokenRequest"}: {{"", "v1", "serviceaccounts/token", only(usher.Create)}},
}

// everything is, as with the original, no subresource: kinds such as Scale and Eviction
// are only sent to policies that name them. The exceptions carry whole Pods, and CONNECT,
// which has nothing but subresources.
var everything = []place{
	{"*", "*", "*", writes},
	{"", "v1", "pods/ephemeralcontainers", only(usher.Update)},
	{"", "v1", "pods/resize", only(usher.Update)},
	{"*", "*", "*/*", only(usher.Connect)},
}

func core(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Version: "v1", Kind: kind}
}

func only(operation usher.Operation) []usher.Operation { return []usher.Operation{operation} }

// places returns where objects of a kind are written; none if they are never sent, or not
// from the namespaces that are covered. An unknown kind is at the place that it most likely
// will have. An error means that it cannot be told now.
func (e *Enroller) places(c rule.Covered) (found []place, unknown bool, err error) {
	if c.Kind == "" {
		return everything, false, nil
	}
	gvk := schema.FromAPIVersionAndKind(c.APIVersion, c.Kind)
	if known, ok := places[gvk]; ok {
		return known, false, nil
	}
	if exempt(gvk) {
		return nil, false, nil
	}
	mapping, err := e.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		guess, _ := meta.UnsafeGuessKindToResource(gvk)
		return []place{{guess.Group, guess.Version, guess.Resource, writes}}, true, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("find resource of %s %s: %w", c.APIVersion, c.Kind, err)
	}
	if c.Namespaces != nil && mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return nil, false, nil
	}
	r := mapping.Resource
	return []place{{r.Group, r.Version, r.Resource, writes}}, false, nil
}

// exempt reports whether objects of a kind are never sent: by the conditions, or because
// API servers do not send them.
func exempt(gvk schema.GroupVersionKind) bool {
	switch gvk.Group {
	case "admissionregistration.k8s.io":
		switch gvk.Kind {
		case mutatingKind, validatingKind, "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
			"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding":
			return true
		}
		return false
	case "coordination.k8s.io", "events.k8s.io", "certificates.k8s.io", "authentication.k8s.io", "authorization.k8s.io":
		return true
	case "":
		return gvk.Kind == "Event" || gvk.Kind == "Node"
	}
	return false
}

// exemptKinds returns the kinds of a coverage that are never sent, sorted.
func (e *Enroller) exemptKinds(coverage rule.Coverage) []string {
	set := map[string]bool{}
	for _, c := range slices.Concat(coverage.Mutate, coverage.Validate) {
		gvk := schema.FromAPIVersionAndKind(c.APIVersion, c.Kind)
		if _, known := places[gvk]; !known && exempt(gvk) {
			set[c.APIVersion+" "+c.Kind] = true
		}
	}
	return sorted(set)
}

// unknownKinds returns an error if there are any.
func unknownKinds(sets ...[]string) error {
	set := map[string]bool{}
	for _, kind := range slices.Concat(sets...) {
		set[kind] = true
	}
	if len(set) == 0 {
		return nil
	}
	return &UnknownKindsError{Kinds: sorted(set)}
}

func sorted(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }
