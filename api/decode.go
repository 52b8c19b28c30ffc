package api

import (
	"bytes"
	"cmp"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/json"
)

// ErrUnknownKind is the error of [Decode] for an object that is not a policy.
var ErrUnknownKind = errors.New("not a policy kind")

// Decode reads one policy from JSON. Field names are case-sensitive; those that the kind does not
// have, and those that are written twice, are returned in the policy and are not an error. The
// status may contain anything: authors do not write it, so errors in it are ignored.
func Decode(raw []byte) (Policy, error) {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := json.UnmarshalCaseSensitivePreserveInts(raw, &head); err != nil {
		return Policy{}, fmt.Errorf("decode policy: %w", err)
	}
	if head.APIVersion == "" || head.Kind == "" {
		return Policy{}, fmt.Errorf("decode policy: apiVersion or kind is missing: %w", ErrUnknownKind)
	}
	kind, ok := KindNamed(schema.FromAPIVersionAndKind(head.APIVersion, head.Kind))
	if !ok {
		return Policy{}, fmt.Errorf("decode %s %s: %w", head.APIVersion, head.Kind, ErrUnknownKind)
	}
	policy := Policy{Object: kind.New()}
	strict, err := json.UnmarshalStrict(raw, policy.Object)
	if err != nil {
		policy.Object = kind.New()
		raw = withoutStatus(raw)
		if strict, err = json.UnmarshalStrict(raw, policy.Object); err != nil {
			return Policy{}, fmt.Errorf("decode %s: %w", head.Kind, inWords(raw, err))
		}
	}
	if len(strict) > 0 {
		policy.Unknown = paths(json.UnmarshalStrict(raw, kind.New(), json.DisallowUnknownFields))
		policy.Duplicate = paths(json.UnmarshalStrict(raw, kind.New(), json.DisallowDuplicateFields))
	}
	return policy, nil
}

// A TypeError reports a value of the wrong type to authors.
type TypeError struct {
	err   *stdjson.UnmarshalTypeError
	field string
}

// Field returns the path of the field; for a value of a map, that of the map, without the indexes of lists.
func (e *TypeError) Field() string { return e.field }

// Error names the field, the value and the expected type.
func (e *TypeError) Error() string {
	value := map[string]string{"bool": "true or false", "string": "text", "object": "a map", "array": "a list", "number": "a number"}[strings.Fields(e.err.Value + " ")[0]]
	want, do := "a map", ""
	switch e.err.Type.Kind() {
	case reflect.String:
		want = "text"
		if e.err.Value == "bool" || strings.HasPrefix(e.err.Value, "number") {
			do = "; write it in quotes"
		}
	case reflect.Bool:
		want = "true or false"
	case reflect.Slice, reflect.Array:
		want, do = "a list", "; write [ ] around it"
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Float64:
		want = "a number"
	}
	return fmt.Sprintf("%s is %s, and has to be %s%s", e.Field(), cmp.Or(value, e.err.Value), want, do)
}

// Unwrap returns the error of the decoder.
func (e *TypeError) Unwrap() error { return e.err }

// fieldPath leaves out of a path the names of embedded structs, which begin with a capital.
func fieldPath(path string) string {
	names := strings.Split(path, ".")
	return strings.Join(slices.DeleteFunc(names, func(name string) bool {
		return name != "" && name[0] >= 'A' && name[0] <= 'Z'
	}), ".")
}

// indexed returns the path of a field with the indexes of lists, if the value that is read at the offset is the field's.
func indexed(raw []byte, offset int64, field string) string {
	f := finder{Decoder: stdjson.NewDecoder(bytes.NewReader(raw)), offset: offset}
	f.find()
	names := slices.DeleteFunc(slices.Clone(f.path), func(step string) bool { return step[0] == '[' })
	if strings.Join(names, "") != "."+field {
		return field
	}
	return strings.Join(f.path, "")[1:]
}

// A finder finds the path of the value at an offset.
type finder struct {
	*stdjson.Decoder

	offset int64
	path   []string
}

// find reports whether the next value, or one in it, is the one at the offset, or cannot be read.
func (f *finder) find() bool {
	token, err := f.Token()
	if err != nil || f.InputOffset() >= f.offset {
		return true
	}
	if token != stdjson.Delim('{') && token != stdjson.Delim('[') {
		return false
	}
	for i := 0; f.More(); i++ {
		step := fmt.Sprintf("[%d]", i)
		if token == stdjson.Delim('{') {
			key, _ := f.Token() // Where it cannot be read, the value cannot.
			step = fmt.Sprintf(".%v", key)
		}
		f.path = append(f.path, step)
		if f.find() {
			return true
		}
		f.path = f.path[:len(f.path)-1]
	}
	_, err = f.Token()
	return err != nil
}

// A timeError reports a value that is not a time to authors.
type timeError struct {
	*time.ParseError
	field string
}

// Error names the value, and shows how times are written.
func (e *timeError) Error() string {
	return fmt.Sprintf("%s: %q is not a time: write one such as 2030-01-31T12:00:00Z", e.field, e.Value)
}

// Unwrap returns the error of the parser.
func (e *timeError) Unwrap() error { return e.ParseError }

// fieldWith returns the path of the first field below value that has a text; empty if there is none.
func fieldWith(text string, value any, path string) string {
	switch value := value.(type) {
	case string:
		if value == text {
			return path
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			if at := fieldWith(text, value[name], strings.TrimPrefix(path+"."+name, ".")); at != "" {
				return at
			}
		}
	case []any:
		for i := range value {
			if at := fieldWith(text, value[i], fmt.Sprintf("%s[%d]", path, i)); at != "" {
				return at
			}
		}
	}
	return ""
}

func inWords(raw []byte, err error) error {
	if parse, ok := errors.AsType[*time.ParseError](err); ok {
		var tree map[string]any
		_ = stdjson.Unmarshal(raw, &tree) // It has been read before.
		return &timeError{parse, fieldWith(parse.Value, tree, "")}
	}
	if typed, ok := errors.AsType[*stdjson.UnmarshalTypeError](err); ok {
		return &TypeError{typed, indexed(raw, typed.Offset, fieldPath(typed.Field))}
	}
	return err
}

// withoutStatus returns raw without its status, or raw if it is not a JSON object.
func withoutStatus(raw []byte) []byte {
	var fields map[string]stdjson.RawMessage
	if err := stdjson.Unmarshal(raw, &fields); err != nil {
		return raw
	}
	delete(fields, "status")
	stripped, err := stdjson.Marshal(fields)
	if err != nil {
		return raw
	}
	return stripped
}

// paths returns the paths of the fields that strict decoding rejected, sorted, without those of the
// status. The same text has been decoded before: there is no other error.
func paths(strict []error, _ error) []string {
	var paths []string
	for _, err := range strict {
		field, ok := err.(json.FieldError)
		if ok && !strings.HasPrefix(field.FieldPath(), "status.") {
			paths = append(paths, field.FieldPath())
		}
	}
	slices.Sort(paths)
	return paths
}
