package simulate

import (
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// customKinds are the schemas of custom resources.
type customKinds map[schema.GroupVersionKind]*structuralschema.Structural

// add adds the schemas of a CustomResourceDefinition.
func (c customKinds) add(crd *apiextensionsv1.CustomResourceDefinition) error {
	for i := range crd.Spec.Versions {
		version := &crd.Spec.Versions[i]
		if version.Schema == nil || version.Schema.OpenAPIV3Schema == nil || crd.Spec.PreserveUnknownFields {
			continue
		}
		internal := &apiextensions.JSONSchemaProps{}
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema, internal, nil); err != nil {
			return fmt.Errorf("CustomResourceDefinition %s: schema of %s: %w", crd.Name, version.Name, err)
		}
		structural, err := structuralschema.NewStructural(internal)
		if err != nil {
			return fmt.Errorf("CustomResourceDefinition %s: schema of %s: %w", crd.Name, version.Name, err)
		}
		kind := schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind}
		c[kind] = structural
	}
	return nil
}

// complete drops the fields that the schema of an object does not have, and sets its defaults. It
// returns the paths of dropped fields.
func (c customKinds) complete(u *unstructured.Unstructured) []string {
	structural := c[u.GroupVersionKind()]
	if structural == nil {
		return nil
	}
	unknown := pruning.PruneWithOptions(u.Object, structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	defaulting.Default(u.Object, structural)
	return unknown
}
