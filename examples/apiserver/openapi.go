package main

import (
	"maps"

	generated "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"

	v1 "github.com/usher-dev/usher/examples/apiserver/shop/v1"
)

// definitions are the schemas of what the server serves. Servers with more kinds generate
// theirs; those of metadata are generated.
func definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	all := maps.Clone(generated.GetOpenAPIDefinitions(ref))
	object := func(model any, properties map[string]spec.Schema, dependencies ...string) {
		all[util.GetCanonicalTypeName(model)] = common.OpenAPIDefinition{
			Schema:       spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}, Properties: properties}},
			Dependencies: dependencies,
		}
	}
	metadata, listMetadata := util.GetCanonicalTypeName(metav1.ObjectMeta{}), util.GetCanonicalTypeName(metav1.ListMeta{})
	orderSpec, order := util.GetCanonicalTypeName(v1.OrderSpec{}), util.GetCanonicalTypeName(v1.Order{})
	reference := func(name string) spec.Schema { return spec.Schema{SchemaProps: spec.SchemaProps{Ref: ref(name)}} }
	object(v1.OrderSpec{}, map[string]spec.Schema{
		"item": *spec.StringProperty(), "count": *spec.Int32Property(), "gift": *spec.BooleanProperty(),
	})
	object(v1.Order{}, map[string]spec.Schema{
		"apiVersion": *spec.StringProperty(), "kind": *spec.StringProperty(), "metadata": reference(metadata), "spec": reference(orderSpec),
	}, metadata, orderSpec)
	item := reference(order)
	object(v1.OrderList{}, map[string]spec.Schema{
		"apiVersion": *spec.StringProperty(), "kind": *spec.StringProperty(), "metadata": reference(listMetadata), "items": *spec.ArrayProperty(&item),
	}, listMetadata, order)
	return all
}
