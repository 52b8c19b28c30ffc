package transport

import (
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A verb is the kind of write of a request.
type verb int

const (
	create verb = iota
	update
	patch
	remove
	removeCollection
	connect
)

// A target is what a URL path of the API names.
type target struct {
	verb        verb
	resource    schema.GroupVersionResource
	namespace   string
	name        string
	subresource string
	// rest is what follows a subresource that has paths of its own, such as proxy.
	rest string
}

// parse returns the target that a request writes; false if it is not a write, or not of the API.
func parse(request *http.Request, prefix string) (target, bool) {
	path, ok := strings.CutPrefix(request.URL.Path, prefix)
	if !ok {
		return target{}, false
	}
	t, ok := parsePath(path)
	if !ok {
		return target{}, false
	}
	if t.connects() {
		t.verb = connect
		return t, true
	}
	switch request.Method {
	case http.MethodPost:
		t.verb = create
	case http.MethodPut:
		t.verb = update
	case http.MethodPatch:
		t.verb = patch
	case http.MethodDelete:
		t.verb = remove
		if t.name == "" {
			t.verb = removeCollection
		}
	default:
		return target{}, false
	}
	return t, true
}

// parsePath reads /api/VERSION/... and /apis/GROUP/VERSION/...
func parsePath(path string) (target, bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	t := target{}
	switch {
	case parts[0] == "api" && len(parts) > 2:
		t.resource.Version, parts = parts[1], parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		t.resource.Group, t.resource.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return target{}, false
	}
	if slices.Contains(parts, "") {
		return target{}, false
	}
	// After a namespace's name comes either a resource in it, or a subresource of its own.
	if parts[0] == "namespaces" && len(parts) > 1 {
		t.namespace = parts[1]
		if len(parts) > 2 && !namespaceSubresource(parts[2]) {
			parts = parts[2:]
		}
	}
	t.resource.Resource, parts = parts[0], parts[1:]
	if len(parts) > 0 {
		t.name, parts = parts[0], parts[1:]
	}
	if len(parts) > 0 {
		t.subresource, t.rest = parts[0], strings.Join(parts[1:], "/")
	}
	return t, true
}

func namespaceSubresource(name string) bool { return name == "status" || name == "finalize" }

// connects reports whether every request to the target is a CONNECT, with any method.
func (t *target) connects() bool {
	if t.resource.Group != "" || t.name == "" {
		return false
	}
	_, ok := connections[t.resource.Resource+"/"+t.subresource]
	return ok
}
