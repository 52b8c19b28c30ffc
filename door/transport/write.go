package transport

import (
	"maps"
	"net/http"
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
)

// create decides a POST.
func (x *exchange) create() (*http.Response, error) {
	tree, err := x.tree()
	if err != nil {
		return nil, err
	}
	return x.sendNew(tree)
}

// sendNew decides the creation of an object. Some resources create by PUT, too.
func (x *exchange) sendNew(tree map[string]any) (*http.Response, error) {
	r, err := x.creation(tree)
	if err != nil {
		return nil, err
	}
	changed, err := x.settle(r)
	if err != nil {
		return nil, err
	}
	return x.sendSettled(r, changed)
}

// creation is the request to create an object.
func (x *exchange) creation(tree map[string]any) (*usher.Request, error) {
	kind, err := kindOf(tree)
	if err != nil {
		return nil, err
	}
	var options metav1.CreateOptions
	query := x.request.URL.Query()
	if err := metav1.Convert_url_Values_To_v1_CreateOptions(&query, &options, nil); err != nil {
		return nil, err
	}
	options.TypeMeta = metav1.TypeMeta{APIVersion: metav1.SchemeGroupVersion.String(), Kind: "CreateOptions"}
	r := x.question(usher.Create, kind, options.DryRun)
	if r.Options, err = asObject(&options); err != nil {
		return nil, err
	}
	if r.Name == "" {
		r.Name = text(tree, "name")
	}
	r.Object = usher.TreeObject(x.placed(r, tree))
	return r, nil
}

// change is the request to change an object from old to tree.
func (x *exchange) change(old, tree map[string]any, kind schema.GroupVersionKind) (*usher.Request, error) {
	var options metav1.UpdateOptions
	query := x.request.URL.Query()
	if err := metav1.Convert_url_Values_To_v1_UpdateOptions(&query, &options, nil); err != nil {
		return nil, err
	}
	options.TypeMeta = metav1.TypeMeta{APIVersion: metav1.SchemeGroupVersion.String(), Kind: "UpdateOptions"}
	r := x.question(usher.Update, kind, options.DryRun)
	var err error
	if r.Options, err = asObject(&options); err != nil {
		return nil, err
	}
	r.OldObject = usher.TreeObject(old)
	r.Object = usher.TreeObject(x.placed(r, tree))
	return r, nil
}

// placed is tree in the namespace of the request, as API servers set it. A Namespace is in itself.
func (x *exchange) placed(r *usher.Request, tree map[string]any) map[string]any {
	if x.target.resource.Group == "" && x.target.resource.Resource == "namespaces" {
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

// sendSettled sends the client's own body if nothing was changed.
func (x *exchange) sendSettled(r *usher.Request, changed bool) (*http.Response, error) {
	if !changed {
		return x.pass()
	}
	tree, err := r.Object.Tree()
	if err != nil {
		return nil, err
	}
	return x.sendObject(mediaJSON, tree)
}

// update decides a PUT.
func (x *exchange) update() (*http.Response, error) {
	tree, err := x.tree()
	if err != nil {
		return nil, err
	}
	kind, err := kindOf(tree)
	if err != nil {
		return nil, err
	}
	if !x.concerns(kind, usher.Create, usher.Update) {
		return x.pass()
	}
	return x.conditionally(text(tree, "resourceVersion") == "", func(old map[string]any) (*http.Response, error) {
		if old == nil {
			return x.sendNew(tree)
		}
		r, err := x.change(old, tree, kind)
		if err != nil {
			return nil, err
		}
		changed, err := x.settle(r)
		if err != nil {
			return nil, err
		}
		version := text(old, "resourceVersion")
		if text(tree, "resourceVersion") != "" || version == "" {
			return x.sendSettled(r, changed)
		}
		settled, err := r.Object.Tree()
		if err != nil {
			return nil, err
		}
		return x.sendObject(mediaJSON, with(settled, "resourceVersion", version))
	})
}

// conditionally reads the object of the request and has it written on condition that it has not
// changed; after a conflict it retries, if the client set no condition itself. Old is nil if there
// is no object.
func (x *exchange) conditionally(retry bool, write func(old map[string]any) (*http.Response, error)) (*http.Response, error) {
	old, err := x.old()
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		warned := len(x.warnings)
		response, err := write(old)
		if err != nil || response.StatusCode != http.StatusConflict || !retry || attempt == attempts {
			return response, err
		}
		next, err := x.old()
		if err != nil {
			discard(response)
			return nil, err
		}
		if text(next, "resourceVersion") == text(old, "resourceVersion") {
			return response, nil
		}
		discard(response)
		old, x.warnings = next, x.warnings[:warned]
	}
}

func discard(response *http.Response) { _ = response.Body.Close() }

func asObject(v any) (*usher.Object, error) {
	raw, err := encode(v)
	if err != nil {
		return nil, err
	}
	return usher.RawObject(raw), nil
}

// query is that of the client's request with other values.
func (x *exchange) query(values url.Values) *url.URL {
	to := *x.request.URL
	query := to.Query()
	maps.Copy(query, values)
	to.RawQuery = query.Encode()
	return &to
}
