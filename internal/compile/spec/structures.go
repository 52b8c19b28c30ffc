package spec

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/lang/cel/apply"
)

// structures are the structures of kinds, for apply configurations: those of Kubernetes' own kinds
// are known, and those of others are in the definitions of the cluster, which are facts.
type structures struct {
	types *apply.Types

	mu sync.Mutex
	// custom has the structure that was last made of each definition.
	custom map[definition]*made
}

// A definition is a version of a custom kind.
type definition struct{ name, version string }

// A made is the structure of one state of a definition.
type made struct {
	crd    map[string]any
	schema *apply.Schema
}

// isOf reports whether m was made of a definition: of the same object, or of one of the same
// revision.
func (m *made) isOf(crd map[string]any) bool {
	if m == nil || reflect.ValueOf(m.crd).Pointer() == reflect.ValueOf(crd).Pointer() {
		return m != nil
	}
	was, _ := m.crd["metadata"].(map[string]any)
	is, _ := crd["metadata"].(map[string]any)
	return is["resourceVersion"] != nil && is["resourceVersion"] == was["resourceVersion"] && is["uid"] == was["uid"]
}

// shared are the structures that all policies use: reading those of Kubernetes' kinds takes a
// moment.
var shared = sync.OnceValue(func() *structures {
	return &structures{types: apply.NewTypes(), custom: map[definition]*made{}}
})

// Structures returns the structure of the kind of a request. It implements [admission.Structures].
func Structures(in *admission.Input) (*apply.Schema, error) { return shared().of(in) }

// of implements [admission.Structures].
func (s *structures) of(in *admission.Input) (*apply.Schema, error) {
	kind := in.Request.Kind
	known, err := s.types.Schema(kind)
	if err != nil || known != nil {
		return known, err
	}
	d := definition{in.Request.Resource.Resource + "." + kind.Group, kind.Version}
	tree, err := in.Facts.Value(&fact.Object{
		APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Name: d.name,
	})
	if _, absent := errors.AsType[*fact.NotFound](err); absent {
		return nil, admission.NotFound(kind)
	}
	if err != nil {
		return nil, err
	}
	crd, _ := tree.(map[string]any)
	return s.make(d, crd, admission.NotFound(kind))
}

// make returns the structure of a version of a definition, of which there is one in each state.
func (s *structures) make(d definition, crd map[string]any, absent error) (*apply.Schema, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.custom[d]; known.isOf(crd) {
		return known.schema, nil
	}
	spec, _ := crd["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	i := slices.IndexFunc(versions, func(v any) bool {
		version, _ := v.(map[string]any)
		return version["name"] == d.version
	})
	if i < 0 {
		return nil, absent
	}
	version, _ := versions[i].(map[string]any)
	validation, _ := version["schema"].(map[string]any)
	openAPI, _ := validation["openAPIV3Schema"].(map[string]any)
	schema, err := s.types.Custom(openAPI)
	if err != nil {
		return nil, fmt.Errorf("read the structure of %s: %w", d.name, err)
	}
	s.custom[d] = &made{crd, schema}
	return schema, nil
}
