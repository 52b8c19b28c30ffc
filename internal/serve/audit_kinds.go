package serve

import (
	"fmt"
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
// another one only if a policy selects that alone. Policies that select both then judge the objects
// in both versions, and have two results for each of them. Unreadable are the kinds whose objects
// exist, but cannot be read by a stream, with the reasons.
func audited(lists []*metav1.APIResourceList, s selector) (kinds map[result.Kind]bool, unreadable map[result.Kind]error) {
	kinds, unreadable = map[result.Kind]bool{}, map[result.Kind]error{}
	covered := map[schema.GroupResource]map[usher.PolicyRef]bool{}
	eachResource(lists, func(k result.Kind, r *metav1.APIResource) {
		if streamed(r) && covers(covered, k, s) {
			_, kinds[k] = s.Selects(k)
		}
	})
	eachResource(lists, func(k result.Kind, r *metav1.APIResource) {
		if !streamed(r) && Stored(r) && covers(covered, k, s) {
			unreadable[k] = unoffered(r)
		}
	})
	return kinds, unreadable
}

// eachResource calls each for the resources that are no subresources, in the order of discovery.
func eachResource(lists []*metav1.APIResourceList, each func(result.Kind, *metav1.APIResource)) {
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for i := range list.APIResources {
			if r := &list.APIResources[i]; !strings.Contains(r.Name, "/") {
				each(result.Kind{Resource: gv.WithResource(r.Name), Kind: r.Kind, Namespaced: r.Namespaced}, r)
			}
		}
	}
}

// covers reports whether policies are for a kind that are not covered by another version of it, and
// adds them to those that are.
func covers(covered map[schema.GroupResource]map[usher.PolicyRef]bool, k result.Kind, s selector) bool {
	policies := s.Policies(k)
	if fleeting(k) {
		policies = without(policies, wildcards(k, s))
	}
	resource := k.Resource.GroupResource()
	if covered[resource] == nil {
		covered[resource] = map[usher.PolicyRef]bool{}
	}
	before := len(covered[resource])
	for _, p := range policies {
		covered[resource][p] = true
	}
	return len(covered[resource]) > before
}

// streamed reports whether the objects of a resource can be read by a stream.
func streamed(r *metav1.APIResource) bool { return unoffered(r) == nil }

// unoffered says what a stream needs and the API server does not offer; nil if it offers all.
func unoffered(r *metav1.APIResource) error {
	for _, verb := range []string{"list", "watch"} {
		if !slices.Contains(r.Verbs, verb) {
			return fmt.Errorf("the API server offers no %s for it", verb)
		}
	}
	return nil
}

// Stored reports whether a resource has objects that somebody writes and that exist afterwards.
// Others are requests only, such as reviews, or are computed, such as metrics.
func Stored(r *metav1.APIResource) bool {
	has := func(verb string) bool { return slices.Contains(r.Verbs, verb) }
	return has("update") || has("patch") || has("delete") || has("create") && has("get")
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
