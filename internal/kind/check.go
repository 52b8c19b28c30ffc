package kind

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/usher-dev/usher/internal/printable"
	"k8s.io/apimachinery/pkg/util/validation"
)

// A Step is the result of following a path in a schema.
type Step struct {
	// At is the schema at the end of the path; nil if it is unknown, or there is no such field.
	At *Schema
	// Wrong is the number of steps up to and including the first that does not exist; 0 if all exist,
	// or if that is unknown.
	Wrong int
	// Parent is the type of which that is no field.
	Parent Type

	in *Schema
}

// Fields returns the fields that exist in place of the step that is wrong.
func (s Step) Fields() []string {
	if s.in == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(s.in.Properties))
}

// Follow follows a path. Elements of lists are "[]", an index or "-".
func (s *Set) Follow(of *Schema, path []string) Step {
	for i, name := range path {
		if of = s.Resolve(of); of == nil {
			return Step{}
		}
		switch kind := of.Kind(); kind {
		case Object:
			next, ok := of.Properties[name]
			if !ok && (name == "[]" || of.Open || of.Embedded || of.Values != nil) {
				return Step{}
			}
			if !ok {
				return Step{Wrong: i + 1, Parent: kind, in: of}
			}
			of = next
		case Map:
			if of.Values == nil || of.Values.Schema == nil {
				return Step{}
			}
			of = of.Values.Schema
		case List:
			if name != "[]" && name != "-" && strings.Trim(name, "0123456789") != "" {
				return Step{Wrong: i + 1, Parent: kind}
			}
			of = of.Items
		case Text, Number, Integer, Bool:
			return Step{Wrong: i + 1, Parent: kind}
		case Anything, Either, Quantity:
			return Step{}
		}
	}
	return Step{At: s.Resolve(of)}
}

// A Violation is something that a schema does not allow.
type Violation struct {
	Path []string
	// What continues a sentence that begins with the path. It is a sentence by itself if it is about a key
	// or a value that no label or annotation has.
	What   string
	Labels bool
	// Wrong is not one of Fields, if there are any: a text, or the last step of the path if Unknown.
	Wrong   string
	Fields  []string
	Unknown bool
	// Missing says that a field that API servers require is not at the path.
	Missing bool
}

// mostViolations limits the violations that are reported for one object.
const mostViolations = 50

// Check returns what a value has that its schema does not allow, and that it did not have before. A
// field that is missing is a violation if it was there before, or if nothing was in place of its parent.
// Values that share their parts are compared fast.
func (s *Set) Check(of *Schema, value, before any) []Violation {
	c := checker{set: s}
	c.value(of, value, before, nil)
	return c.found
}

type checker struct {
	set   *Set
	found []Violation
}

func (c *checker) wrongf(v Violation, format string, args ...any) {
	if len(c.found) < mostViolations {
		v.Path, v.What = slices.Clone(v.Path), fmt.Sprintf(format, args...)
		c.found = append(c.found, v)
	}
}

func (c *checker) value(of *Schema, value, before any, path []string) {
	if same(value, before) {
		return
	}
	if of = c.set.Resolve(of); of == nil || value == nil || len(path) > deepest {
		return
	}
	kind := of.Kind()
	if !Holds(kind, value) {
		c.wrongf(Violation{Path: path}, "%s, not %s", Describe(kind), describe(value))
		return
	}
	if len(of.Enum) > 0 && !slices.Contains(of.Enum, value) {
		if text, ok := value.(string); ok && text != "" {
			c.wrongf(Violation{Path: path, Wrong: text, Fields: of.Texts()}, "one of %s, not %s", strings.Join(of.Texts(), ", "), text)
		}
	}
	switch v := value.(type) {
	case map[string]any:
		old, _ := before.(map[string]any)
		c.fields(of, v, old, path)
	case []any:
		old, _ := before.([]any)
		known := make(map[any]bool, len(old))
		for _, element := range old {
			known[identity(element)] = true
		}
		for i, element := range v {
			// An element may have moved.
			if id := identity(element); id != nil && known[id] {
				continue
			}
			var was any
			if i < len(old) {
				was = old[i]
			}
			c.value(of.Items, element, was, append(slices.Clip(path), "[]"))
		}
	}
}

// same reports whether two values surely are equal.
func same(a, b any) bool {
	id := identity(a)
	return id != nil && id == identity(b)
}

// A part is where a map or a list is.
type part struct {
	at     uintptr
	length int
}

// identity returns what values have in common that surely are equal; nil if it is not known.
func identity(value any) any {
	switch v := value.(type) {
	case map[string]any:
		return part{reflect.ValueOf(v).Pointer(), -1}
	case []any:
		if len(v) == 0 {
			return part{}
		}
		return part{reflect.ValueOf(v).Pointer(), len(v)}
	case string, bool, int64, float64:
		return value
	}
	return nil
}

func (c *checker) fields(of *Schema, object, before map[string]any, path []string) {
	c.missing(of, object, before, path)
	for _, name := range slices.Sorted(maps.Keys(object)) {
		was, had := before[name]
		if had && same(object[name], was) {
			continue
		}
		next := append(slices.Clip(path), name)
		field, ok := of.Properties[name]
		switch {
		case ok:
			c.value(field, object[name], was, next)
		case of.Values != nil:
			c.value(of.Values.Schema, object[name], was, next)
			c.key(path, name, object[name])
		case !had && of.Kind() == Object && !of.Open && !of.Embedded:
			c.wrongf(Violation{Path: next, Wrong: name, Fields: slices.Sorted(maps.Keys(of.Properties)), Unknown: true}, "no field")
		}
	}
}

// missing finds required fields that an object lacks.
func (c *checker) missing(of *Schema, object, before map[string]any, path []string) {
	required := of.Required
	if n := len(path); n > 1 && path[n-1] == "[]" && slices.Contains([]string{"containers", "initContainers"}, path[n-2]) && of.Properties["imagePullPolicy"] != nil {
		// The schema requires only the name: validation asks for more.
		required = append(slices.Clip(required), "image")
	}
	for _, name := range required {
		if field := of.Properties[name]; object[name] != nil || before != nil && before[name] == nil || field == nil || field.Nullable || field.hasDefault() {
			continue
		}
		c.wrongf(Violation{Path: append(slices.Clip(path), name), Missing: true}, "required, and missing")
	}
}

// key checks the keys and values of labels and annotations.
func (c *checker) key(path []string, name string, value any) {
	if len(path) < 2 {
		return
	}
	if path[len(path)-2] == "resources" && !strings.Contains(name, "/") && !strings.HasPrefix(name, "hugepages-") && !slices.Contains(computeResources(), name) {
		c.wrongf(Violation{Path: path, Wrong: name, Fields: computeResources()}, "one of %s or a name with a domain, not %s", strings.Join(computeResources(), ", "), name)
	}
	if path[len(path)-2] != "metadata" {
		return
	}
	what := strings.TrimSuffix(path[len(path)-1], "s")
	if what != "label" && what != "annotation" {
		return
	}
	if problems := validation.IsQualifiedName(strings.ToLower(name)); len(problems) > 0 {
		c.wrongf(Violation{Path: path, Labels: true}, "no %s has the key %q: keys are letters, digits and -_. with a domain and a slash in front, if any", what, name)
	}
	if text, ok := value.(string); ok && what == "label" && len(validation.IsValidLabelValue(text)) > 0 {
		c.wrongf(Violation{Path: path, Labels: true}, "no label has the value %q: values are up to 63 letters, digits and -_. and begin and end with a letter or digit", text)
	}
}

// computeResources returns the names of resources without a domain that containers and volumes
// request.
func computeResources() []string { return []string{"cpu", "memory", "ephemeral-storage", "storage"} }

// Holds reports whether a value is of a type.
func Holds(kind Type, value any) bool {
	if kind == Anything {
		return true
	}
	numeric := kind == Number || kind == Either || kind == Quantity
	switch value := value.(type) {
	case string:
		return kind == Text || kind == Either || kind == Quantity
	case bool:
		return kind == Bool
	case int64, int:
		return kind == Integer || numeric
	case float64:
		return numeric || kind == Integer && value == float64(int64(value))
	case map[string]any:
		return kind == Object || kind == Map
	case []any:
		return kind == List
	}
	return true
}

// Describe names a type in a sentence.
func Describe(kind Type) string {
	switch kind {
	case Object, Map:
		return "a map"
	case List:
		return "a list"
	case Text:
		return "text"
	case Number, Integer:
		return "a number"
	case Bool:
		return "true or false"
	case Either:
		return "a number or text"
	case Quantity:
		return "a quantity, which is text such as 500m"
	case Anything:
	}
	return "anything"
}

// describe names a value.
func describe(value any) string {
	switch v := value.(type) {
	case string:
		return fmt.Sprintf("the text %q", printable.Cut(v, 60))
	case bool:
		return fmt.Sprint(v)
	case int64, int, float64:
		return fmt.Sprintf("the number %v", v)
	case map[string]any:
		return "a map"
	case []any:
		return "a list"
	}
	return "null"
}

// mostSearched limits the fields that Find visits.
const mostSearched = 3000

// Find returns the shortest path to a field with a name, whose case does not count; nil if there is
// none. Of equally long ones, it returns the first in alphabetical order.
func (s *Set) Find(of *Schema, name string) []string {
	type place struct {
		of   *Schema
		path []string
	}
	level := []place{{of: of}}
	for searched := 0; len(level) > 0; {
		var next []place
		for _, at := range level {
			resolved := s.Resolve(at.of)
			if searched++; resolved == nil || searched > mostSearched || len(at.path) > 8 {
				continue
			}
			if resolved.Kind() == List {
				next = append(next, place{resolved.Items, append(slices.Clone(at.path), "[]")})
				continue
			}
			fields := slices.Sorted(maps.Keys(resolved.Properties))
			if i := slices.IndexFunc(fields, func(field string) bool { return strings.EqualFold(field, name) }); i >= 0 {
				return append(slices.Clone(at.path), fields[i])
			}
			for _, field := range fields {
				if field == "status" || field == "managedFields" {
					continue
				}
				next = append(next, place{resolved.Properties[field], append(slices.Clone(at.path), field)})
			}
		}
		level = next
	}
	return nil
}
