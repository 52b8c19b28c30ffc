package patch_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/jsonpatch"
	"github.com/usher-dev/usher/internal/lang/patch"
	"github.com/usher-dev/usher/internal/rule"
)

func TestCompile(t *testing.T) {
	t.Parallel()
	tests := []struct {
		reason  string
		entries []v1alpha1.PlaintextOverrider
		want    usher.Patch
		text    string
	}{
		{
			reason: "values keep their JSON type; integers are not floats",
			entries: []v1alpha1.PlaintextOverrider{
				entry("/a", "add", `3`), entry("/b", "add", `1.5`), entry("/c", "replace", `"x"`), entry("/d", "add", `{"e":[true,null,2]}`),
			},
			want: usher.Patch{
				{Op: "add", Path: "/a", Value: int64(3)}, {Op: "add", Path: "/b", Value: 1.5}, {Op: "replace", Path: "/c", Value: "x"},
				{Op: "add", Path: "/d", Value: map[string]any{"e": []any{true, nil, int64(2)}}},
			},
			text: "add /a, add /b, replace /c, add /d",
		},
		{
			reason:  "no value is null",
			entries: []v1alpha1.PlaintextOverrider{{Path: "/a", Operator: "add"}, entry("/b", "replace", ` `)},
			want:    usher.Patch{{Op: "add", Path: "/a"}, {Op: "replace", Path: "/b"}},
			text:    "add /a, replace /b",
		},
		{
			reason:  "remove has no value",
			entries: []v1alpha1.PlaintextOverrider{entry("/a~1b/-1", "remove", `"ignored"`)},
			want:    usher.Patch{{Op: "remove", Path: "/a~1b/-1"}},
			text:    "remove /a~1b/-1",
		},
		{
			reason:  "the whole object may be replaced by one",
			entries: []v1alpha1.PlaintextOverrider{entry("", "replace", `{"a":1}`)},
			want:    usher.Patch{{Op: "replace", Path: "", Value: map[string]any{"a": int64(1)}}},
			text:    "replace ",
		},
		{reason: "nothing to do", want: usher.Patch{}},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			program, problems := patch.Compile(test.entries)
			if len(rule.Errors(problems)) > 0 {
				t.Fatalf("problems: %v", problems)
			}
			outcome, err := program.Run(t.Context(), &rule.Input{})
			if err != nil {
				t.Fatalf("Run: %v", err)
			}
			if diff := cmp.Diff(rule.Outcome{Patch: test.want}, outcome); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
			if got := program.String(); got != test.text {
				t.Errorf("String = %q, want %q", got, test.text)
			}
		})
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	tests := []struct {
		reason string
		entry  v1alpha1.PlaintextOverrider
		want   rule.Problem
		// err is what using the program says, in the end.
		err string
	}{
		{
			reason: "operations other than three",
			entry:  entry("/a", "test", `1`),
			want:   rule.Problem{Severity: rule.Error, Field: "plaintext[1].op", What: "Unexpected kind: test", Do: "use add, remove or replace"},
			err:    "Unexpected kind: test",
		},
		{
			reason: "no operation",
			entry:  entry("/a", "", `1`),
			want:   rule.Problem{Severity: rule.Error, Field: "plaintext[1].op", What: "Unexpected kind: ", Do: "use add, remove or replace"},
			err:    "Unexpected kind: ",
		},
		{
			reason: "a value that is not JSON",
			entry:  entry("/a", "add", `{`),
			want: rule.Problem{Severity: rule.Error, Field: "plaintext[1].value",
				What: "the value is not JSON: unexpected end of JSON input", Do: "write one JSON value, with strings in quotes"},
			err: "plaintext[1].value: the value is not JSON",
		},
		{
			reason: "a dotted path",
			entry:  entry("metadata.labels.a", "add", `1`),
			want: rule.Problem{Severity: rule.Warning, Field: "plaintext[1].path",
				What: `the path "metadata.labels.a" has no slash and leads nowhere: the operation fails on every request`, Do: `write "/metadata/labels/a"`},
			err: "doc is missing path",
		},
		{
			reason: "a path without the first slash",
			entry:  entry("metadata/labels", "add", `1`),
			want: rule.Problem{Severity: rule.Warning, Field: "plaintext[1].path",
				What: `the path does not begin with a slash: "metadata" does not count, and the path means "/labels"`, Do: `write "/metadata/labels"`},
		},
		{
			reason: "the whole object cannot be added",
			entry:  entry("", "add", `{}`),
			want: rule.Problem{Severity: rule.Warning, Field: "plaintext[1].path",
				What: "the empty path is the whole object, which can only be replaced, by an object: the operation fails on every request",
				Do:   "write the path of a field, such as /metadata/labels/team"},
			err: "doc is missing path",
		},
		{
			reason: "a tilde that escapes nothing",
			entry:  entry("/a~0b~", "add", `1`),
			want: rule.Problem{Severity: rule.Warning, Field: "plaintext[1].path",
				What: `the ~ in "~" is not followed by 0 or 1 and is taken literally`, Do: "write ~0 for ~ and ~1 for / inside of a key"},
		},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			program, problems := patch.Compile([]v1alpha1.PlaintextOverrider{entry("/x", "add", "1"), test.entry})
			if diff := cmp.Diff([]rule.Problem{test.want}, problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			outcome, err := program.Run(t.Context(), &rule.Input{})
			if err == nil {
				_, _, err = jsonpatch.Apply(map[string]any{}, outcome.Patch)
			}
			if (test.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("error = %v, want one with %q", err, test.err)
			}
		})
	}
}

func BenchmarkRun(b *testing.B) {
	program, _ := patch.Compile([]v1alpha1.PlaintextOverrider{entry("/metadata/labels/a", "add", `"x"`), entry("/spec/nodeName", "remove", ``)})
	in := &rule.Input{}
	for b.Loop() {
		if _, err := program.Run(b.Context(), in); err != nil {
			b.Fatal(err)
		}
	}
}

func entry(path string, op v1alpha1.OverriderOperator, value string) v1alpha1.PlaintextOverrider {
	return v1alpha1.PlaintextOverrider{Path: path, Operator: op, Value: &apiextensionsv1.JSON{Raw: []byte(value)}}
}
