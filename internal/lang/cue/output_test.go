package cue_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/internal/lang/cue"
)

// TestOutputs: what a source returns is what is read, whatever the input.
func TestOutputs(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason string
		form   cue.Form
		source string
		want   []string
	}{
		{"valid is misspelt", cue.Validate, "object: _ @tag(object)\nvalidate: {vaild: object.kind == \"Pod\"}",
			[]string{`mistake: cue: unknown field "vaild": validate has the fields valid, reason, warnings (line 2, column 12); did you mean valid?`}},
		{"reason is misspelt, under a condition", cue.Validate, "object: _\nvalidate: {\n\tif object.kind == \"Pod\" {\n\t\tvalid: false\n\t\treson: \"no\"\n\t}\n}",
			[]string{`mistake: cue: unknown field "reson": validate has the fields valid, reason, warnings (line 5, column 3); did you mean reason?`}},
		{"reason has another name", cue.Validate, "validate: valid: false\nvalidate: message: \"no\"",
			[]string{`mistake: cue: unknown field "message": validate has the fields valid, reason, warnings (line 2, column 11); did you mean reason?`}},
		{"behind a name", cue.Validate, "let result = {vaild: false}\nvalidate: result",
			[]string{`mistake: cue: unknown field "vaild": validate has the fields valid, reason, warnings (line 1, column 15); did you mean valid?`}},
		{"one of several alternatives", cue.Validate, "object: _\nvalidate: [if object.kind == \"Pod\" {valid: true}, {vaild: false}][0]",
			[]string{`mistake: cue: unknown field "vaild": validate has the fields valid, reason, warnings (line 2, column 52); did you mean valid?`}},
		{"a name that is near nothing may be on purpose", cue.Validate, "validate: {valid: true, note: \"x\"}",
			[]string{`warning: cue: unknown field "note": validate has the fields valid, reason, warnings (line 1, column 25); remove it, or make it a hidden field: _note`}},
		{"hidden fields, definitions and let clauses are the author's own", cue.Validate, "validate: {_vaild: true, #vaild: true, let vaild = true, valid: vaild}", nil},
		{"a word for a boolean", cue.Validate, `validate: {valid: "yes"}`,
			[]string{`mistake: cue: valid has to be true or false, and is text, so the rule fails (line 1, column 12); write true or false, without quotes`}},
		{"a number for a boolean", cue.Validate, "object: _\nvalidate: valid: len(object.metadata.labels)",
			[]string{`mistake: cue: valid has to be true or false, and is a number, so the rule fails (line 2, column 11); write true or false, without quotes`}},
		{"a comparison is a boolean", cue.Validate, "object: _\nvalidate: {valid: len(object.metadata.labels) > 1, reason: \"\\(object.metadata.name) is bad\"}", nil},
		{"a default is a boolean", cue.Validate, "validate: {valid: *true | bool, reason: string | *\"\"}", nil},
		{"a reason that is no text", cue.Validate, `validate: {valid: false, reason: ["a"]}`,
			[]string{`mistake: cue: reason has to be text, and is a list, so the rule fails (line 1, column 26); write text`}},
		{"warnings are a list", cue.Validate, `validate: {valid: true, warnings: "a"}`,
			[]string{`mistake: cue: warnings has to be a list, and is text, so the rule fails (line 1, column 25); write a list of texts`}},
		{"validate has another name", cue.Validate, "validates: {valid: true}",
			[]string{`mistake: cue: validate is not defined, so the rule fails whenever it runs; did you mean validate for validates?`}},
		{"patches has another name", cue.Override, "patch: []",
			[]string{`mistake: cue: patches is not defined, so the rule fails whenever it runs; did you mean patches for patch?`}},
		{"a parameter that nobody gives", cue.Validate, "userInfo: _ @tag(userInfo)\nvalidate: valid: userInfo.username != \"root\"",
			[]string{`mistake: cue: nothing gives userInfo a value, so what reads it fails (line 1, column 1); rules of this kind are given object and oldObject`}},
		{"a parameter that is misspelt", cue.Validate, "oldobject: _ @tag(oldobject)\nvalidate: valid: oldobject.metadata.name != \"root\"",
			[]string{`mistake: cue: nothing gives oldobject a value, so what reads it fails (line 1, column 1); did you mean oldObject?`}},
		{"oldObject of an override", cue.Override, "oldObject: _ @tag(oldObject)\npatches: [{op: \"add\", path: \"/x\", value: oldObject.metadata.name}]",
			[]string{`mistake: cue: nothing gives oldObject a value, so what reads it fails (line 1, column 1); rules of this kind are given object`}},
		{"a parameter that nothing reads", cue.Validate, "userInfo: _ @tag(userInfo)\nvalidate: {}",
			[]string{`warning: cue: nothing gives userInfo a value (line 1, column 1); remove it: rules of this kind are given object and oldObject`}},
		{"a type that the source itself narrows down", cue.Validate, "object: _\nlimit: int\nlimit: 3\nvalidate: valid: limit > 2", nil},
		{"path is misspelt", cue.Override, `patches: [{op: "add", pth: "/metadata/labels", value: {}}]`,
			[]string{`mistake: cue: unknown field "pth": an operation of patches has the fields op, path, value, from (line 1, column 23); did you mean path?`}},
		{"an operation that is none", cue.Override, `patches: [{op: "ad", path: "/metadata/labels", value: {}}]`,
			[]string{`mistake: cue: "ad" is no operation of JSON patch, so the rule fails (line 1, column 16); did you mean add?`}},
		{"an operation of SQL", cue.Override, "object: _\npatches: [if object.kind == \"Pod\" {op: \"update\", path: \"/x\"}]",
			[]string{`mistake: cue: "update" is no operation of JSON patch, so the rule fails (line 2, column 40); use add, copy, move, remove, replace, test`}},
		{"in lists that are put together", cue.Override, "import \"list\"\n\n_a: [{opp: \"add\", path: \"/x\"}]\npatches: list.Concat([_a, [{op: \"add\", path: \"/y\", value: 1}]])",
			[]string{`mistake: cue: unknown field "opp": an operation of patches has the fields op, path, value, from (line 3, column 7); did you mean op?`}},
		{"in a loop", cue.Override, "object: _\npatches: [for i, c in object.spec.containers {op: \"add\", path: \"/spec/containers/\\(i)/image\", vlaue: c.image}]",
			[]string{`mistake: cue: unknown field "vlaue": an operation of patches has the fields op, path, value, from (line 2, column 95); did you mean value?`}},
		{"what the original ignored", cue.Override, `patches: [{op: "add", path: "/x", value: 1, comment: "why"}]`,
			[]string{`warning: cue: unknown field "comment": an operation of patches has the fields op, path, value, from (line 1, column 45); remove it, or make it a hidden field: _comment`}},
		{"a path with dots", cue.Override, `patches: [{op: "add", path: "metadata.labels", value: {}}]`,
			[]string{`warning: cue: the path "metadata.labels" does not begin with a slash and leads nowhere (line 1, column 29); write "/metadata/labels"`}},
		{"copy and move", cue.Override, `patches: [{op: "copy", from: "/a", path: "/b"}, {op: "move", from: "/c", path: "/d"}]`, nil},
		{"a number and a text never compare", cue.Validate, "object: _\nvalidate: valid: len(object.spec.containers) == \"3\"",
			[]string{`mistake: cue: len(object.spec.containers) is a number and "3" is text: they cannot be compared, so the rule fails (line 2, column 18); compare values of one kind: numbers are written without quotes`}},
		{"a text and a boolean never compare", cue.Validate, "import \"strings\"\n\nobject: _\nvalidate: valid: strings.ToLower(object.spec.x) != true",
			[]string{`mistake: cue: strings.ToLower(object.spec.x) is text and true is true or false: they cannot be compared, so the rule fails (line 4, column 18); compare values of one kind: numbers are written without quotes`}},
		{"null compares with everything", cue.Validate, "object: _\nvalidate: valid: len(object.spec.x) != null", nil},
		{"what is not known compares", cue.Validate, "object: _\nvalidate: valid: object.spec.replicas == \"3\"", nil},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			program, problems := cue.Compile(t.Context(), test.source, test.form, cue.Options{})
			if program == nil {
				t.Fatalf("the source is not enforced: %v", problems)
			}
			var got []string
			for _, p := range problems {
				if strings.Contains(p.What, "is not told why") {
					continue // The slips of package trial have it.
				}
				got = append(got, p.String())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if test.want != nil && strings.HasPrefix(test.want[0], "error") {
				t.Error("an error disables stored policies")
			}
		})
	}
}
