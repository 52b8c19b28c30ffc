package auditing

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/internal/audit"
	"github.com/usher-dev/usher/internal/audit/resources"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/serve/kinds"
)

// audited returns the kinds to read, and whether only their metadata is needed: those that policies
// select. Objects that can be read in several versions are read in the preferred one, and in
// another one only if a policy selects that alone. Unreadable are the kinds whose objects exist, but
// cannot be read by a stream, with the reasons.
func audited(lists []*metav1.APIResourceList, a *audit.Auditor) (kinds map[result.Kind]bool, unreadable map[result.Kind]error) {
	kinds, unreadable = map[result.Kind]bool{}, map[result.Kind]error{}
	resources.Each(lists, func(k result.Kind, r *metav1.APIResource) {
		switch err := resources.Unoffered(r, resources.Streaming); {
		case !resources.Selected(k, a.Policies):
		case err == nil:
			_, kinds[k] = a.Selects(k)
		case resources.Stored(r):
			unreadable[k] = err
		}
	})
	return kinds, unreadable
}

// discover has the auditor know the versions of resources. A version that is missing while groups do not
// respond may be back soon.
func (t *term) discover(d *kinds.Lists) {
	versions := resources.Versions(d.Resources, resources.Streaming)
	if !d.Complete {
		for resource, known := range t.versions {
			fresh := slices.DeleteFunc(versions[resource], func(k result.Kind) bool { return slices.Contains(known, k) })
			versions[resource] = slices.Concat(known, fresh)
		}
	}
	if !maps.EqualFunc(versions, t.versions, slices.Equal) {
		t.versions = versions
		t.auditor.Discovered(versions)
	}
}
