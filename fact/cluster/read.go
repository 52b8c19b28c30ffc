package cluster

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/usher-dev/usher/fact"
)

// page is how many objects are listed at once.
const page = 500

// maxSelected bounds the objects of one fact.
const maxSelected = 1000

// A reader reads objects from the API server.
type reader struct {
	client  dynamic.Interface
	mapper  *mapper
	tenants tenants
	// rest, unless nil, reads long lists as bytes.
	rest rest.Interface
}

// get reads one object from the API server.
func (r *reader) get(ctx context.Context, m mapping, o *fact.Object, namespace string) (any, error) {
	if err := r.tenants.wait(ctx, objectReads); err != nil {
		return nil, fmt.Errorf("get %s: %w", o, err)
	}
	object, err := r.client.Resource(m.resource).Namespace(namespace).Get(ctx, o.Name, metav1.GetOptions{})
	if err != nil {
		return nil, r.explain(err, m, o, namespace)
	}
	unstructured.RemoveNestedField(object.Object, "metadata", "managedFields")
	return object.Object, nil
}

// selectOne lists objects of the API server and returns the first that is selected, nil
// if none is. It looks at all of them: the server sorts namespace a-b before a.
func (r *reader) selectOne(ctx context.Context, m mapping, o *fact.Object, namespace string) (any, error) {
	var first *unstructured.Unstructured
	err := r.eachSelected(ctx, m, o, namespace, func(object *unstructured.Unstructured) error {
		if first == nil || nameOf(object).compare(nameOf(first)) < 0 {
			first = object
		}
		return nil
	})
	if err != nil || first == nil {
		return nil, err
	}
	return first.Object, nil
}

// selectAll lists objects of the API server and returns those that are selected, in order.
func (r *reader) selectAll(ctx context.Context, m mapping, o *fact.Object, namespace string) (any, error) {
	var all []*unstructured.Unstructured
	err := r.eachSelected(ctx, m, o, namespace, func(object *unstructured.Unstructured) error {
		if all = append(all, object); len(all) > maxSelected {
			return fmt.Errorf("get %s: more than %d objects are selected", o, maxSelected)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b *unstructured.Unstructured) int { return nameOf(a).compare(nameOf(b)) })
	trees := make([]any, len(all))
	for i := range all {
		trees[i] = all[i].Object
	}
	return trees, nil
}

// eachSelected calls visit with each object of the API server that is selected.
func (r *reader) eachSelected(ctx context.Context, m mapping, o *fact.Object, namespace string, visit func(*unstructured.Unstructured) error) error {
	options := metav1.ListOptions{Limit: page}
	if s, ok := o.Selector.(fact.LabelSelector); ok {
		options.LabelSelector = s.LabelSelector()
	}
	for ctx.Err() == nil {
		if err := r.tenants.wait(ctx, listReads); err != nil {
			return fmt.Errorf("get %s: %w", o, err)
		}
		list, err := r.client.Resource(m.resource).Namespace(namespace).List(ctx, options)
		if err != nil {
			return r.explain(err, m, o, namespace)
		}
		for i := range list.Items {
			object := &list.Items[i]
			if !o.Selector.Matches(object.Object) {
				continue
			}
			unstructured.RemoveNestedField(object.Object, "metadata", "managedFields")
			if err := visit(object); err != nil {
				return err
			}
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return nil
		}
	}
	return fmt.Errorf("get %s: %w", o, ctx.Err())
}

// unmapped says what it means that the resource of an object is not known.
func unmapped(o *fact.Object, err error) error {
	missing := &fact.NoKind{APIVersion: o.APIVersion, Kind: o.Kind}
	switch {
	case !meta.IsNoMatchError(err):
		return fmt.Errorf("get %s: %w", o, err)
	case o.Name != "":
		return fmt.Errorf("%w: %w", absent(o, o.Namespace), missing)
	}
	return fmt.Errorf("get %s: %w", o, missing)
}

// explain explains an error of the API server to authors of policies and to operators.
func (r *reader) explain(err error, m mapping, o *fact.Object, namespace string) error {
	resource := m.resource.Resource
	if m.resource.Group != "" {
		resource += "." + m.resource.Group
	}
	switch {
	case apierrors.IsNotFound(err) && (apierrors.IsUnexpectedServerError(err) || o.Name == ""):
		// It is the path that is not there.
		r.mapper.forget(m.kind)
		return unmapped(o, &meta.NoKindMatchError{GroupKind: m.kind.GroupKind(), SearchedVersions: []string{m.kind.Version}})
	case apierrors.IsNotFound(err):
		return absent(o, namespace)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("get %s: usher may not read %s: add them to the Helm value facts.resources: %w", o, resource, err)
	case apierrors.IsMethodNotSupported(err):
		return fmt.Errorf("get %s: the API server does not let anybody read %s: %w", o, resource, err)
	}
	return fmt.Errorf("get %s: %w", o, err)
}

// absent is the error of an object that does not exist.
func absent(o *fact.Object, namespace string) error {
	full := o.Name
	if namespace != "" {
		full = namespace + "/" + full
	}
	return &fact.NotFound{Kind: o.Kind, Name: full}
}
