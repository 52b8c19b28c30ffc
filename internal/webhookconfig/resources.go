package webhookconfig

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/rule"
)

// policyGroups are the API groups of policies, as a list in CEL.
func policyGroups() string {
	set := map[string]bool{}
	for _, resource := range policies() {
		set["'"+resource.Group+"'"] = true
	}
	return "[" + strings.Join(sorted(set), ", ") + "]"
}

// A place is an endpoint whose requests contain objects of a kind, and its operations.
type place struct {
	group, version string
	// resource has the subresource behind a slash.
	resource   string
	operations []usher.Operation
}

var writes = []usher.Operation{usher.Create, usher.Update, usher.Delete}

// places are the kinds with missing or incomplete resources in discovery. The status of objects is
// left out on purpose: controllers and kubelets write it all the time, and denying or changing it
// would only make them report false states. Entries for metadata handle what can be written along
// with it.
//
// Scale covers every resource that can be scaled, including custom ones.
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

// A Subresource is where objects of a kind are written that is not that of a resource.
type Subresource struct {
	schema.GroupResource

	// Name is empty for the resource itself.
	Name       string
	Operations []usher.Operation
}

// Subresources returns where objects of a kind are written, if that is not, or not only, the
// resource in discovery; none if it is.
func Subresources(gvk schema.GroupVersionKind) []Subresource {
	var all []Subresource
	for _, p := range places[gvk] {
		resource, name, _ := strings.Cut(p.resource, "/")
		all = append(all, Subresource{schema.GroupResource{Group: p.group, Resource: resource}, name, p.operations})
	}
	return all
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

func (p *place) isSubresource() bool { return strings.Contains(p.resource, "/") }

// find returns where objects of a kind are written: nowhere if they are never sent, not from
// the namespaces that are covered, or are policies. An unknown kind is at the place that it most likely
// will have. An error means that it cannot be told now.
func (e *Applier) find(c rule.Covered) (*located, error) {
	l := &located{Covered: c}
	if c.Namespaces != nil {
		l.within = reach{rule.Namespaces{Names: c.Namespaces, Only: true}, true}
	}
	if c.Kind == "" {
		l.places = everything
		return l, nil
	}
	gvk := schema.FromAPIVersionAndKind(c.APIVersion, c.Kind)
	if known, ok := places[gvk]; ok {
		l.places = known
		return l, nil
	}
	if exempt(gvk) || api.IsGroup(gvk.Group) {
		return l, nil
	}
	mapping, err := e.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	l.convertible = isKind.MatchString(gvk.Kind) && (gvk.Group == "" || len(validation.IsDNS1123Subdomain(gvk.Group)) == 0)
	if meta.IsNoMatchError(err) {
		guess, _ := meta.UnsafeGuessKindToResource(gvk)
		l.places, l.unknown = []place{{guess.Group, guess.Version, guess.Resource, writes}}, true
		return l, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find resource of %s %s: %w", c.APIVersion, c.Kind, err)
	}
	l.cluster = mapping.Scope.Name() == meta.RESTScopeNameRoot
	if c.Namespaces != nil && l.cluster {
		return l, nil
	}
	r := mapping.Resource
	l.places = []place{{r.Group, r.Version, r.Resource, writes}}
	return l, nil
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
func (e *Applier) exemptKinds(coverage rule.Coverage) []string {
	set := map[string]bool{}
	for _, c := range slices.Concat(coverage.Mutate, coverage.Validate) {
		gvk := schema.FromAPIVersionAndKind(c.APIVersion, c.Kind)
		if _, known := places[gvk]; !known && exempt(gvk) {
			set[c.APIVersion+" "+c.Kind] = true
		}
	}
	for _, r := range slices.Concat(coverage.MutateResources, coverage.ValidateResources) {
		for _, group := range r.Groups {
			for _, resource := range r.Resources {
				if exemptResource(group, resource) {
					set[schema.GroupResource{Group: group, Resource: resource}.String()] = true
				}
			}
		}
	}
	return sorted(set)
}

// exemptResource is [exempt] for a resource as rules name it. What only may be exempt, such as *, is
// not.
func exemptResource(group, resource string) bool {
	name, subresource, _ := strings.Cut(resource, "/")
	switch group {
	case "admissionregistration.k8s.io":
		switch name {
		case "mutatingwebhookconfigurations", "validatingwebhookconfigurations", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings",
			"validatingadmissionpolicies", "validatingadmissionpolicybindings":
			return true
		}
	case "":
		return name == "events" || name == "nodes" && subresource != "proxy" && subresource != "*"
	}
	return exempt(schema.GroupVersionKind{Group: group})
}

// orNil returns the error, sorted, or nil if nothing is missing.
func (e *IncompleteError) orNil() error {
	if len(e.Kinds)+len(e.Dropped) == 0 {
		return nil
	}
	for _, list := range []*[]string{&e.Kinds, &e.Dropped} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return e
}

func sorted(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }
