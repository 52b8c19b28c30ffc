package main

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"

	"github.com/usher-dev/usher/examples/apiserver/shop"
)

// newStore keeps orders in etcd.
func newStore(etcd generic.RESTOptionsGetter) (map[string]rest.Storage, error) {
	resource := shop.SchemeGroupVersion.WithResource("orders").GroupResource()
	store := &registry.Store{
		NewFunc:                   func() runtime.Object { return &shop.Order{} },
		NewListFunc:               func() runtime.Object { return &shop.OrderList{} },
		DefaultQualifiedResource:  resource,
		SingularQualifiedResource: shop.SchemeGroupVersion.WithResource("order").GroupResource(),
		CreateStrategy:            strategy{shop.Scheme, names.SimpleNameGenerator},
		UpdateStrategy:            strategy{shop.Scheme, names.SimpleNameGenerator},
		DeleteStrategy:            strategy{shop.Scheme, names.SimpleNameGenerator},
		TableConvertor:            rest.NewDefaultTableConvertor(resource),
	}
	if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: etcd}); err != nil {
		return nil, fmt.Errorf("store %s: %w", resource, err)
	}
	return map[string]rest.Storage{"orders": store}, nil
}

// A strategy says what holds for orders whatever policies say.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
}

func (strategy) NamespaceScoped() bool                                            { return true }
func (strategy) AllowCreateOnUpdate() bool                                        { return false }
func (strategy) AllowUnconditionalUpdate() bool                                   { return false }
func (strategy) Canonicalize(runtime.Object)                                      {}
func (strategy) PrepareForCreate(context.Context, runtime.Object)                 {}
func (strategy) PrepareForUpdate(context.Context, runtime.Object, runtime.Object) {}

func (strategy) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }
func (strategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

func (strategy) Validate(_ context.Context, object runtime.Object) field.ErrorList {
	if order, ok := object.(*shop.Order); ok && len(order.Spec.Lines) > 0 && order.Spec.Lines[0].Item != "" {
		return nil
	}
	return field.ErrorList{field.Required(field.NewPath("spec", "item"), "say what is ordered")}
}

func (s strategy) ValidateUpdate(ctx context.Context, object, _ runtime.Object) field.ErrorList {
	return s.Validate(ctx, object)
}
