package apply

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	kinds "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
)

// builtin has a line for each kind of Kubernetes, with the name of its type, and one for each
// type: a name, a tab, and the type in the form of sigs.k8s.io/structured-merge-diff as JSON.
// TestBuiltinIsCurrent writes it.
//
//go:embed builtin.txt
var builtin string

// Types are the structures of kinds, read when they are asked for. They are safe for concurrent
// use.
type Types struct {
	mu    sync.Mutex
	lines map[string]string
	types map[string]schema.TypeDef
	kinds map[kinds.GroupVersionKind]*Schema
}

// NewTypes returns the structures of the kinds that Kubernetes has itself.
func NewTypes() *Types {
	return &Types{types: map[string]schema.TypeDef{}, kinds: map[kinds.GroupVersionKind]*Schema{}}
}

// Schema returns the structure of a kind; nil if the kind is not known.
func (t *Types) Schema(kind kinds.GroupVersionKind) (*Schema, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.kinds[kind]; ok {
		return known, nil
	}
	name, ok := t.line(kind.Group + "/" + kind.Version + "/" + kind.Kind)
	if !ok {
		return nil, nil
	}
	closed, err := t.closure(name)
	if err != nil {
		return nil, fmt.Errorf("read the structure of %s: %w", kind, err)
	}
	s := &Schema{types: closed, root: schema.TypeRef{NamedType: &name}}
	t.kinds[kind] = s
	return s, nil
}

// line returns what builtin has under a name.
func (t *Types) line(name string) (string, bool) {
	if t.lines == nil {
		t.lines = map[string]string{}
		for line := range strings.Lines(builtin) {
			name, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			t.lines[name] = text
		}
	}
	text, ok := t.lines[name]
	return text, ok
}

// closure returns the types with these names, and all that they refer to.
func (t *Types) closure(names ...string) (*schema.Schema, error) {
	s, seen := &schema.Schema{}, map[string]bool{}
	for len(names) > 0 {
		name := names[len(names)-1]
		names = names[:len(names)-1]
		if seen[name] {
			continue
		}
		seen[name] = true
		def, ok := t.types[name]
		if !ok {
			var err error
			if def, err = t.parse(name); err != nil {
				return nil, err
			}
			t.types[name] = def
		}
		s.Types = append(s.Types, def)
		names = append(names, referred(def.Atom)...)
	}
	return s, nil
}

// referred are the names of the types that an atom refers to.
func referred(atom schema.Atom) []string {
	var refs []schema.TypeRef
	if atom.List != nil {
		refs = append(refs, atom.List.ElementType)
	}
	if atom.Map != nil {
		refs = append(refs, atom.Map.ElementType)
		for _, field := range atom.Map.Fields {
			refs = append(refs, field.Type)
		}
	}
	var names []string
	for _, ref := range refs {
		if ref.NamedType != nil {
			names = append(names, *ref.NamedType)
		} else {
			names = append(names, referred(ref.Inlined)...)
		}
	}
	return names
}

func (t *Types) parse(name string) (schema.TypeDef, error) {
	text, ok := t.line(name)
	if !ok {
		return schema.TypeDef{}, fmt.Errorf("there is no type %s", name)
	}
	var written atomJSON
	if err := json.Unmarshal([]byte(text), &written); err != nil {
		return schema.TypeDef{}, fmt.Errorf("read type %s: %w", name, err)
	}
	return schema.TypeDef{Name: name, Atom: written.atom()}, nil
}

// The types of the library as JSON: that has tags for YAML alone.
type (
	atomJSON struct {
		Scalar *schema.Scalar `json:"scalar"`
		List   *struct {
			ElementType         refJSON                    `json:"elementType"`
			ElementRelationship schema.ElementRelationship `json:"elementRelationship"`
			Keys                []string                   `json:"keys"`
		} `json:"list"`
		Map *struct {
			Fields []struct {
				Name    string  `json:"name"`
				Type    refJSON `json:"type"`
				Default any     `json:"default"`
			} `json:"fields"`
			ElementType         refJSON                    `json:"elementType"`
			ElementRelationship schema.ElementRelationship `json:"elementRelationship"`
		} `json:"map"`
	}
	refJSON struct {
		NamedType           *string                     `json:"namedType"`
		ElementRelationship *schema.ElementRelationship `json:"elementRelationship"`
		atomJSON
	}
)

func (a *atomJSON) atom() schema.Atom {
	atom := schema.Atom{Scalar: a.Scalar}
	if a.List != nil {
		atom.List = &schema.List{
			ElementType: a.List.ElementType.ref(), ElementRelationship: a.List.ElementRelationship, Keys: a.List.Keys,
		}
	}
	if a.Map != nil {
		atom.Map = &schema.Map{ElementType: a.Map.ElementType.ref(), ElementRelationship: a.Map.ElementRelationship}
		for _, field := range a.Map.Fields {
			atom.Map.Fields = append(atom.Map.Fields, schema.StructField{Name: field.Name, Type: field.Type.ref(), Default: field.Default})
		}
	}
	return atom
}

func (r *refJSON) ref() schema.TypeRef {
	return schema.TypeRef{NamedType: r.NamedType, ElementRelationship: r.ElementRelationship, Inlined: r.atom()}
}

// Atomic reports whether a field is a list or a map that is only replaced as a whole, or has such elements. The
// fields lead to it from the object, through the elements of lists.
func (s *Schema) Atomic(fields []string) bool {
	atom, ok := s.types.Resolve(s.root)
	for _, name := range fields {
		for ok && atom.List != nil {
			atom, ok = s.types.Resolve(atom.List.ElementType)
		}
		if !ok || atom.Map == nil {
			return false
		}
		field, known := atom.Map.FindField(name)
		if !known {
			return false
		}
		atom, ok = s.types.Resolve(field.Type)
	}
	for ok && atom.List != nil {
		if atom.List.ElementRelationship == schema.Atomic {
			return true
		}
		atom, ok = s.types.Resolve(atom.List.ElementType)
	}
	return ok && atom.Map != nil && atom.Map.ElementRelationship == schema.Atomic
}
