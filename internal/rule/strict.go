package rule

import (
	"cmp"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/json"
)

// DecodeStrict decodes JSON, and returns a [*FieldError] for each field that the value does not have or that is written
// twice. Meant, which may be nil, has what users mean by the paths of fields of other formats.
func DecodeStrict(document []byte, into any, meant map[string]string) error {
	strict, err := json.UnmarshalStrict(document, into)
	if err != nil {
		return err
	}
	for i, err := range strict {
		if field, ok := errors.AsType[json.FieldError](err); ok {
			near, _ := NearField(reflect.TypeOf(into), field.FieldPath())
			strict[i] = &FieldError{FieldError: field, near: cmp.Or(meant[field.FieldPath()], near)}
		}
	}
	return errors.Join(strict...)
}

// A FieldError is a field that is not known, or is written twice.
type FieldError struct {
	json.FieldError

	// near is the name that may be meant.
	near string
}

func (e *FieldError) Error() string {
	if e.near == "" {
		return e.FieldError.Error()
	}
	return e.FieldError.Error() + ": did you mean " + e.near + "?"
}

// NearField returns the name of a field of the struct at the parent of path that is
// nearly the last name of path, or "", and the names of all its fields, sorted.
func NearField(t reflect.Type, path string) (near string, all []string) {
	names := strings.Split(path, ".")
	for _, name := range names[:len(names)-1] {
		name, _, _ = strings.Cut(name, "[")
		if t = elem(t); t == nil || t.Kind() != reflect.Struct {
			return "", nil
		}
		t = jsonFields(t)[name]
	}
	if t = elem(t); t == nil || t.Kind() != reflect.Struct {
		return "", nil
	}
	all = slices.Sorted(maps.Keys(jsonFields(t)))
	return Nearest(names[len(names)-1], all), all
}

// elem returns what pointers, slices and maps of t are made of.
func elem(t reflect.Type) reflect.Type {
	for t != nil && (t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map) {
		t = t.Elem()
	}
	return t
}

// jsonFields returns the types of the fields of a struct by their JSON names.
func jsonFields(t reflect.Type) map[string]reflect.Type {
	fields := make(map[string]reflect.Type, t.NumField())
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name != "" && name != "-":
			fields[name] = field.Type
		case name == "" && field.Anonymous:
			maps.Copy(fields, jsonFields(field.Type))
		}
	}
	return fields
}
