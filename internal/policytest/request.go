package policytest

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// Resource and Subresource are guessed from the kind unless they are set. Resource may have a
	// group, and a version before it: deployments.apps, deployments.v1.apps.
	Resource    string `json:"resource,omitempty"`
	Subresource string `json:"subresource,omitempty"`
	// RequestKind and RequestResource are those that the client used, if the API server converted
	// the objects to another version.
	RequestKind     *metav1.GroupVersionKind     `json:"requestKind,omitempty"`
	RequestResource *metav1.GroupVersionResource `json:"requestResource,omitempty"`
	// Options are the CreateOptions, UpdateOptions or DeleteOptions. Unless they are set they are
	// those of a client that says no more than DryRun.
	Options map[string]any `json:"options,omitempty"`

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
	resource, subresource := endpoint(gv.WithKind(kind))
	if r.Resource != "" {
		resource, subresource = endpointOf(r.Resource, gv), ""
	}
	if r.Subresource != "" {
		subresource = r.Subresource
	}
	name := r.Name
	if metadata, ok := subject["metadata"].(map[string]any); ok && name == "" {
		name, _ = metadata["name"].(string)
	}
	namespace := r.Namespace
	if kind == "Namespace" && gv.Group == "" {
		namespace = cmp.Or(namespace, name)
	}
	q := &usher.Request{
		UID:         "policytest",
		Phase:       phase,
		Operation:   r.Operation,
		Kind:        gv.WithKind(kind),
		Resource:    resource,
		Subresource: subresource,
		Name:        name,
		Namespace:   namespace,
		User:        usher.User{Name: r.User.Name, UID: r.User.UID, Groups: r.User.Groups, Extra: r.User.Extra},
		DryRun:      r.DryRun,
		Object:      objectOf(r.Object),
		OldObject:   objectOf(r.OldObject),
		Options:     r.options(),
	}
	if r.RequestKind != nil {
		q.Requested, q.RequestedResource = schema.GroupVersionKind(*r.RequestKind), q.Resource
	}
	if r.RequestResource != nil {
		q.Requested = cmp.Or(q.Requested, q.Kind)
		q.RequestedResource = schema.GroupVersionResource(*r.RequestResource)
	}
	return q, nil
}

// options are those of the request; nil for an operation that has none.
func (r *Request) options() *usher.Object {
	kind := map[usher.Operation]string{usher.Create: "CreateOptions", usher.Update: "UpdateOptions", usher.Delete: "DeleteOptions"}[r.Operation]
	if r.Options != nil || kind == "" {
		return objectOf(r.Options)
	}
	options := map[string]any{"kind": kind, "apiVersion": "meta.k8s.io/v1"}
	if r.DryRun {
		options["dryRun"] = []any{"All"}
	}
	return objectOf(options)
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

// endpointOf reads a resource that may have a group, and a version. What it does not have is that of
// the object.
func endpointOf(text string, object schema.GroupVersion) schema.GroupVersionResource {
	full, short := schema.ParseResourceArg(text)
	switch {
	case short.Group == "":
		return object.WithResource(short.Resource)
	case full != nil && isVersion(full.Version):
		return *full
	case short.Group == object.Group:
		return short.WithVersion(object.Version)
	}
	// Groups of which other kinds are sent to subresources, such as a Scale, have this version.
	return short.WithVersion("v1")
}

// isVersion reports whether a text is a version of an API, such as v1beta1.
func isVersion(text string) bool {
	return len(text) > 1 && text[0] == 'v' && text[1] >= '0' && text[1] <= '9'
}

// endpoint guesses the resource and subresource that objects of a kind are sent to.
func endpoint(k schema.GroupVersionKind) (resource schema.GroupVersionResource, subresource string) {
	core := schema.GroupVersion{Version: "v1"}
	switch k.GroupKind() {
	case schema.GroupKind{Kind: "Endpoints"}:
		return core.WithResource("endpoints"), ""
	case schema.GroupKind{Kind: "PodExecOptions"}:
		return core.WithResource("pods"), "exec"
	case schema.GroupKind{Kind: "PodAttachOptions"}:
		return core.WithResource("pods"), "attach"
	case schema.GroupKind{Kind: "PodPortForwardOptions"}:
		return core.WithResource("pods"), "portforward"
	case schema.GroupKind{Kind: "PodProxyOptions"}:
		return core.WithResource("pods"), "proxy"
	case schema.GroupKind{Kind: "ServiceProxyOptions"}:
		return core.WithResource("services"), "proxy"
	case schema.GroupKind{Kind: "NodeProxyOptions"}:
		return core.WithResource("nodes"), "proxy"
	case schema.GroupKind{Kind: "Binding"}:
		return core.WithResource("pods"), "binding"
	case schema.GroupKind{Group: "policy", Kind: "Eviction"}:
		return core.WithResource("pods"), "eviction"
	case schema.GroupKind{Group: "authentication.k8s.io", Kind: "TokenRequest"}:
		return core.WithResource("serviceaccounts"), "token"
	}
	return k.GroupVersion().WithResource(plural(strings.ToLower(k.Kind))), ""
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

// RequestOf returns a request as cases have it: without what follows from the object.
func RequestOf(r *usher.Request) (*Request, error) {
	short := &Request{
		Operation: r.Operation, Namespace: r.Namespace, DryRun: r.DryRun,
		User: User{Name: r.User.Name, UID: r.User.UID, Groups: r.User.Groups, Extra: r.User.Extra},
	}
	var err error
	if short.Object, err = treeOrNil(r.Object); err != nil {
		return nil, err
	}
	if short.OldObject, err = treeOrNil(r.OldObject); err != nil {
		return nil, err
	}
	guessed, err := short.For(r.Phase)
	if err != nil {
		return nil, err
	}
	if guessed.Resource != r.Resource {
		short.Resource = strings.TrimSuffix(r.Resource.Resource+"."+r.Resource.Version+"."+r.Resource.Group, ".")
	}
	if guessed.Subresource != r.Subresource || short.Resource != "" {
		short.Subresource = r.Subresource
	}
	if guessed.Name != r.Name {
		short.Name = r.Name
	}
	return short, nil
}

func treeOrNil(o *usher.Object) (map[string]any, error) {
	if o == nil {
		return nil, nil //nolint:nilnil // A request without the object has none.
	}
	return o.Tree()
}
