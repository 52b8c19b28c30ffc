package rule

import (
	"slices"

	usher "github.com/usher-dev/usher"
)

// Covers reports whether a request is covered: whether a webhook that is registered for c is
// asked about it. Doors that see every request ask nothing about the others.
//
// What covers objects of every kind covers no subresource, but for those that carry whole
// pods, and CONNECT, which has nothing else. What names a kind covers the subresources that
// have a kind of their own, such as Scale and Eviction. Nothing covers the status of
// objects: to refuse or change what controllers report would only make them lie.
func (c Coverage) Covers(r *usher.Request) bool {
	covered := c.Validate
	if r.Phase == usher.Mutate {
		covered = c.Mutate
	}
	return slices.ContainsFunc(covered, func(c Covered) bool { return c.covers(r) })
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
