package policytest

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
)

// A Request is a request in a short form. What an API server would add is derived from the object:
// see [Request.For].
type Request struct {
	Operation usher.Operation `json:"operation"`
	Namespace string          `json:"namespace,omitempty"`
	// Object is absent on DELETE, OldObject present on UPDATE and DELETE.
	Object    map[string]any `json:"object,omitempty"`
	OldObject map[string]any `json:"oldObject,omitempty"`

	// Name is the object's own name unless it is set, as it must be for the object of a
	// subresource that has none.
	Name string `json:"name,omitempty"`
	// Resource and Subresource are guessed from the kind unless they are set.
	Resource    string `json:"resource,omitempty"`
	Subresource string `json:"subresource,omitempty"`

	User   User `json:"user,omitzero"`
	DryRun bool `json:"dryRun,omitempty"`
}

// A User is the user who makes a [Request].
type User struct {
	Name   string              `json:"name,omitempty"`
	UID    string              `json:"uid,omitempty"`
	Groups []string            `json:"groups,omitempty"`
	Extra  map[string][]string `json:"extra,omitempty"`
}

// For returns the request as an API server asks it in a phase. The kind is that of the object, or
// of the old object on DELETE; the resource is the usual plural of the kind, and for kinds of a
// subresource, such as PodExecOptions, that endpoint.
func (r *Request) For(phase usher.Phase) (*usher.Request, error) {
	subject := r.Object
	if subject == nil {
		subject = r.OldObject
	}
	apiVersion, _ := subject["apiVersion"].(string)
	kind, _ := subject["kind"].(string)
	if apiVersion == "" || kind == "" {
		return nil, fmt.Errorf("build request: the object has no apiVersion or no kind")
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return nil, fmt.Errorf("build request: %w", err)
	}
	resource, subresource := endpoint(kind)
	if r.Resource != "" {
		resource, subresource = r.Resource, ""
	}
	if r.Subresource != "" {
		subresource = r.Subresource
	}
	name := r.Name
	if metadata, ok := subject["metadata"].(map[string]any); ok && name == "" {
		name, _ = metadata["name"].(string)
	}
	return &usher.Request{
		UID:         "policytest",
		Phase:       phase,
		Operation:   r.Operation,
		Kind:        gv.WithKind(kind),
		Resource:    gv.WithResource(resource),
		Subresource: subresource,
		Name:        name,
		Namespace:   r.Namespace,
		User:        usher.User{Name: r.User.Name, UID: r.User.UID, Groups: r.User.Groups, Extra: r.User.Extra},
		DryRun:      r.DryRun,
		Object:      objectOf(r.Object),
		OldObject:   objectOf(r.OldObject),
	}, nil
}

// objectOf returns an object as doors pass it, in bytes, so that partial decoding is tested, too;
// but not if that would change its numbers: 1.0 becomes 1.
func objectOf(tree map[string]any) *usher.Object {
	object := usher.TreeObject(tree)
	raw, err := object.Raw()
	if err != nil {
		return object
	}
	encoded := usher.RawObject(raw)
	if again, err := encoded.Tree(); err != nil || !reflect.DeepEqual(again, tree) {
		return object
	}
	return usher.RawObject(raw)
}

// endpoint guesses the resource and subresource that objects of a kind are sent to.
func endpoint(kind string) (resource, subresource string) {
	switch kind {
	case "Endpoints":
		return "endpoints", ""
	case "PodExecOptions":
		return "pods", "exec"
	case "PodAttachOptions":
		return "pods", "attach"
	case "PodPortForwardOptions":
		return "pods", "portforward"
	case "PodProxyOptions":
		return "pods", "proxy"
	case "ServiceProxyOptions":
		return "services", "proxy"
	case "NodeProxyOptions":
		return "nodes", "proxy"
	case "Binding":
		return "pods", "binding"
	case "Eviction":
		return "pods", "eviction"
	case "TokenRequest":
		return "serviceaccounts", "token"
	}
	return plural(strings.ToLower(kind)), ""
}

func plural(word string) string {
	for _, ending := range []string{"s", "x", "z", "ch", "sh"} {
		if strings.HasSuffix(word, ending) {
			return word + "es"
		}
	}
	if stem, ok := strings.CutSuffix(word, "y"); ok && stem != "" && !strings.ContainsAny(stem[len(stem)-1:], "aeiou") {
		return stem + "ies"
	}
	return word + "s"
}
