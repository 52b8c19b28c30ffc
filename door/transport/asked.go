package transport

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"

	usher "github.com/usher-dev/usher"
)

// An asked is the request of a client.
type asked struct {
	*transport

	request *http.Request
	target  target
	body    []byte
}

// read reads the body of the request, and closes it.
func (a *asked) read() error {
	if a.request.Body == nil {
		return nil
	}
	defer a.request.Body.Close()
	limit := a.options.MaxBody
	body, err := io.ReadAll(io.LimitReader(a.request.Body, limit+1))
	if err != nil {
		return &broken{fmt.Errorf("read body: %w", err)}
	}
	if int64(len(body)) > limit {
		return &denial{metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusRequestEntityTooLarge, Reason: metav1.StatusReasonRequestEntityTooLarge,
			Message: fmt.Sprintf("Request entity too large: limit is %d", limit),
		}}
	}
	a.body = body
	return nil
}

// question is a request without objects.
func (a *asked) question(operation usher.Operation, kind schema.GroupVersionKind, dryRun []string) *usher.Request {
	return &usher.Request{
		UID:         string(uuid.NewUUID()),
		Operation:   operation,
		Kind:        kind,
		Resource:    a.target.resource,
		Subresource: a.target.subresource,
		Name:        a.target.name,
		Namespace:   a.target.namespace,
		DryRun:      slices.Contains(dryRun, metav1.DryRunAll),
	}
}

// concerns reports whether the decider may cover an operation on a kind, for any user.
func (a *asked) concerns(kind schema.GroupVersionKind, operations ...usher.Operation) bool {
	for _, operation := range operations {
		r := a.question(operation, kind, nil)
		for _, r.Phase = range []usher.Phase{usher.Mutate, usher.Validate} {
			if a.options.Covers(r) {
				return true
			}
		}
	}
	return false
}

// unread is the kind of the object at the target as far as that is known without a read: it is empty unless
// the scheme has a type for the resource.
func (a *asked) unread() schema.GroupVersionKind {
	if a.target.subresource != "" {
		return schema.GroupVersionKind{}
	}
	version := a.target.resource.GroupVersion()
	for kind := range a.options.Scheme.KnownTypes(version) {
		if resource, _ := meta.UnsafeGuessKindToResource(version.WithKind(kind)); resource == a.target.resource {
			return version.WithKind(kind)
		}
	}
	return schema.GroupVersionKind{}
}

// creation is the request to create an object.
func (a *asked) creation(tree map[string]any) (*usher.Request, error) {
	kind, err := kindOf(tree)
	if err != nil {
		return nil, err
	}
	var options metav1.CreateOptions
	query := a.request.URL.Query()
	if err := metav1.Convert_url_Values_To_v1_CreateOptions(&query, &options, nil); err != nil {
		return nil, fmt.Errorf("decode options: %w", err)
	}
	options.TypeMeta = metav1.TypeMeta{APIVersion: metav1.SchemeGroupVersion.String(), Kind: "CreateOptions"}
	r := a.question(usher.Create, kind, options.DryRun)
	if r.Options, err = asObject(&options); err != nil {
		return nil, err
	}
	if r.Name == "" {
		r.Name = text(tree, "name")
	}
	r.Object = usher.TreeObject(a.placed(r, tree))
	return r, nil
}

// change is the request to change an object from old to tree.
func (a *asked) change(old, tree map[string]any, kind schema.GroupVersionKind) (*usher.Request, error) {
	var options metav1.UpdateOptions
	query := a.request.URL.Query()
	if err := metav1.Convert_url_Values_To_v1_UpdateOptions(&query, &options, nil); err != nil {
		return nil, fmt.Errorf("decode options: %w", err)
	}
	options.TypeMeta = metav1.TypeMeta{APIVersion: metav1.SchemeGroupVersion.String(), Kind: "UpdateOptions"}
	r := a.question(usher.Update, kind, options.DryRun)
	var err error
	if r.Options, err = asObject(&options); err != nil {
		return nil, err
	}
	r.OldObject = usher.TreeObject(old)
	r.Object = usher.TreeObject(a.placed(r, tree))
	return r, nil
}

// placed is tree in the namespace of the request, as API servers set it. A Namespace is in itself.
func (a *asked) placed(r *usher.Request, tree map[string]any) map[string]any {
	if a.target.resource.Group == "" && a.target.resource.Resource == "namespaces" {
		r.Namespace = r.Name
		return tree
	}
	if r.Namespace == "" || text(tree, "namespace") != "" {
		return tree
	}
	if _, ok := tree["metadata"].(map[string]any); !ok && r.Subresource != "" {
		return tree
	}
	return with(tree, "namespace", r.Namespace)
}

func asObject(v any) (*usher.Object, error) {
	raw, err := encode(v)
	if err != nil {
		return nil, err
	}
	return usher.RawObject(raw), nil
}

// query is that of the client's request with other values.
func (a *asked) query(values url.Values) *url.URL {
	to := *a.request.URL
	query := to.Query()
	maps.Copy(query, values)
	to.RawQuery = query.Encode()
	return &to
}
