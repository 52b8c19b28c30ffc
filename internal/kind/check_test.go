package kind_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/usher-dev/usher/internal/kind"
)

// TestMissing: a required field is missing if it was there, or if what it belongs to is new.
func TestMissing(t *testing.T) {
	t.Parallel()
	var of kind.Schema
	if err := json.Unmarshal([]byte(`{"type": "object", "required": ["a", "b", "c"], "properties": {
		"a": {"type": "string", "default": ""}, "b": {"type": "string", "default": "x"}, "c": {"type": "string", "nullable": true},
		"list": {"type": "array", "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "value": {"type": "string"}}}}}}`), &of); err != nil {
		t.Fatal(err)
	}
	unnamed, named := map[string]any{"value": "x"}, map[string]any{"name": "x"}
	for _, test := range []struct {
		reason        string
		before, after map[string]any
		want          string
	}{
		{"removed, but for what is defaulted or may be null", map[string]any{"a": "x", "b": "x", "c": "x"}, map[string]any{}, "a"},
		{"null", map[string]any{"a": "x"}, map[string]any{"a": nil}, "a"},
		{"missing before", map[string]any{}, map[string]any{"b": "x"}, ""},
		{"a new element", map[string]any{"a": "x"}, map[string]any{"a": "x", "list": []any{unnamed}}, "list.[].name"},
		{"another element in its place", map[string]any{"list": []any{named}}, map[string]any{"list": []any{map[string]any{"value": "x"}}}, "list.[].name"},
		{"an element that has moved", map[string]any{"list": []any{unnamed}}, map[string]any{"list": []any{named, unnamed}}, ""},
	} {
		var got []string
		for _, v := range kind.Recorded().Check(&of, test.after, test.before) {
			if !v.Missing {
				t.Errorf("%s: %+v", test.reason, v)
			}
			got = append(got, strings.Join(v.Path, "."))
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: missing %q, want %q", test.reason, got, test.want)
		}
	}
}
