package prove

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/internal/kind"
)

// possible says that an object has the types that API servers ask of its kind.
func (g *generator) possible(object map[string]any) bool {
	if object == nil {
		return true
	}
	version, _ := object["apiVersion"].(string)
	name, _ := object["kind"].(string)
	of := g.kinds.Schema(schema.FromAPIVersionAndKind(version, name))
	if of != nil && object["spec"] == nil && g.asksForSpec(of) {
		return false
	}
	return of == nil || !slices.ContainsFunc(g.kinds.Check(of, object, nil), func(v kind.Violation) bool { return !v.Unknown && !v.Labels && v.Wrong == "" })
}

// complete adds the fields that API servers require to an object, in what it has: they ask no policy about others.
func (g *generator) complete(object map[string]any) map[string]any {
	version, _ := object["apiVersion"].(string)
	name, _ := object["kind"].(string)
	if of := g.kinds.Schema(schema.FromAPIVersionAndKind(version, name)); of != nil {
		g.require(of, object)
	}
	return object
}

// require adds required fields to a value, which it changes.
func (g *generator) require(of *kind.Schema, value any) {
	if of = g.kinds.Resolve(of); of == nil {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		for _, name := range of.Required {
			if _, ok := v[name]; !ok {
				v[name] = g.least(of.Properties[name])
			}
		}
		for name, each := range v {
			if field := of.Properties[name]; field != nil {
				g.require(field, each)
			} else if of.Values != nil && of.Values.Schema != nil {
				g.require(of.Values.Schema, each)
			}
		}
	case []any:
		for _, each := range v {
			if of.Items != nil {
				g.require(of.Items, each)
			}
		}
	}
}

// least returns a value of a type with as little in it as there may be.
func (g *generator) least(of *kind.Schema) any {
	if of = g.kinds.Resolve(of); of == nil {
		return "x"
	}
	switch of.Kind() {
	case kind.Object, kind.Map:
		return map[string]any{}
	case kind.List:
		return []any{}
	case kind.Bool:
		return false
	case kind.Integer, kind.Number:
		return int64(1)
	default:
		return "x"
	}
}

// asksForSpec reports whether API servers refuse objects of a kind without a spec: it has fields that they require.
func (g *generator) asksForSpec(of *kind.Schema) bool {
	spec := g.kinds.Follow(of, []string{"spec"}).At
	return spec != nil && len(spec.Required) > 0
}
