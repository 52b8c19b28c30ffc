// Package apply merges apply configurations into objects, as server-side apply and
// MutatingAdmissionPolicies do: a configuration has the fields that it sets, and the structure of
// the kind says whether what is there is replaced, or merged by key.
//
// A merge walks along the paths of the configuration only. Its result is that of
// sigs.k8s.io/structured-merge-diff, which walks the whole object.
package apply

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	usher "github.com/usher-dev/usher"
)

// A Schema is the structure of the objects of one kind. It is safe for concurrent use.
type Schema struct {
	types *schema.Schema
	root  schema.TypeRef
}

// Merge returns the operations that merge a configuration into an object, in an order that depends
// on these alone. They share values with the configuration. The kind of the configuration is that of
// the object, whatever it says.
//
// Errors are those of upstream's ApplyStructuredMergeDiff: fields that the kind does not have,
// values of another type, and lists and maps that can only be replaced as a whole.
func (s *Schema) Merge(object, configuration map[string]any) (usher.Patch, error) {
	if err := s.Check(configuration); err != nil {
		return nil, err
	}
	return s.MergeChecked(object, configuration)
}

// Check returns the error that merging a configuration into any object gives.
func (s *Schema) Check(configuration map[string]any) error {
	configuration = withoutKind(configuration)
	if _, err := typed.AsTyped(value.NewValueInterface(configuration), s.types, s.root); err != nil {
		return fmt.Errorf("failed to convert patch object to typed object: %w", sorted(err))
	}
	if atomics := s.atomics("", s.root, configuration, nil); len(atomics) > 0 {
		slices.Sort(atomics)
		return fmt.Errorf("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: %s", strings.Join(atomics, ", "))
	}
	return nil
}

// MergeChecked is Merge of a configuration of which Check returns no error.
func (s *Schema) MergeChecked(object, configuration map[string]any) (usher.Patch, error) {
	var few [fewKeys]string
	m := merge{types: s.types, recording: true, path: few[:0]}
	m.both(s.root, object, withoutKind(configuration))
	if m.err != nil {
		return nil, s.explain(object, m.err)
	}
	return m.patch, nil
}

// sorted sorts the errors of a validation, which are in the order of a map.
func sorted(err error) error {
	if all, ok := errors.AsType[typed.ValidationErrors](err); ok {
		slices.SortFunc(all, func(a, b typed.ValidationError) int { return strings.Compare(a.Error(), b.Error()) })
	}
	return err
}

// withoutKind returns a configuration without its kind: that of the object stays.
func withoutKind(configuration map[string]any) map[string]any {
	cloned := false
	for _, name := range []string{"apiVersion", "kind"} {
		if _, ok := configuration[name]; !ok {
			continue
		}
		if !cloned {
			configuration, cloned = maps.Clone(configuration), true
		}
		delete(configuration, name)
	}
	return configuration
}

// explain says what is wrong with an object that nothing can be merged into. Upstream finds that
// before it merges.
func (s *Schema) explain(object map[string]any, err error) error {
	if s.weigh(s.root, nil, object, 0) > mostExplained {
		return fmt.Errorf("failed to convert original object to typed object: %w", err)
	}
	if _, invalid := typed.AsTyped(value.NewValueInterface(object), s.types, s.root, typed.AllowDuplicates); invalid != nil {
		err = sorted(invalid)
	}
	return fmt.Errorf("failed to convert original object to typed object: %w", err)
}

// atomics returns the paths of what the configuration would replace as a whole. Like upstream it
// does not look into maps with any keys.
func (s *Schema) atomics(path string, ref schema.TypeRef, node any, found []string) []string {
	atom, ok := s.types.Resolve(ref)
	if !ok {
		return found
	}
	switch node := node.(type) {
	case map[string]any:
		if atom.Map == nil {
			return found
		}
		if atom.Map.ElementRelationship == schema.Atomic {
			found = append(found, path)
		}
		for name, member := range node {
			if field, ok := atom.Map.FindField(name); ok {
				found = s.atomics(path+"."+name, field.Type, member, found)
			}
		}
	case []any:
		if atom.List == nil {
			return found
		}
		if atom.List.ElementRelationship == schema.Atomic {
			found = append(found, path)
		}
		for i, element := range node {
			found = s.atomics(path+"["+strconv.Itoa(i)+"]", atom.List.ElementType, element, found)
		}
	}
	return found
}

// A merge is one configuration on its way into one object.
type merge struct {
	types *schema.Schema
	// recording is off inside a list that is replaced, and only there merged values are made.
	recording bool
	path      []string
	patch     usher.Patch
	err       error
}

// both merges where the object and the configuration both have a value. What only one of them has
// stays as it is there. It records the operations, or else returns the merged value.
func (m *merge) both(ref schema.TypeRef, old, set any) any {
	atom, ok := m.types.Resolve(ref)
	if !ok {
		m.err = errors.New("the schema is incomplete")
		return old
	}
	atom = deduce(atom, set)
	switch {
	case atom.Map != nil:
		return m.maps(atom.Map, old, set)
	case atom.Scalar != nil:
		return m.replace(old, set)
	case atom.List != nil:
		return m.lists(atom.List, old, set)
	}
	m.err = errors.New("the schema is incomplete")
	return old
}

// deduce returns the part of an atom that is for a value, if it has one.
func deduce(atom schema.Atom, node any) schema.Atom {
	switch node.(type) {
	case nil:
	case map[string]any:
		if atom.Map != nil {
			return schema.Atom{Map: atom.Map}
		}
	case []any:
		if atom.List != nil {
			return schema.Atom{List: atom.List}
		}
	default:
		if atom.Scalar != nil {
			return schema.Atom{Scalar: atom.Scalar}
		}
	}
	return atom
}

// replace has the configuration's value take the place of the old one.
func (m *merge) replace(old, set any) any {
	if isScalar(old) && old == set {
		return old
	}
	m.record("replace", set)
	return set
}

func isScalar(node any) bool {
	switch node.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

func (m *merge) maps(t *schema.Map, old, set any) any {
	from, _ := old.(map[string]any)
	with, _ := set.(map[string]any)
	switch {
	case t.ElementRelationship == schema.Atomic || len(from) == 0 && len(with) == 0:
		return m.replace(old, set)
	case len(with) == 0:
		return old
	case from == nil:
		return m.replace(old, set)
	}
	var merged map[string]any
	if !m.recording {
		merged = make(map[string]any, len(from)+len(with))
		maps.Copy(merged, from)
	}
	var few [fewKeys]string
	for _, name := range sortedKeys(few[:0], with) {
		member := with[name]
		m.path = append(m.path, name)
		if before, ok := from[name]; ok {
			member = m.both(fieldType(t, name), before, member)
		} else {
			m.record("add", member)
		}
		if !m.recording {
			merged[name] = member
		}
		m.path = m.path[:len(m.path)-1]
	}
	return merged
}

// fewKeys is how many keys most maps and paths have at most.
const fewKeys = 8

// sortedKeys appends the keys of a map to names, which is empty, and sorts them.
func sortedKeys(names []string, of map[string]any) []string {
	for name := range of {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func fieldType(t *schema.Map, name string) schema.TypeRef {
	if field, ok := t.FindField(name); ok {
		return field.Type
	}
	return t.ElementType
}

func (m *merge) record(op string, set any) {
	if m.recording {
		m.patch = append(m.patch, usher.PatchOp{Op: op, Path: usher.Pointer(m.path...), Value: set})
	}
}
