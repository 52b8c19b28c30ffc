package prove

import (
	"regexp"
	"slices"
	"strings"

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
	return of == nil || !slices.ContainsFunc(g.kinds.Check(of, object, nil), func(v kind.Violation) bool { return !v.Unknown && !v.Missing && !v.Labels && v.Wrong == "" })
}

// complete adds the fields that API servers require to an object, and a spec that has such fields: they ask no policy
// about others.
func (g *generator) complete(object map[string]any) map[string]any {
	version, _ := object["apiVersion"].(string)
	name, _ := object["kind"].(string)
	if of := g.kinds.Schema(schema.FromAPIVersionAndKind(version, name)); of != nil {
		if object["spec"] == nil && g.asksForSpec(of) {
			object["spec"] = map[string]any{}
		}
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
			field := of.Properties[name]
			if field == nil && of.Values != nil {
				field = of.Values.Schema
			}
			if field == nil {
				continue
			}
			if text, ok := each.(string); ok && g.isQuantity(field) && !quantity.MatchString(text) {
				v[name] = quantityFor(text)
				continue
			}
			g.require(field, each)
		}
	case []any:
		for _, each := range v {
			if of.Items != nil {
				g.require(of.Items, each)
			}
		}
	}
}

// quantity matches the quantities among the values that are generated, all of them short.
var quantity = regexp.MustCompile(`^[+-]?[0-9]{1,15}(\.[0-9]{1,9})?(m|k|[KMGTPE]i|[MGTPE])?$`)

func (g *generator) isQuantity(of *kind.Schema) bool {
	of = g.kinds.Resolve(of)
	return of != nil && of.Kind() == kind.Quantity
}

// quantityFor returns a quantity in place of a text that API servers do not take as one: others are for other texts.
func quantityFor(text string) string {
	switch {
	case text == "":
		return "0"
	case strings.HasPrefix(text, "other"):
		return "100Gi"
	}
	return "1Gi"
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
