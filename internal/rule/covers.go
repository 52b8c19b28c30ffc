package rule

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
)

// Covers reports whether a request is covered: whether a webhook that is registered for c is called
// for it, at the request's entry if it has one. Doors that see every request decide only these.
//
// A coverage of every kind includes no subresource, except those with whole pods, and CONNECT,
// which has only subresources. A coverage of a kind includes subresources of that kind, such as
// Scale and Eviction. Of the subresources status and finalize, only changes of metadata are
// covered: denying or changing a status would only make controllers report false states.
//
// A request without a kind, of which only the endpoint is known, is covered if it may be with one.
func (c Coverage) Covers(r *usher.Request) bool {
	e, named := ParseEntry(r.Entry)
	if !named {
		e = CompleteEntryOf(r)
	}
	if e.Phase == r.Phase && !isAdmissionConfiguration(r) &&
		contains(c.Resources(e), func(c *CoveredResource) bool { return c.Matches(r) }) {
		return true
	}
	if e.Part == Once {
		e.Part = Objects
	}
	if e.Phase != r.Phase || (e.Part == Metadata || e.Part == Beside) != writesBeside(r) || e.Part != Objects && !changesMetadata(r) {
		return false
	}
	return contains(c.Of(e), func(c *Covered) bool { return c.covers(r) })
}

// contains reports whether one of all is. Unlike [slices.ContainsFunc], it copies none.
func contains[T any](all []T, is func(*T) bool) bool {
	for i := range all {
		if is(&all[i]) {
			return true
		}
	}
	return false
}

// Again reports whether another entry is called for the same request, and is the one that counts:
// the entry for the version that the client used, or else the first of those for converted objects.
// An API server gives each call a uid of its own.
func (c Coverage) Again(r *usher.Request) bool {
	e, ok := ParseEntry(r.Entry)
	if ok && e.Part == Reinvoked {
		other := *r
		other.Entry = Entry{Phase: e.Phase, Part: Once}.String()
		return c.Covers(&other)
	}
	if !ok || e.Versions == "" || r.Requested.Empty() {
		return false
	}
	base := Entry{Phase: e.Phase, Part: e.Part}
	own := *r
	own.Entry, own.Kind = base.String(), r.Requested
	if c.Covers(&own) {
		return true
	}
	return contains(c.Of(base), func(c *Covered) bool {
		other := *r
		other.Kind = schema.FromAPIVersionAndKind(c.APIVersion, c.Kind)
		short, _ := VersionsOf(c.versions())
		return c.Kind == r.Requested.Kind && c.covers(&other) && !e.named(c.versions()) && short < e.Versions
	})
}

func (c *Covered) covers(r *usher.Request) bool {
	if len(c.Operations) > 0 && !slices.Contains(c.Operations, r.Operation) {
		return false
	}
	if c.Namespaces != nil && (isNamespace(r) || !slices.Contains(c.Namespaces, r.Namespace)) {
		return false
	}
	if c.Kind == "" {
		return wholeObject(r) || r.Operation == usher.Connect
	}
	if r.Kind.Empty() {
		return wholeObject(r) && c.APIVersion == r.Resource.GroupVersion().String() || ownKind(r.Subresource)
	}
	return c.Kind == r.Kind.Kind && c.APIVersion == r.Kind.GroupVersion().String() && (wholeObject(r) || ownKind(r.Subresource))
}

// isNamespace reports whether the request is about a namespace, which is in none although
// its requests name it as theirs.
func isNamespace(r *usher.Request) bool {
	return r.Resource.Group == "" && r.Resource.Resource == "namespaces"
}

// wholeObject reports whether the request carries the resource's object.
func wholeObject(r *usher.Request) bool {
	switch r.Subresource {
	case "":
		return true
	case "status", "finalize":
		return writesBeside(r)
	case "ephemeralcontainers", "resize":
		return r.Operation == usher.Update && r.Resource.Group == "" && r.Resource.Resource == "pods"
	}
	return false
}

// ownKind reports whether requests for a subresource carry a kind of its own.
func ownKind(subresource string) bool {
	switch subresource {
	case "attach", "binding", "eviction", "exec", "portforward", "proxy", "scale", "token":
		return true
	}
	return false
}
