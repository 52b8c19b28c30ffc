package proof

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/api"
)

// defaults are the fields of specs to which API servers give a default value, by kind. A test
// compares them with the CustomResourceDefinitions.
//
// This package variable is a constant table of the API.
var defaults = map[string]map[string]any{
	"AuthorizationPolicy":        {"enforcement": "Enforce"},
	"ClusterAuthorizationPolicy": {"enforcement": "Enforce", "tier": "cluster"},
}

var errNoPolicy = errors.New("its kind is not that of a policy")

// Canonical returns a canonical form of a policy: two policies have the same form if and only if
// they are the same to the compiler. It is JSON with sorted keys, made from the Go value that is
// compiled and not from the text. So defaults, fields that API servers drop, the order of keys, and
// different notations of a number, time or quantity make no difference. Differences between Go
// values do, such as between an empty list and an absent one.
func Canonical(object api.Object) ([]byte, error) {
	kind, ok := api.KindOf(object)
	if !ok {
		return nil, errNoPolicy
	}
	value, err := canonical(reflect.ValueOf(api.Spec(object)))
	if err != nil {
		return nil, fmt.Errorf("encode spec of %s: %w", kind.Kind, err)
	}
	if spec, ok := value.(map[string]any); ok {
		if api.Suspended(object) {
			// Kinds without the field have an annotation.
			spec["suspend"] = true
		}
		for field, value := range defaults[kind.Kind] {
			if spec[field] == value {
				delete(spec, field)
			}
		}
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("encode spec of %s: %w", kind.Kind, err)
	}
	return text.Bytes(), nil
}

// canonical returns a value as a tree of JSON.
func canonical(v reflect.Value) (any, error) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil, nil
		}
		return canonical(v.Elem())
	}
	switch value := v.Interface().(type) {
	case metav1.Time:
		// The JSON of metav1.Time has no fractions of a second, but the compiled value has.
		return value.UTC().Format(time.RFC3339Nano), nil
	case json.Marshaler:
		return marshalled(value)
	}
	switch v.Kind() {
	case reflect.String:
		return v.String(), nil
	case reflect.Bool:
		return v.Bool(), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int(), nil
	case reflect.Slice:
		return list(v)
	case reflect.Map:
		return entries(v)
	case reflect.Struct:
		fields := map[string]any{}
		return fields, structure(v, fields)
	}
	// For a field of another type, define here which values are the same.
	return nil, fmt.Errorf("type %s has no canonical form", v.Type())
}

func list(v reflect.Value) (any, error) {
	all := make([]any, v.Len())
	for i := range all {
		var err error
		if all[i], err = canonical(v.Index(i)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func entries(v reflect.Value) (any, error) {
	all := make(map[string]any, v.Len())
	for iterator := v.MapRange(); iterator.Next(); {
		value, err := canonical(iterator.Value())
		if err != nil {
			return nil, err
		}
		all[iterator.Key().String()] = value
	}
	return all, nil
}

// structure adds the fields of a struct that are not zero: a zero field is the same as an absent
// one. A pointer to a zero value is not zero.
func structure(v reflect.Value, fields map[string]any) error {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous && name == "":
			if err := structure(v.Field(i), fields); err != nil {
				return err
			}
			continue
		case !field.IsExported() || name == "" || name == "-":
			return fmt.Errorf("field %s.%s has no name", v.Type(), field.Name)
		case v.Field(i).IsZero():
			continue
		}
		value, err := canonical(v.Field(i))
		if err != nil {
			return err
		}
		fields[name] = value
	}
	return nil
}

// marshalled returns the JSON of a value with its own encoding, such as a quantity or a part of the
// spec that is free JSON.
func marshalled(value json.Marshaler) (any, error) {
	text, err := value.MarshalJSON()
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		return nil, err
	}
	return withNumbers(tree)
}

// withNumbers converts numbers as API servers do: to 64-bit integers, and otherwise to
// floating-point numbers, which are written as integers if they are whole.
func withNumbers(tree any) (any, error) {
	var err error
	switch tree := tree.(type) {
	case map[string]any:
		for key := range tree {
			if tree[key], err = withNumbers(tree[key]); err != nil {
				return nil, err
			}
		}
	case []any:
		for i := range tree {
			if tree[i], err = withNumbers(tree[i]); err != nil {
				return nil, err
			}
		}
	case json.Number:
		return number(tree.String())
	}
	return tree, nil
}

func number(text string) (any, error) {
	if integer, err := strconv.ParseInt(text, 10, 64); err == nil {
		return integer, nil
	}
	float, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, err
	}
	if float == math.Trunc(float) && math.Abs(float) < 1<<63 {
		return int64(float), nil
	}
	return float, nil
}
