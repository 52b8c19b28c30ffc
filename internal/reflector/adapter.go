package reflector

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"
)

// An adapter is a Store in the form that the reflector needs.
type adapter struct {
	reflector *Reflector
	// done ends Run: a reflector that is late to end must not touch the store.
	done <-chan struct{}
}

var (
	_ cache.TransformingStore      = (*adapter)(nil)
	_ cache.ReflectorBookmarkStore = (*adapter)(nil)
)

func (a *adapter) Add(object any) error { return a.Update(object) }

func (a *adapter) Update(object any) error {
	o, err := stripped(object)
	if err != nil || a.over() {
		return err
	}
	a.reflector.store.Set(o)
	a.reflector.heard()
	return nil
}

func (a *adapter) Delete(object any) error {
	o, err := stripped(object)
	if err != nil || a.over() {
		return err
	}
	a.reflector.store.Delete(o)
	a.reflector.heard()
	return nil
}

func (a *adapter) Replace(objects []any, _ string) error {
	all := make([]*unstructured.Unstructured, 0, len(objects))
	for _, object := range objects {
		o, err := stripped(object)
		if err != nil {
			return err
		}
		all = append(all, o)
	}
	if a.over() {
		return nil
	}
	a.reflector.store.Replace(all)
	a.reflector.replaced()
	return nil
}

func (a *adapter) over() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

func (a *adapter) Resync() error { return nil }

func (a *adapter) Bookmark(string) error {
	a.reflector.heard()
	return nil
}

// Transformer lets the reflector drop what is not needed before it has all objects.
func (a *adapter) Transformer() cache.TransformFunc {
	return func(object any) (any, error) { return stripped(object) }
}

// stripped is the object without managedFields, which are not read and often are most of it.
func stripped(object any) (*unstructured.Unstructured, error) {
	o, ok := object.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("copy object: unexpected type %T", object)
	}
	unstructured.RemoveNestedField(o.Object, "metadata", "managedFields")
	return o, nil
}
