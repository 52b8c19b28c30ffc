package template

import (
	"slices"
	"strconv"
	"strings"

	"github.com/usher-dev/usher/internal/lang/reference"
)

// A spot is a place in the object, or in its pod.
type spot struct {
	inPod bool
	// keys are strings and, for lists, ints.
	keys []any
	// key is the last key if it has to be computed, else nil.
	key *reference.Text
	// path is the JSON pointer of the place at keys, and expr the CUE reference.
	path, expr string
}

// inObject returns the place at keys.
func inObject(keys ...any) spot { return spot{expr: "object"}.at(keys...) }

// inPod returns the place at keys in the pod of the object.
func inPod(keys ...any) spot { return spot{inPod: true, expr: "pod.spec"}.at(keys...) }

// at returns the place at keys below s.
func (s spot) at(keys ...any) spot {
	s.keys = append(slices.Clip(s.keys), keys...)
	for _, key := range keys {
		switch key := key.(type) {
		case int:
			s.path += "/" + strconv.Itoa(key)
			s.expr += "[" + strconv.Itoa(key) + "]"
		case string:
			s.path += "/" + escape(key)
			s.expr += selector(key)
		}
	}
	return s
}

// text returns the place below s at the key in t.
func (s spot) text(t *reference.Text) spot {
	if key, ok := t.Literal(); ok {
		return s.at(key)
	}
	s.key = t
	return s
}

// find returns the value at the place.
func (s *spot) find(r *run) (any, bool) {
	var v any = r.in.Object
	if s.inPod {
		v = r.pod.spec
	}
	v, ok := follow(v, s.keys)
	if !ok || s.key == nil {
		return v, ok
	}
	key, err := s.key.Value(r.in)
	if err != nil {
		return nil, false
	}
	return follow(v, []any{key})
}

func follow(v any, keys []any) (any, bool) {
	for _, key := range keys {
		var ok bool
		switch key := key.(type) {
		case int:
			list, _ := v.([]any)
			if key >= len(list) {
				return nil, false
			}
			v = list[key]
		case string:
			m, _ := v.(map[string]any)
			if v, ok = m[key]; !ok {
				return nil, false
			}
		}
	}
	return v, true
}

// pointer returns the JSON pointer of the place.
func (s *spot) pointer(r *run) (string, error) {
	path := s.path
	if s.inPod {
		path = r.pod.at + path
	}
	if s.key == nil {
		return path, nil
	}
	key, err := s.key.Value(r.in)
	if err != nil {
		return "", err
	}
	return path + "/" + escape(key), nil
}

// pointerExpr is pointer as a CUE expression.
func (s *spot) pointerExpr() string {
	parent := strings.TrimSuffix(strings.TrimPrefix(reference.Quote(s.path), `"`), `"`)
	if s.inPod {
		parent = `\(pod.at)` + parent
	}
	if s.key == nil {
		return `"` + parent + `"`
	}
	return `"` + parent + `/" + strings.Replace(strings.Replace(` + s.key.Expr() + `, "~", "~0", -1), "/", "~1", -1)`
}

// item is the pointer to an item of the list there as a CUE expression; index is one too.
func (s *spot) item(index string) string {
	expr := s.pointerExpr()
	return expr[:len(expr)-1] + `/\(` + index + `)"`
}

// cue is the place as a CUE reference.
func (s *spot) cue() string {
	if s.key == nil {
		return s.expr
	}
	return s.expr + "[" + s.key.Expr() + "]"
}

// escape returns key as a segment of a JSON pointer.
func escape(key string) string {
	if !strings.ContainsAny(key, "~/") {
		return key
	}
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

// selector returns the CUE selector of a key.
func selector(key string) string {
	if isName(key) {
		return "." + key
	}
	return "[" + reference.Quote(key) + "]"
}
