package serve

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/audit/result"
)

// A selector says which policies are for objects of a kind, and whether these read only their
// metadata.
type selector interface {
	Policies(of result.Kind) []usher.PolicyRef
	Selects(of result.Kind) (selects, metadataOnly bool)
}

// audited returns the kinds to read, and whether only their metadata is needed: those that policies
// select. Objects that can be read in several versions are read in the preferred one, and in
// another one only if a policy selects that alone.
func audited(lists []*metav1.APIResourceList, s selector) map[result.Kind]bool {
	kinds := map[result.Kind]bool{}
	covered := map[schema.GroupResource]map[usher.PolicyRef]bool{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for i := range list.APIResources {
			r := &list.APIResources[i]
			if !streamed(r) {
				continue
			}
			k := result.Kind{Resource: gv.WithResource(r.Name), Kind: r.Kind, Namespaced: r.Namespaced}
			policies := s.Policies(k)
			if fleeting(k) {
				policies = without(policies, wildcards(k, s))
			}
			resource := k.Resource.GroupResource()
			if covered[resource] == nil {
				covered[resource] = map[usher.PolicyRef]bool{}
			}
			for _, p := range policies {
				if !covered[resource][p] {
					covered[resource][p] = true
					_, kinds[k] = s.Selects(k)
				}
			}
		}
	}
	return kinds
}

// streamed reports whether the objects of a resource can be read by a stream.
func streamed(r *metav1.APIResource) bool {
	return !strings.Contains(r.Name, "/") && slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "watch")
}

// fleeting reports whether objects of a kind change all the time or are about other objects, so that
// nobody who selects all kinds thinks of them.
func fleeting(k result.Kind) bool {
	switch k.Resource.Group {
	case "", "events.k8s.io":
		return k.Resource.Resource == "events"
	case "coordination.k8s.io":
		return k.Resource.Resource == "leases"
	case "openreports.io", "wgpolicyk8s.io":
		return true
	}
	return false
}

// wildcards are the policies that select all kinds of a group, whatever their names.
func wildcards(k result.Kind, s selector) []usher.PolicyRef {
	k.Resource.Resource, k.Kind = "-", "-"
	return s.Policies(k)
}

func without(policies, others []usher.PolicyRef) []usher.PolicyRef {
	return slices.DeleteFunc(slices.Clone(policies), func(p usher.PolicyRef) bool { return slices.Contains(others, p) })
}
