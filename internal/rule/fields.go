package rule

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Fields are requirements on an object's fields, all of which have to hold.
type Fields []Field

// A Field is one requirement on the value at Path. Strings, numbers and booleans are compared as
// text; a map or a list exists, but is neither in nor not in a set. Null is the same as missing. If
// a path leads through anything but maps, no requirement is met.
type Field struct {
	Path   []string
	Op     FieldOp
	Values []string
}

// A FieldOp is how a [Field] compares.
type FieldOp string

// The operators of field selectors.
const (
	In           FieldOp = "In"
	NotIn        FieldOp = "NotIn"
	Exists       FieldOp = "Exists"
	DoesNotExist FieldOp = "DoesNotExist"
)

// FieldPath splits a dotted path. What follows the first ".annotations." is one key:
// annotation keys have dots.
func FieldPath(path string) []string {
	const annotations = ".annotations."
	if before, after, ok := strings.Cut(path, annotations); ok {
		return append(strings.Split(before, "."), "annotations", after)
	}
	return strings.Split(path, ".")
}

// Matches reports whether the object meets every requirement.
func (f Fields) Matches(object map[string]any) bool { return f.unmet(object) == nil }

// unmet returns the first requirement that the object does not meet.
func (f Fields) unmet(object map[string]any) *Field {
	for i := range f {
		if !f[i].matches(object) {
			return &f[i]
		}
	}
	return nil
}

func (f *Field) matches(object map[string]any) bool {
	value, ok := f.value(object)
	if !ok {
		return false
	}
	switch f.Op {
	case Exists:
		return value != nil
	case DoesNotExist:
		return value == nil
	case In, NotIn:
		if value == nil {
			return f.Op == NotIn
		}
		text, ok := scalarText(value)
		return ok && slices.Contains(f.Values, text) == (f.Op == In)
	}
	return false
}

// Text returns the text of the scalar at Path, and whether there is one.
func (f *Field) Text(object map[string]any) (string, bool) {
	value, ok := f.value(object)
	if !ok {
		return "", false
	}
	return scalarText(value)
}

// value returns the value at Path, nil if there is none. It is not ok if the path leads through
// anything but maps.
func (f *Field) value(object map[string]any) (value any, ok bool) {
	value = object
	for _, key := range f.Path {
		if value == nil {
			return nil, true
		}
		m, isMap := value.(map[string]any)
		if !isMap {
			return nil, false
		}
		value = m[key]
	}
	return value, true
}

func scalarText(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case float64:
		text, err := json.Marshal(v)
		return string(text), err == nil
	}
	return "", false
}

// String is the requirements in one stable line.
func (f Fields) String() string {
	parts := make([]string, len(f))
	for i := range f {
		parts[i] = f[i].String()
	}
	return strings.Join(parts, ", ")
}

// String formats the requirement as kubectl does.
func (f *Field) String() string {
	path := strings.Join(f.Path, ".")
	switch f.Op {
	case Exists:
		return path
	case DoesNotExist:
		return "!" + path
	case In, NotIn:
		return fmt.Sprintf("%s %s (%s)", path, strings.ToLower(string(f.Op)), strings.Join(f.Values, ", "))
	}
	return fmt.Sprintf("%s %s", path, f.Op)
}
