package expression

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/internal/kind"
)

// A Kind is what is known of a value.
type Kind string

// The kinds. Any is anything, and Either a number or a text.
const (
	Any     Kind = ""
	Text    Kind = "text"
	Integer Kind = "integer"
	Number  Kind = "number"
	Bool    Kind = "bool"
	List    Kind = "list"
	Map     Kind = "map"
	Either  Kind = "either"
)

// A Type is what is known of a value and of its parts, by the schemas of the kinds that an object may have.
type Type struct {
	Kind Kind
	// Plain says that a text has no wildcards, and Word that it is no number, quantity or duration either.
	Plain, Word bool

	set *kind.Set
	at  []*kind.Schema
	// items are the elements, and fields the fields, where these follow from no schema.
	items  *Type
	fields map[string]Type
	// part says which part of every object it is.
	part part
}

type part int

const (
	other part = iota
	object
	metadata
	labels
)

// ListOf is the type of a list.
func ListOf(item Type) Type { return Type{Kind: List, items: &item} }

// ObjectOf is the type of objects with one of some schemas; of all objects if there are none.
func ObjectOf(set *kind.Set, schemas ...*kind.Schema) Type {
	t := typeOf(set, schemas)
	t.Kind, t.set, t.part = Map, set, object
	return t
}

func mapOf(fields map[string]Type) Type { return Type{Kind: Map, fields: fields} }

func (t Type) same(o Type) bool { return t.Kind == o.Kind }

// typeOf returns what all schemas have in common. Those that are not known are nil.
func typeOf(set *kind.Set, schemas []*kind.Schema) Type {
	t := Type{set: set}
	for i, s := range schemas {
		s = set.Resolve(s)
		k, plain := Any, false
		if s != nil {
			k, plain = kindOf(s.Kind()), len(s.Enum) > 0
		}
		if i > 0 && k != t.Kind {
			return Type{}
		}
		t.Kind, t.Plain = k, plain && (i == 0 || t.Plain)
		t.at = append(t.at, s)
	}
	return t
}

func kindOf(k kind.Type) Kind {
	switch k {
	case kind.Object, kind.Map:
		return Map
	case kind.List:
		return List
	case kind.Text:
		return Text
	case kind.Integer:
		return Integer
	case kind.Number:
		return Number
	case kind.Bool:
		return Bool
	case kind.Either, kind.Quantity:
		return Either
	case kind.Anything:
	}
	return Any
}

// Item returns the type of the elements of a list, or of the values of a map.
func (t Type) Item() Type {
	switch {
	case t.items != nil:
		return *t.items
	case t.part == labels:
		return Type{Kind: Text, Plain: true}
	}
	return t.follow("[]")
}

// Field returns the type of a field of a map, and whether each such map has it.
func (t Type) Field(name string) (field Type, required bool) {
	if t.fields != nil {
		field, required = t.fields[name]
		return field, required
	}
	switch t.part {
	case object:
		switch name {
		case "kind", "apiVersion":
			return Type{Kind: Text, Plain: true}, true
		case "metadata":
			pod := t.set.Schema(schema.GroupVersionKind{Version: "v1", Kind: "Pod"})
			field = typeOf(t.set, []*kind.Schema{t.set.Follow(pod, []string{name}).At})
			field.Kind, field.part = Map, metadata
			return field, true
		}
	case metadata:
		field = t.follow(name)
		field.Plain = field.Kind == Text
		if name == "labels" {
			field.part = labels
		}
		return field, false
	case labels:
		return Type{Kind: Text, Plain: true}, false
	case other:
	}
	for _, s := range t.at {
		if s == nil || !slices.Contains(s.Required, name) {
			return t.follow(name), false
		}
	}
	return t.follow(name), len(t.at) > 0
}

func (t Type) follow(name string) Type {
	var parts []*kind.Schema
	for _, s := range t.at {
		if s == nil {
			return Type{}
		}
		step := t.set.Follow(s, []string{name})
		if step.At == nil && step.Wrong > 0 {
			// No object of this kind has the field.
			continue
		}
		parts = append(parts, step.At)
	}
	return typeOf(t.set, parts)
}

// Schemas returns those that the values may have; none if one of them is not known.
func (t Type) Schemas() []*kind.Schema {
	if slices.Contains(t.at, nil) {
		return nil
	}
	return t.at
}
