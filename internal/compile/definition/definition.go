// Package definition checks policies against the CustomResourceDefinitions of their kinds, as an
// API server does: policies in files have not passed one.
package definition

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/deploy/crds"
)

// A Definition is the schema of a kind of policies, with its rules.
type Definition struct {
	structural *structuralschema.Structural
	schema     validation.SchemaValidator
	rules      *cel.Validator
}

// of has the definitions by kind. They are made when they are needed, since that takes a moment.
var of sync.Map

// Check returns the fields of a policy that an API server would refuse. It returns an error if the
// definition cannot be used, which no policy causes.
func Check(ctx context.Context, kind *api.Kind, policy api.Object) (field.ErrorList, error) {
	once, _ := of.LoadOrStore(kind.GroupVersionKind, sync.OnceValues(func() (*Definition, error) { return read(kind) }))
	d, err := once.(func() (*Definition, error))()
	if err != nil {
		return nil, err
	}
	return d.check(ctx, tree(policy)), nil
}

func read(kind *api.Kind) (*Definition, error) {
	text, err := crds.Of(kind.GroupVersionResource().GroupResource())
	if err != nil {
		return nil, err
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &crd); err != nil {
		return nil, fmt.Errorf("decode CustomResourceDefinition: %w", err)
	}
	for i := range crd.Spec.Versions {
		version := &crd.Spec.Versions[i]
		if version.Name != kind.Version {
			continue
		}
		internal := &apiextensions.JSONSchemaProps{}
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema, internal, nil); err != nil {
			return nil, fmt.Errorf("read schema of %s: %w", crd.Name, err)
		}
		d := &Definition{}
		if d.structural, err = structuralschema.NewStructural(internal); err != nil {
			return nil, fmt.Errorf("read schema of %s: %w", crd.Name, err)
		}
		if d.schema, _, err = validation.NewSchemaValidator(internal); err != nil {
			return nil, fmt.Errorf("read schema of %s: %w", crd.Name, err)
		}
		d.rules = cel.NewValidator(d.structural, true, celconfig.PerCallLimit)
		return d, nil
	}
	return nil, fmt.Errorf("CustomResourceDefinition %s has no version %s", crd.Name, kind.Version)
}

func (d *Definition) check(ctx context.Context, object map[string]any) field.ErrorList {
	errs := validation.ValidateCustomResource(nil, object, d.schema)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, d.structural, object)...)
	if len(errs) > 0 {
		// Rules count on the schema.
		return errs
	}
	errs, _ = d.rules.Validate(ctx, nil, d.structural, object, nil, celconfig.RuntimeCELCostBudget)
	return errs
}
