package simulate

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/kubernetes/scheme"
	preserving "sigs.k8s.io/json"
)

// decodeObject turns a tree into the Go type of a built-in kind, or leaves it as it is.
// Fields that the type does not have are dropped; the second result names them.
func decodeObject(tree map[string]any, kind schema.GroupVersionKind) (runtime.Object, []error, error) {
	if !scheme.Scheme.Recognizes(kind) {
		object := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(tree)}
		return object, nil, nil
	}
	raw, err := json.Marshal(tree)
	if err != nil {
		return nil, nil, fmt.Errorf("encode object: %w", err)
	}
	strict := serializer.NewSerializerWithOptions(serializer.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, serializer.SerializerOptions{Strict: true})
	object, _, err := strict.Decode(raw, &kind, nil)
	if strictError, ok := runtime.AsStrictDecodingError(err); ok && object != nil {
		return object, strictError.Errors(), nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("decode object: %w", err)
	}
	return object, nil, nil
}

// treeOf is an object as JSON has it; nil for nil.
func treeOf(object runtime.Object) (map[string]any, error) {
	if object == nil {
		return nil, nil
	}
	if u, ok := object.(*unstructured.Unstructured); ok {
		return runtime.DeepCopyJSON(u.Object), nil
	}
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encode object: %w", err)
	}
	return parseTree(raw)
}

func parseTree(raw []byte) (map[string]any, error) {
	var tree map[string]any
	if err := preserving.UnmarshalCaseSensitivePreserveInts(raw, &tree); err != nil {
		return nil, fmt.Errorf("decode object: %w", err)
	}
	return tree, nil
}

// objectInterfaces tell plugins how to handle objects: as the API server does, save that
// there are no internal versions and no defaults, which are in no library.
func objectInterfaces(all endpoints, custom customKinds, defaulted func(runtime.Object)) admission.ObjectInterfaces {
	return &admission.RuntimeObjectInterfaces{
		ObjectCreater:            creater{},
		ObjectTyper:              typer{},
		ObjectDefaulter:          defaulter{custom: custom, done: defaulted},
		ObjectConvertor:          convertor{},
		EquivalentResourceMapper: all.equivalents(),
	}
}

type creater struct{}

func (creater) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	if scheme.Scheme.Recognizes(kind) {
		return scheme.Scheme.New(kind)
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	return object, nil
}

type typer struct{}

func (typer) ObjectKinds(object runtime.Object) ([]schema.GroupVersionKind, bool, error) {
	if u, ok := object.(*unstructured.Unstructured); ok {
		return []schema.GroupVersionKind{u.GroupVersionKind()}, false, nil
	}
	return scheme.Scheme.ObjectKinds(object)
}

func (typer) Recognizes(schema.GroupVersionKind) bool { return true }

// A defaulter is called by the plugins each time that they have changed an object.
type defaulter struct {
	custom customKinds
	done   func(runtime.Object)
}

func (d defaulter) Default(object runtime.Object) {
	if u, ok := object.(*unstructured.Unstructured); ok {
		d.custom.complete(u)
	}
	d.done(object)
}

// A convertor converts between versions that differ in nothing but their name, which is
// what built-in kinds and CustomResourceDefinitions without a conversion webhook do.
type convertor struct{}

var errNotConvertible = errors.New("usher simulate cannot convert between versions with different fields")

func (convertor) Convert(in, out, _ any) error {
	if in == out {
		return nil
	}
	from, ok := in.(runtime.Object)
	if !ok {
		return fmt.Errorf("convert %T: not an object", in)
	}
	to, ok := out.(runtime.Object)
	if !ok {
		return fmt.Errorf("convert to %T: not an object", out)
	}
	if reflect.TypeOf(in) == reflect.TypeOf(out) {
		kind := to.GetObjectKind().GroupVersionKind()
		reflect.ValueOf(out).Elem().Set(reflect.ValueOf(from.DeepCopyObject()).Elem())
		if !kind.Empty() {
			to.GetObjectKind().SetGroupVersionKind(kind)
		}
		return nil
	}
	if target := kindOf(to); kindOf(from).Group == "autoscaling" || target.Group == "autoscaling" {
		return fmt.Errorf("convert %T to %T: %w", in, out, errNotConvertible)
	}
	return viaJSON(from, to)
}

func kindOf(object runtime.Object) schema.GroupVersionKind {
	if kinds, _, err := (typer{}).ObjectKinds(object); err == nil && len(kinds) > 0 {
		return kinds[0]
	}
	return schema.GroupVersionKind{}
}

func viaJSON(from, to runtime.Object) error {
	tree, err := treeOf(from)
	if err != nil {
		return err
	}
	kind := kindOf(to)
	tree["apiVersion"], tree["kind"] = kind.ToAPIVersionAndKind()
	if u, ok := to.(*unstructured.Unstructured); ok {
		u.Object = tree
		return nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(tree, to); err != nil {
		return fmt.Errorf("convert %T to %T: %w", from, to, err)
	}
	return nil
}

// ConvertToVersion implements [runtime.ObjectConvertor].
func (c convertor) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	kind := kindOf(in)
	if u, ok := in.(*unstructured.Unstructured); ok {
		kind = u.GroupVersionKind()
	}
	wanted, ok := target.KindForGroupVersionKinds([]schema.GroupVersionKind{kind})
	if !ok {
		return nil, fmt.Errorf("convert %s: %s is not possible", kindText(kind), target.Identifier())
	}
	out, err := creater{}.New(wanted)
	if err != nil {
		return nil, err
	}
	if err := c.Convert(in, out, nil); err != nil {
		return nil, err
	}
	out.GetObjectKind().SetGroupVersionKind(wanted)
	return out, nil
}

// ConvertFieldLabel implements [runtime.ObjectConvertor].
func (convertor) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}
