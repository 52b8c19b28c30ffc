package kyverno

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/internal/kind"
)

// A shape is what is known of a value by the schemas of the kinds that a rule is for.
type shape struct {
	kinds *kind.Set
	// of are the schemas that the value may have. There are none if one of them is not known.
	of []*kind.Schema
	// root says that the value is an object of an API.
	root bool
}

// sort returns the type of the value; Anything if it is not known, or if it differs.
func (s shape) sort() kind.Type {
	var found kind.Type
	for i, of := range s.of {
		if t := of.Kind(); i == 0 {
			found = t
		} else if t != found {
			return kind.Anything
		}
	}
	return found
}

// isMap reports whether the value is a map for sure.
func (s shape) isMap() bool {
	t := s.sort()
	return t == kind.Object || t == kind.Map || s.root
}

// field returns the shape of a member of a map, and whether it is always there.
func (s shape) field(name string) (shape, bool) {
	next := shape{kinds: s.kinds}
	named := slices.Contains([]string{"metadata", "apiVersion", "kind"}, name)
	if len(s.of) == 0 && s.root && named {
		// All objects have metadata of the same shape.
		if pod := s.kinds.Schema(schema.GroupVersionKind{Version: "v1", Kind: "Pod"}); pod != nil {
			s.of = []*kind.Schema{pod}
		}
	}
	required := len(s.of) > 0
	for _, of := range s.of {
		step := s.kinds.Follow(of, []string{name})
		at := step.At
		if of.Kind() == kind.Map && of.Values != nil && of.Values.Schema != nil {
			at = s.kinds.Resolve(of.Values.Schema)
		}
		if at == nil || at.Nullable {
			return shape{kinds: s.kinds}, false
		}
		required = required && (slices.Contains(of.Required, name) || s.root && named)
		next.of = append(next.of, at)
	}
	return next, required
}

// element returns the shape of the elements of a list.
func (s shape) element() shape {
	next := shape{kinds: s.kinds}
	for _, of := range s.of {
		at := s.kinds.Follow(of, []string{"[]"}).At
		if at == nil || at.Nullable {
			return shape{kinds: s.kinds}
		}
		next.of = append(next.of, at)
	}
	return next
}
