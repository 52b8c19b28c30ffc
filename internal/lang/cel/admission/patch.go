package admission

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"google.golang.org/protobuf/types/known/structpb"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apiserver/pkg/cel/mutation"

	usher "github.com/usher-dev/usher"
)

// operations are the operations that a list of JSONPatch{} says.
func operations(value ref.Val) (usher.Patch, error) {
	list, ok := value.(traits.Lister)
	if !ok {
		return nil, fmt.Errorf("type mismatch: JSONPatchType.expression should evaluate to array")
	}
	var patch usher.Patch
	for it := list.Iterator(); it.HasNext() == types.True; {
		item := it.Next()
		op, ok := item.(*mutation.JSONPatchVal)
		if !ok {
			return nil, fmt.Errorf("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch, got element of %T", item)
		}
		operation := usher.PatchOp{Op: op.Op, Path: op.Path, From: op.From}
		if op.Val != nil {
			var err error
			if operation.Value, err = jsonOf(op.Val); err != nil {
				return nil, err
			}
			if operation.Op == "test" && operation.Value == nil {
				operation.Value = unequal{}
			}
		}
		patch = append(patch, operation)
	}
	return patch, nil
}

// An unequal is a null in a test, which is not even equal to null there. A test without value is.
type unequal struct{}

// maxSafe is the largest integer that CEL writes to JSON as a number.
const maxSafe = 1<<53 - 1

// jsonOf returns a value as the JSON that it is in a patch. What is not simple goes the way that
// API servers go, by the JSON of protocol buffers.
func jsonOf(value ref.Val) (any, error) {
	switch v := value.(type) {
	case types.String:
		return string(v), nil
	case types.Bool:
		return bool(v), nil
	case types.Null:
		return nil, nil
	case types.Int:
		return jsonInt(int64(v)), nil
	case types.Double:
		if f := float64(v); f == math.Trunc(f) && math.Abs(f) <= maxSafe {
			return int64(f), nil
		}
	case *literal:
		if err := v.check(); err != nil {
			return nil, fmt.Errorf("type mismatch: %w", err)
		}
	case traits.Lister, traits.Mapper:
		if tree, ok := treeOf(value); ok {
			return tree, nil
		}
	}
	return converted(value)
}

// jsonInt is an integer in JSON: a large one is a string, as in the JSON of protocol buffers.
func jsonInt(i int64) any {
	if i < -maxSafe || i > maxSafe {
		return strconv.FormatInt(i, 10)
	}
	return i
}

// treeOf returns a list or map as JSON, if everything in it is simple.
func treeOf(value ref.Val) (any, bool) {
	switch native := value.Value().(type) {
	case map[string]any:
		return native, isSafe(native)
	case []any:
		return native, isSafe(native)
	case map[ref.Val]ref.Val:
		tree := make(map[string]any, len(native))
		for key, item := range native {
			name, ok := key.(types.String)
			if !ok {
				return nil, false
			}
			if tree[string(name)], ok = simple(item); !ok {
				return nil, false
			}
		}
		return tree, true
	case []ref.Val:
		tree := make([]any, len(native))
		for i, item := range native {
			var ok bool
			if tree[i], ok = simple(item); !ok {
				return nil, false
			}
		}
		return tree, true
	}
	return nil, false
}

func simple(item ref.Val) (any, bool) {
	switch item.(type) {
	case *literal:
		return nil, false
	case types.String, types.Bool, types.Null, types.Int:
		tree, err := jsonOf(item)
		return tree, err == nil
	}
	return treeOf(item)
}

// isSafe reports whether a tree has no integer that JSON of protocol buffers writes otherwise.
func isSafe(tree any) bool {
	switch v := tree.(type) {
	case map[string]any:
		for _, item := range v {
			if !isSafe(item) {
				return false
			}
		}
	case []any:
		for _, item := range v {
			if !isSafe(item) {
				return false
			}
		}
	case int64:
		return -maxSafe <= v && v <= maxSafe
	case string, bool, nil, float64:
	default:
		return false
	}
	return true
}

// converted converts a value as API servers do.
func converted(value ref.Val) (tree any, err error) {
	defer func() {
		// CEL panics if a list has an Object{}.
		if cause := recover(); cause != nil {
			tree, err = nil, fmt.Errorf("JSONPath valueExpression evaluated to a type that could not marshal to JSON: %v", cause)
		}
	}()
	native, err := value.ConvertToNative(reflect.TypeFor[*structpb.Value]())
	if err != nil {
		return nil, fmt.Errorf("JSONPath valueExpression evaluated to a type that could not marshal to JSON: %w", err)
	}
	text, err := json.Marshal(native)
	if err != nil {
		return nil, fmt.Errorf("JSONPath valueExpression evaluated to a type that could not marshal to JSON: %w", err)
	}
	if err := utiljson.Unmarshal(text, &tree); err != nil {
		return nil, fmt.Errorf("read value of patch: %w", err)
	}
	return tree, nil
}

// configurationOf is the apply configuration that an Object{} says.
func configurationOf(value ref.Val) (map[string]any, error) {
	o, ok := value.(*literal)
	if !ok {
		return nil, fmt.Errorf("unsupported return type from ApplyConfiguration expression: %v", value.Type())
	}
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("type mismatch: %w", err)
	}
	configuration, ok := o.Value().(map[string]any)
	if !ok {
		return nil, fmt.Errorf("invalid return type: %T", value)
	}
	return configuration, nil
}
