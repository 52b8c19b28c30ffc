package api

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// deepest is the depth at which types that contain themselves are left.
const deepest = 20

// Fields returns the paths of the fields that the spec and the status of a kind have in this
// version. The elements of a list are "[]", and the values of a map "*". What is below a field that
// holds any JSON is not known.
func (k *Kind) Fields() [][]string {
	var all [][]string
	for _, name := range []string{"Spec", "Status"} {
		if field, ok := k.object.Elem().FieldByName(name); ok {
			addPaths(&all, field.Type, []string{strings.ToLower(name)})
		}
	}
	return all
}

// addPaths adds path, and the paths of the fields below it.
func addPaths(all *[][]string, of reflect.Type, path []string) {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	*all = append(*all, path)
	if len(path) > deepest || reflect.PointerTo(of).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return
	}
	switch of.Kind() {
	case reflect.Slice:
		addPaths(all, of.Elem(), below(path, "[]"))
	case reflect.Map:
		addPaths(all, of.Elem(), below(path, "*"))
	case reflect.Struct:
		addFields(all, of, path)
	default:
	}
}

func addFields(all *[][]string, of reflect.Type, path []string) {
	for field := range of.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case name == "" && (field.Anonymous || strings.Contains(options, "inline")):
			addFields(all, field.Type, path)
		default:
			addPaths(all, field.Type, below(path, name))
		}
	}
}

func below(path []string, name string) []string {
	return append(slices.Clip(path), name)
}
