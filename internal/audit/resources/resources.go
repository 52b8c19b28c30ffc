// Package resources tells which of the resources that an API server discovered have objects that an audit
// reads.
package resources

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/audit/result"
)

// Streaming are the verbs that a stream needs.
const Streaming = "list watch"

// Versions returns the versions in which the objects of each resource can be read: those with some verbs,
// separated by spaces, in the order of discovery, then the others.
func Versions(lists []*metav1.APIResourceList, verbs string) judge.Versions {
	all, others := judge.Versions{}, judge.Versions{}
	Each(lists, func(k result.Kind, r *metav1.APIResource) {
		resource := k.Resource.GroupResource()
		switch {
		case Unoffered(r, verbs) == nil:
			all[resource] = append(all[resource], k)
		case Stored(r):
			others[resource] = append(others[resource], k)
		}
	})
	for resource, versions := range others {
		all[resource] = append(all[resource], versions...)
	}
	maps.DeleteFunc(all, func(_ schema.GroupResource, versions []result.Kind) bool { return len(versions) == 1 })
	return all
}

// Each calls each for the resources that are no subresources, in the order of discovery.
func Each(lists []*metav1.APIResourceList, each func(result.Kind, *metav1.APIResource)) {
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

// Selected reports whether policies judge objects of a kind; of returns those that do.
func Selected(k result.Kind, of func(result.Kind) []usher.PolicyRef) bool {
	policies := of(k)
	if fleeting(k) {
		policies = without(policies, wildcards(k, of))
	}
	return len(policies) > 0
}

// Unoffered says which of some verbs the API server does not offer; nil if it offers all.
func Unoffered(r *metav1.APIResource, verbs string) error {
	for verb := range strings.FieldsSeq(verbs) {
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
func wildcards(k result.Kind, of func(result.Kind) []usher.PolicyRef) []usher.PolicyRef {
	k.Resource.Resource, k.Kind = "-", "-"
	return of(k)
}

func without(policies, others []usher.PolicyRef) []usher.PolicyRef {
	return slices.DeleteFunc(slices.Clone(policies), func(p usher.PolicyRef) bool { return slices.Contains(others, p) })
}
