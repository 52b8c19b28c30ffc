package rule_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/internal/rule"
)

func TestFieldPath(t *testing.T) {
	t.Parallel()
	tests := []struct {
		reason string
		path   string
		want   []string
	}{
		{"dots part keys", "spec.template.name", []string{"spec", "template", "name"}},
		{"an annotation key is one key, with its dots", "metadata.annotations.corp.example/team.name", []string{"metadata", "annotations", "corp.example/team.name"}},
		{"at any depth", "spec.template.metadata.annotations.a.b", []string{"spec", "template", "metadata", "annotations", "a.b"}},
		{"the first annotations count", "metadata.annotations.x.annotations.y", []string{"metadata", "annotations", "x.annotations.y"}},
		{"annotations without a dot before", "annotations.a.b", []string{"annotations", "a", "b"}},
		{"annotations themselves", "metadata.annotations", []string{"metadata", "annotations"}},
		{"an empty annotation key", "metadata.annotations.", []string{"metadata", "annotations", ""}},
		{"label keys are parted like any other", "metadata.labels.corp.example/team", []string{"metadata", "labels", "corp", "example/team"}},
		{"no path", "", []string{""}},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, rule.FieldPath(tt.path)); diff != "" {
				t.Errorf("FieldPath(%q): -want +got:\n%s", tt.path, diff)
			}
		})
	}
}

func TestFieldsMatch(t *testing.T) {
	t.Parallel()
	object := map[string]any{
		"metadata": map[string]any{
			"name":        "cart",
			"annotations": map[string]any{"corp.example/team.name": "blue"},
			"labels":      map[string]any{"app": "cart", "corp.example/team": "blue"},
		},
		"spec": map[string]any{
			"text": "x", "empty": "", "integer": int64(2), "number": 1.5, "yes": true, "null": nil,
			"list": []any{"x"}, "map": map[string]any{"text": "x"},
		},
	}
	is := func(path string, values ...string) rule.Field { return field(path, rule.In, values...) }
	not := func(path string, values ...string) rule.Field { return field(path, rule.NotIn, values...) }
	exists := func(path string) rule.Field { return field(path, rule.Exists) }
	missing := func(path string) rule.Field { return field(path, rule.DoesNotExist) }
	tests := []struct {
		reason string
		fields rule.Fields
		want   bool
	}{
		{"nothing is required", nil, true},
		{"In: listed", rule.Fields{is("metadata.name", "a", "cart")}, true},
		{"In: not listed", rule.Fields{is("metadata.name", "a", "b")}, false},
		{"In: missing", rule.Fields{is("spec.none", "x")}, false},
		{"In: the empty text is not missing", rule.Fields{is("spec.empty", "")}, true},
		{"In: what is missing is not the empty text", rule.Fields{is("spec.none", "")}, false},
		{"In: no values", rule.Fields{is("metadata.name")}, false},
		{"NotIn: listed", rule.Fields{not("metadata.name", "cart")}, false},
		{"NotIn: not listed", rule.Fields{not("metadata.name", "a")}, true},
		{"NotIn: missing", rule.Fields{not("spec.none", "x")}, true},
		{"NotIn: no values", rule.Fields{not("metadata.name")}, true},
		{"Exists: there", rule.Fields{exists("spec.empty")}, true},
		{"Exists: missing", rule.Fields{exists("spec.none")}, false},
		{"Exists: missing with its parents", rule.Fields{exists("status.phase.reason")}, false},
		{"DoesNotExist: there", rule.Fields{missing("spec.text")}, false},
		{"DoesNotExist: missing", rule.Fields{missing("spec.none")}, true},
		{"DoesNotExist: missing with its parents", rule.Fields{missing("status.phase.reason")}, true},
		{"all have to hold", rule.Fields{is("metadata.name", "cart"), is("spec.text", "y")}, false},
		{"all hold", rule.Fields{is("metadata.name", "cart"), exists("spec.text"), missing("spec.none")}, true},
		{"values are compared letter by letter", rule.Fields{is("metadata.name", "Cart")}, false},
		{"an annotation key has dots", rule.Fields{is("metadata.annotations.corp.example/team.name", "blue")}, true},
		{"a label key must not", rule.Fields{is("metadata.labels.corp.example/team", "blue")}, false},
		{"an unknown operator matches nothing", rule.Fields{field("metadata.name", "Like", "cart")}, false},
		{"a null on the way counts as missing", rule.Fields{missing("spec.null.below")}, true},
		{"a path through a text is no path", rule.Fields{missing("spec.text.below")}, false},
		{"nor is one through a list", rule.Fields{not("spec.list.0", "x")}, false},
		{"an integer is compared by its text", rule.Fields{is("spec.integer", "2"), not("spec.integer", "3"), exists("spec.integer")}, true},
		{"an integer that is not listed", rule.Fields{is("spec.integer", "02")}, false},
		{"a number is compared by its text", rule.Fields{is("spec.number", "1.5"), exists("spec.number")}, true},
		{"a boolean is compared by its text", rule.Fields{is("spec.yes", "true"), not("spec.yes", "false")}, true},
		{"a boolean that is listed", rule.Fields{not("spec.yes", "true")}, false},
		{"null counts as missing", rule.Fields{missing("spec.null"), not("spec.null", "x")}, true},
		{"null does not exist", rule.Fields{exists("spec.null")}, false},
		{"a list and a map exist", rule.Fields{exists("spec.list"), exists("spec.map"), exists("spec")}, true},
		{"they are not missing", rule.Fields{missing("spec.map")}, false},
		{"a list is in nothing", rule.Fields{is("spec.list", "x")}, false},
		{"nor is it other than anything", rule.Fields{not("spec.list", "y")}, false},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			if got := tt.fields.Matches(object); got != tt.want {
				t.Errorf("%s: Matches is %t", tt.fields, got)
			}
		})
	}
}

func TestFieldText(t *testing.T) {
	t.Parallel()
	object := map[string]any{"a": map[string]any{"text": "x", "number": int64(1)}}
	for path, want := range map[string]string{"a.text": "x", "a.number": "1", "a": "", "a.none": "", "a.text.b": ""} {
		f := field(path, rule.Exists)
		if text, ok := f.Text(object); ok != (want != "") || text != want {
			t.Errorf("%s: Text is %q, %t, want %q", path, text, ok, want)
		}
	}
}

func field(path string, op rule.FieldOp, values ...string) rule.Field {
	return rule.Field{Path: rule.FieldPath(path), Op: op, Values: values}
}
