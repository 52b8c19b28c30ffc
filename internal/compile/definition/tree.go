package definition

import (
	"encoding/json"
	"reflect"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/usher-dev/usher/api"
)

// tree returns the apiVersion, kind, name and spec of a policy as JSON. Unlike encoding/json it keeps
// lists that were written and are empty: API servers see them.
func tree(policy api.Object) map[string]any {
	version, kind := policy.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
	metadata := map[string]any{"name": policy.GetName()}
	if policy.GetNamespace() != "" {
		metadata["namespace"] = policy.GetNamespace()
	}
	spec, _ := value(reflect.ValueOf(api.Spec(policy)))
	return map[string]any{"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
}

// value returns a value as JSON, and false if there is none.
func value(v reflect.Value) (any, bool) {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil, false
		}
		v = v.Elem()
	}
	switch {
	case v.CanAddr() && v.Addr().Type().Implements(reflect.TypeFor[json.Marshaler]()):
		return encoded(v.Addr().Interface())
	case v.Kind() == reflect.Struct:
		fields := map[string]any{}
		addFields(fields, v)
		return fields, true
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() != reflect.Uint8:
		if v.IsNil() {
			return nil, false
		}
		items := make([]any, v.Len())
		for i := range items {
			items[i], _ = value(v.Index(i))
		}
		return items, true
	}
	return encoded(v.Interface())
}

func addFields(fields map[string]any, v reflect.Value) {
	for i := range v.NumField() {
		name, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name == "" {
			addFields(fields, v.Field(i))
			continue
		}
		if strings.Contains(options, "omitempty") && v.Field(i).Kind() != reflect.Slice && v.Field(i).IsZero() {
			continue
		}
		if item, ok := value(v.Field(i)); ok {
			fields[name] = item
		}
	}
}

// encoded returns what encoding/json makes of a value; numbers are those of API servers.
func encoded(v any) (any, bool) {
	text, err := json.Marshal(v)
	if err != nil || string(text) == "null" {
		return nil, false
	}
	var out any
	if err := utiljson.Unmarshal(text, &out); err != nil {
		return nil, false
	}
	return out, true
}
