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

// A Field is one requirement. What lies at Path is compared by its text if it is a
// string, a number or a boolean; In and NotIn never hold for anything else that is
// present. Null counts as missing.
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
	if i := strings.Index(path, annotations); i >= 0 {
		return append(strings.Split(path[:i], "."), "annotations", path[i+len(annotations):])
	}
	return strings.Split(path, ".")
}

// Matches reports whether the object meets every requirement.
func (f Fields) Matches(object map[string]any) bool { return f.miss(object) == "" }

func (f Fields) miss(object map[string]any) string {
	for i := range f {
		if !f[i].matches(object) {
			return "field does not match " + strconv.Quote(f[i].String())
		}
	}
	return ""
}

func (f *Field) matches(object map[string]any) bool {
	value, present, ok := lookup(object, f.Path)
	if !ok {
		return false
	}
	switch f.Op {
	case Exists:
		return present
	case DoesNotExist:
		return !present
	case In, NotIn:
		if !present {
			return f.Op == NotIn
		}
		text, ok := scalarText(value)
		return ok && slices.Contains(f.Values, text) == (f.Op == In)
	}
	return false
}

// String is the requirements in one stable line.
func (f Fields) String() string {
	parts := make([]string, len(f))
	for i := range f {
		parts[i] = f[i].String()
	}
	return strings.Join(parts, ", ")
}

// String is the requirement as kubectl would print it.
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

// lookup follows path. It is not ok when the path leads through something that is not
// a map.
func lookup(object map[string]any, path []string) (value any, present, ok bool) {
	value = object
	for _, key := range path {
		m, isMap := value.(map[string]any)
		if !isMap {
			return nil, false, false
		}
		if value, present = m[key]; !present || value == nil {
			return nil, false, true
		}
	}
	return value, true, true
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
