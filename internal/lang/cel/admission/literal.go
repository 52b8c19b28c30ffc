package admission

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/mutation"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"

	"github.com/usher-dev/usher/internal/lang/cel/meter"
)

// An objectResolver resolves the types of mutations: those of k8s.io/apiserver/pkg/cel/mutation, with
// other values of Object{}.
type objectResolver struct{ mutation.DynamicTypeResolver }

// Resolve implements [common.TypeResolver].
func (r *objectResolver) Resolve(name string) (common.ResolvedType, bool) {
	if name == mutation.ObjectTypeName || strings.HasPrefix(name, mutation.ObjectTypeName+".") {
		return &objectType{dynamic.NewObjectType(name)}, true
	}
	return r.DynamicTypeResolver.Resolve(name)
}

// An objectType is a type of Object{}.
type objectType struct{ *dynamic.ObjectType }

// Val implements [common.ResolvedType].
func (t *objectType) Val(fields map[string]ref.Val) ref.Val { return &literal{t.Type(), fields} }

// A literal is an Object{}. It behaves as ObjectVal of k8s.io/apiserver/pkg/cel/mutation/dynamic,
// whose conversion takes a time that grows with the square of the depth.
type literal struct {
	of     *types.Type
	fields map[string]ref.Val
}

var (
	_ ref.Val       = (*literal)(nil)
	_ traits.Zeroer = (*literal)(nil)
)

// native returns the object as a map.
func (o *literal) native() (map[string]any, error) {
	tree := make(map[string]any, len(o.fields))
	for name, field := range o.fields {
		value, err := nativeField(field)
		if err != nil {
			return nil, fmt.Errorf("fail to convert field %q: %w", name, err)
		}
		tree[name] = value
	}
	return tree, nil
}

// nativeField converts the lists and maps of a field. Those within them stay values of CEL, as they
// do in an API server, so that no kind accepts them.
func nativeField(field ref.Val) (any, error) {
	switch v := field.(type) {
	case *literal:
		return v.Value(), nil
	case types.String:
		return string(v), nil
	}
	switch v := field.Value().(type) {
	case []ref.Val:
		var list []any
		for _, item := range v {
			list = append(list, item.Value())
		}
		return list, nil
	case map[ref.Val]ref.Val:
		tree := make(map[string]any, len(v))
		for key, item := range v {
			name, ok := key.Value().(string)
			if !ok {
				return nil, fmt.Errorf("map key %q is of type %T, not string", key, key)
			}
			tree[name] = item.Value()
		}
		return tree, nil
	default:
		return v, nil
	}
}

// literalBytes is the weight of an Object{} without fields.
const literalBytes = 48

// Weigh implements [meter.Weigher].
func (o *literal) Weigh(m *meter.Meter) int64 {
	weight := int64(literalBytes)
	for name, field := range o.fields {
		weight += int64(len(name)) + m.Weigh(field)
	}
	return weight
}

// mostMisnamed is how many bytes of names the errors about types have together, except for the last of them.
const mostMisnamed = 64 << 10

// check returns the errors of types that are not named after the fields that have them, the first of them if
// there are many.
func (o *literal) check() error {
	m := misnamed{left: mostMisnamed}
	m.find(o, o.of.TypeName())
	return errors.Join(m.errs...)
}

// A misnamed collects errors about the names of types.
type misnamed struct {
	errs []error
	left int
}

func (m *misnamed) find(value ref.Val, path string) {
	if m.left <= 0 {
		return
	}
	if o, ok := value.(*literal); ok {
		if name := o.of.TypeName(); name != path {
			m.left -= len(name) + len(path)
			m.errs = append(m.errs, fmt.Errorf("unexpected type name %q, expected %q, which matches field name path from root Object type", name, path))
		}
		for name, field := range o.fields {
			switch field.(type) {
			case *literal, traits.Lister, traits.Mapper:
				m.find(field, path+"."+name)
			}
		}
		return
	}
	switch v := value.Value().(type) {
	case []ref.Val:
		for _, item := range v {
			m.find(item, path)
		}
	case map[ref.Val]ref.Val:
		for _, item := range v {
			m.find(item, path)
		}
	}
}

// ConvertToNative implements [ref.Val].
func (o *literal) ConvertToNative(to reflect.Type) (any, error) {
	tree, err := o.native()
	switch {
	case err != nil:
		return nil, err
	case to == reflect.TypeFor[map[string]any]():
		return tree, nil
	case to == reflect.TypeFor[*structpb.Value]():
		// Lists and maps of CEL take no struct as the value of an element. API servers return one, so that
		// they panic.
		fields, err := structpb.NewStruct(tree)
		if err != nil {
			return nil, fmt.Errorf("write %s as JSON: %w", o.of.TypeName(), err)
		}
		return structpb.NewStructValue(fields), nil
	}
	return nil, fmt.Errorf("unable to convert to %v", to)
}

// ConvertToType implements [ref.Val].
func (o *literal) ConvertToType(to ref.Type) ref.Val {
	switch {
	case to.TypeName() == o.of.TypeName():
		return o
	case to == types.TypeType:
		return types.NewTypeTypeWithParam(o.of)
	}
	return types.NewErr("unsupported conversion into %v", to)
}

// Equal implements [ref.Val].
func (o *literal) Equal(other ref.Val) ref.Val {
	same, ok := other.(*literal)
	return types.Bool(ok && o.of.TypeName() == same.of.TypeName() && reflect.DeepEqual(o.fields, same.fields))
}

// Type implements [ref.Val].
func (o *literal) Type() ref.Type { return types.NewObjectType(o.of.TypeName()) }

// Value implements [ref.Val].
func (o *literal) Value() any {
	tree, err := o.native()
	if err != nil {
		return types.WrapErr(err)
	}
	return tree
}

// IsZeroValue implements [traits.Zeroer].
func (o *literal) IsZeroValue() bool { return len(o.fields) == 0 }
