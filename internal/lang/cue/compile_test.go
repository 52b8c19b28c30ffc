package cue_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/internal/lang/cue"
	"github.com/usher-dev/usher/internal/rule"
)

func TestCompileProblems(t *testing.T) {
	t.Parallel()
	const missing = `mistake: cue: patches is not defined, so the rule fails whenever it runs; define patches`
	for _, tt := range []struct {
		reason string
		form   cue.Form
		source string
		want   []string
	}{
		{"in order", cue.Override, "object: _\npatches: []", nil},
		{"what lacks only parameters is in order", cue.Override, "object: _\npatches: [{op: \"add\", path: \"/a\", value: object.a.b}]", nil},
		{"the parameter is not declared", cue.Override, `patches: [{op: "add", path: "/a", value: object.metadata.name}]`, []string{
			`error: cue: patches.value: reference "object" not found (line 1, column 42); declare the parameter: object: _ @tag(object)`}},
		{"oldObject is not for overrides", cue.Override, "object: _\npatches: [oldObject]", []string{
			`error: cue: patches: reference "oldObject" not found (line 2, column 11); override rules get no oldObject; do without it`}},
		{"the rendered forms are told by their field", cue.RenderedOverride, "patches: [data.object]", []string{
			`error: renderedCue: patches: reference "data" not found (line 1, column 11); declare the parameter: data: _ @tag(data)`}},
		{"all at once, by line", cue.Override, "patches: []\na: nope\nb: 1\n\nc: no", []string{
			`error: cue: a: reference "nope" not found (line 2, column 4); declare the name or correct it`,
			`error: cue: c: reference "no" not found (line 5, column 4); declare the name or correct it`}},
		{"a package without its import", cue.Override, "patches: []\na: json.Marshal(1)", []string{
			`error: cue: a: reference "json" not found (line 2, column 4); write import "encoding/json" first`}},
		{"a conflict", cue.Validate, "a: 1\na: 2\nvalidate: {}", []string{
			`error: cue: a: conflicting values 2 and 1 (line 1, column 4); make the declarations agree, or put them under conditions that exclude each other`}},
		{"an unknown package", cue.Override, "import \"corp.example/lib\"\n\npatches: [lib.x]", []string{
			`error: cue: package "corp.example/lib" not found (line 1, column 8); import packages of CUE's standard library only`}},
		{"an unknown package that nothing uses", cue.Override, "import \"corp.example/lib\"\n\npatches: []", []string{
			`error: cue: package "corp.example/lib" not found (line 1, column 8); import packages of CUE's standard library only`}},
		{"a standard package that nothing uses", cue.Override, "import \"strings\"\n\npatches: []", nil},
		{"an unknown package beside an unknown name", cue.Override, "import \"corp.example/lib\"\n\npatches: [lib.x, nope]", []string{
			`error: cue: package "corp.example/lib" not found (line 1, column 8); import packages of CUE's standard library only`,
			`error: cue: patches: reference "nope" not found (line 3, column 18); declare the name or correct it`}},
		{"a package name that is no path", cue.Override, "import \"foo\"\n\npatches: []", []string{
			`error: cue: package "foo" not found (line 1, column 8); import packages of CUE's standard library only`}},
		{"no output", cue.Override, "object: _", []string{missing}},
		{"an output under a condition", cue.Override, "object: _\nif object.a == 1 {patches: []}", nil},
		{"an output that may come from elsewhere", cue.Override, "#A: patches: []\n#A", nil},
		{"an output of the other form", cue.Override, "validate: {}", []string{missing}},
		{"nothing", cue.Override, "", []string{missing}},
		{"an unused let clause", cue.Override, "let a = 1\npatches: []", []string{
			`error: cue: unreferenced alias or let clause a (line 1, column 1); use it or remove it`}},
		{"a later builtin", cue.Override, "patches: [error(\"x\")]", []string{
			`error: cue: patches: builtin "error" is not available in version v0.4.3; it was added in version "v0.14.0" (line 1, column 11); write it in the language of CUE v0.4.3`}},
		{"attributes are decoration", cue.Override, "@extern(embed)\nx: 1 @embed(file=\"/etc/passwd\")\npatches: []", nil},
		{"lists add up", cue.Override, "object: _\npatches: [1] + [2]", nil},
		{"words are operators", cue.Override, "patches: [7 div 2 mod 2 quo 1 rem 1]", nil},
		{"a name that has become a word", cue.Override, "try: 1\npatches: []", []string{
			`error: cue: expected '{', found ':' (line 1, column 4); correct the CUE`,
			`error: cue: expected '}', found 'EOF' (line 2, column 12); correct the CUE`,
			`error: cue: missing ',' in struct literal (line 2, column 12); correct the CUE`,
			`error: cue: try is not a name any more; choose another name, or write "try" where it is a label`}},
		{"advice shows the source", cue.Override, "object: _\npatches: []\nx: object.a != _|_ && object.a.b > 1", []string{
			`warning: cue: && evaluates both sides, so object.a != _|_ does not keep the other from failing where the field is missing (line 3, column 4); test the presence in an if clause of its own, around the rest`}},
		{"a word is no operator without operands", cue.Override, "patches: [div 2]", []string{
			`error: cue: missing ',' in list literal (line 1, column 15); correct the CUE`}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			p, problems := cue.Compile(t.Context(), tt.source, tt.form, cue.Options{})
			if diff := cmp.Diff(tt.want, lines(problems)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if failed := len(rule.Errors(problems)) > 0; failed != (p == nil) {
				t.Errorf("program %v with problems %v", p, problems)
			}
		})
	}
}

// lines writes problems without the policy that they do not have yet.
func lines(problems []rule.Problem) []string {
	var lines []string
	for _, p := range problems {
		lines = append(lines, strings.Replace(p.String(), ":  : ", ": ", 1))
	}
	return lines
}

func TestCompileBounds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		reason string
		source string
		want   string
	}{
		{"long", "patches: []\nx: \"" + strings.Repeat("x", 256<<10) + `"`, "bytes long"},
		{"nested by parentheses", "patches: []\nx: " + strings.Repeat("(", 3000) + "1" + strings.Repeat(")", 3000), "levels deep"},
		{"nested beyond the parser", "patches: []\nx: " + strings.Repeat("[", 20000), "nesting"},
		{"nested by operators", "patches: []\nx: 1" + strings.Repeat("+1", 3000), "levels deep"},
		{"sums of sums that may be lists", "object: _\npatches: []\nx: " + sums("object.a", 18), "lists"},
		{"endless", "patches: []\n" + alternatives(24), "even without input"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			e := onWorkers(t, cue.Limits{CompileTimeout: 5 * time.Second})
			p, problems := cue.Compile(t.Context(), tt.source, cue.Override, cue.Options{Evaluator: e})
			if p != nil || len(problems) != 1 || !strings.Contains(problems[0].What, tt.want) {
				t.Errorf("problems are %v, not one with %q", problems, tt.want)
			}
		})
	}
}

// alternatives returns n declarations of a struct that has one of two fields each.
func alternatives(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "a: {x%d: 1} | {y%d: 1}\n", i, i)
	}
	return b.String()
}

func sums(operand string, depth int) string {
	if depth == 0 {
		return operand
	}
	return "(" + sums(operand, depth-1) + " + " + operand + ")"
}

func TestCompileAdvice(t *testing.T) {
	t.Parallel()
	const (
		and  = "&& evaluates both sides"
		or   = "|| evaluates both sides"
		text = "a quotient becomes text"
		list = "lists of structs"
		one  = "in lists, 1 and 1.0"
	)
	for _, tt := range []struct {
		reason string
		source string
		want   string
	}{
		{"a test of presence beside a use", `x: object.labels != _|_ && object.labels["a"] == "b"`, and},
		{"the test comes last", `x: object.labels["a"] == "b" && object.labels != _|_`, and},
		{"a test of presence beside a use of the same", `x: object.kind != _|_ && object.kind == "Pod"`, and},
		{"three operands", `x: object.a == 1 && object.labels != _|_ && len(object.labels) > 1`, and},
		{"in parentheses", `x: (object.labels != _|_) && (object.labels.a == "b")`, and},
		{"a test of absence", `x: object.labels == _|_ || object.labels.a == "b"`, or},
		{"a comparison with null beside a use of what is inside", `x: object.labels != null && object.labels.a == "b"`, and},
		{"by another name", "l: object.labels\nx: l != _|_ && object.labels.a == \"b\"", and},
		{"in a loop", `x: [for c in object.list if c.image != _|_ && c.image =~ "x" {c.name}]`, and},

		{"two tests of presence", `x: object.labels != _|_ && object.labels.a != _|_`, ""},
		{"nothing in common", `x: object.labels != _|_ && object.kind == "Pod"`, ""},
		{"names that begin alike", `x: object.label != _|_ && object.labels.a == "x"`, ""},
		{"null is a value", `x: object.priority == null || object.priority > 3`, ""},
		{"a default on the other side", `x: object.labels != _|_ && (*object.labels.a | "") == "x"`, ""},
		{"conditions on the other side", `x: object.list != _|_ && len([if object.list != _|_ for c in object.list {c}]) > 0`, ""},
		{"an if clause around", `if object.labels != _|_ {x: object.labels != _|_ && object.labels.a == "b"}`, ""},
		{"an if clause before", `x: [for c in object.list if c.image != _|_ if c.image != _|_ && c.image =~ "x" {c.name}]`, ""},
		{"clauses one after the other", `x: [for c in object.list if c.image != _|_ if c.image =~ "x" {c.name}]`, ""},
		{"what the source defines itself", "own: {a: 1}\nx: own != _|_ && own.a == 1", ""},
		{"or with a test of presence", `x: object.labels != _|_ || object.kind == "a"`, ""},

		{"a quotient in text", `x: "\(object.n / 2)"`, text},
		{"a quotient in text by name", "half: object.n / 2\nx: \"\\(half)\"", text},
		{"a whole quotient in text", "import \"math\"\nx: \"\\(math.Round(object.n / 2))\"", ""},
		{"a quotient compared in text", `x: "\(object.n / 2 > 1)"`, ""},
		{"a quotient elsewhere", `x: object.n / 2, y: "\(object.n)"`, ""},
		{"lists of structs", `x: object.list == [{a: 1}]`, list},
		{"lists of fractions", "fs: [1.0]\nx: object.list != fs", one},
		{"lists of strings", `x: object.list == ["a", "b"]`, ""},
		{"structs", `x: object.labels == {a: 1}`, ""},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			source := tt.source + "\nobject: _\npatches: []"
			_, problems := cue.Compile(t.Context(), source, cue.Override, cue.Options{})
			var got []string
			for _, p := range problems {
				if p.Severity == rule.Warning {
					got = append(got, p.What)
				}
			}
			switch {
			case tt.want == "" && len(got) > 0, len(got) > 1:
				t.Errorf("unexpected warnings: %v", got)
			case tt.want != "" && (len(got) == 0 || !strings.HasPrefix(got[0], tt.want)):
				t.Errorf("warnings are %v, not %q", got, tt.want)
			}
		})
	}
}

func TestCompileAdviceNeedsAnOpenParameter(t *testing.T) {
	t.Parallel()
	source := "object: labels: *{a: \"b\"} | {...}\nx: object.labels != _|_ && object.labels.a == \"b\"\npatches: []"
	if _, problems := cue.Compile(t.Context(), source, cue.Override, cue.Options{}); len(problems) > 0 {
		t.Errorf("a declaration that makes labels present still gives %v", problems)
	}
}

func TestProgramString(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		reason string
		source string
		want   string
	}{
		{"what it reads", "object: _\npatches: [{op: \"add\", path: \"/a\", value: object.kind}]", "patches from object.kind.*"},
		{"nothing", "patches: []", "patches from nothing"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			p, problems := cue.Compile(t.Context(), tt.source, cue.Override, cue.Options{})
			if p == nil {
				t.Fatal(problems)
			}
			if p.String() != tt.want {
				t.Errorf("String is %q, want %q", p, tt.want)
			}
		})
	}
}
