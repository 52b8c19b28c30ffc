package trial

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/usher-dev/usher/rule"
)

func selectorField(i int) string { return "spec.resourceSelectors[" + strconv.Itoa(i) + "]" }

// unknownKind says of a kind that it does not exist, as far as the kinds of Kubernetes itself tell.
func unknownKind(apiVersion, kind string) (rule.Problem, bool) {
	if apiVersion == "" || kind == "" || strings.Contains(apiVersion+kind, "*") {
		return rule.Problem{}, false
	}
	known := scheme.Scheme.AllKnownTypes()
	wanted := schema.FromAPIVersionAndKind(apiVersion, kind)
	if _, ok := known[wanted]; ok {
		return rule.Problem{}, false
	}
	var here, groups, elsewhere []string
	ours := false
	for k := range known {
		ours = ours || k.Group == wanted.Group
		if k.GroupVersion() == wanted.GroupVersion() {
			here = append(here, k.Kind)
		}
		if k.Kind == kind && k.Version != runtime.APIVersionInternal {
			elsewhere = append(elsewhere, k.GroupVersion().String())
			groups = append(groups, k.Group)
		}
	}
	// Any group that is not Kubernetes' own may exist.
	begins := func(group string) bool { return wanted.Group != "" && strings.HasPrefix(group, wanted.Group+".") }
	if !ours && rule.Nearest(wanted.Group, groups) == "" && !slices.ContainsFunc(groups, begins) {
		return rule.Problem{}, false
	}
	p := rule.Problem{
		Severity: rule.Warning, What: fmt.Sprintf("Kubernetes has no kind %s in %s: the selector selects nothing", kind, apiVersion),
		Do: "see kubectl api-resources",
	}
	if stable := slices.DeleteFunc(slices.Clone(elsewhere), func(v string) bool { return strings.Contains(v, "alpha") || strings.Contains(v, "beta") }); len(stable) > 0 {
		elsewhere = stable
	}
	slices.Sort(elsewhere)
	near := rule.Nearest(kind, here)
	if near == "" && strings.HasSuffix(kind, "s") && slices.Contains(here, kind[:len(kind)-1]) {
		near = kind[:len(kind)-1]
	}
	switch {
	case len(elsewhere) > 0:
		p.Do = fmt.Sprintf("did you mean apiVersion: %s?", elsewhere[0])
	case near != "":
		p.Do = fmt.Sprintf("did you mean kind: %s?", near)
	}
	return p, true
}

// full returns an object of a kind with every field, of unions with every member.
func full(kind schema.GroupVersionKind) map[string]any {
	t, ok := scheme.Scheme.AllKnownTypes()[kind]
	if !ok {
		return map[string]any{}
	}
	object, _ := sample(t, nil).(map[string]any)
	object["apiVersion"], object["kind"] = kind.ToAPIVersionAndKind()
	if metadata, ok := object["metadata"].(map[string]any); ok {
		metadata["labels"], metadata["annotations"] = map[string]any{}, map[string]any{}
	}
	return object
}

// sample returns a value of a type, as JSON. Of types that hold themselves one level is made.
func sample(t reflect.Type, above []reflect.Type) any {
	if slices.Contains(above, t) && t.Kind() == reflect.Struct {
		return map[string]any{}
	}
	if value, ok := special(t); ok {
		return value
	}
	switch t.Kind() {
	case reflect.Pointer:
		return sample(t.Elem(), above)
	case reflect.String:
		return "x"
	case reflect.Bool:
		return true
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint8, reflect.Uint32, reflect.Uint64:
		return int64(1)
	case reflect.Float32, reflect.Float64:
		return 1.5
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "eA=="
		}
		return []any{sample(t.Elem(), above)}
	case reflect.Map:
		object := map[string]any{"x": sample(t.Elem(), above)}
		if t.Elem() == reflect.TypeFor[resource.Quantity]() {
			for _, name := range []string{"cpu", "memory", "ephemeral-storage"} {
				object[name] = "1"
			}
		}
		return object
	case reflect.Struct:
		object := map[string]any{}
		for name, field := range jsonFields(t) {
			object[name] = sample(field, append(slices.Clip(above), t))
		}
		return object
	}
	return map[string]any{}
}

// special returns a value of a type whose JSON is not what its fields are.
func special(t reflect.Type) (any, bool) {
	switch t {
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		return time.Unix(0, 0).UTC().Format(time.RFC3339), true
	case reflect.TypeFor[metav1.Duration]():
		return "1s", true
	case reflect.TypeFor[resource.Quantity]():
		return "1", true
	case reflect.TypeFor[intstr.IntOrString]():
		return int64(1), true
	case reflect.TypeFor[runtime.RawExtension](), reflect.TypeFor[metav1.FieldsV1]():
		return map[string]any{}, true
	}
	return nil, false
}

// jsonFields returns the types of the fields of a struct by their names in JSON.
func jsonFields(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" || !field.IsExported():
		case name != "":
			fields[name] = field.Type
		case field.Anonymous && field.Type.Kind() == reflect.Struct:
			maps.Copy(fields, jsonFields(field.Type))
		}
	}
	return fields
}
