package cue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/lang/cue"
	"github.com/usher-dev/usher/rule"
)

// TestWithinBounds has sources that look like those that make too much and do not.
func TestWithinBounds(t *testing.T) {
	t.Parallel()
	number := func(n any) map[string]any { return map[string]any{"spec": map[string]any{"n": n}} }
	list := func(n int) map[string]any {
		var l []any
		for i := range n {
			l = append(l, map[string]any{"name": fmt.Sprint("name", i), "n": int64(i)})
		}
		return map[string]any{"l": l}
	}
	for _, tt := range []struct {
		reason string
		source string
		object map[string]any
	}{
		{"a long text", `x: "` + strings.Repeat("x", 200_000) + `"`, nil},
		{"a long list", `x: [` + strings.Repeat("1,", 20_000) + `]`, nil},
		{"a table of twenty thousand members", "import \"list\"\nx: list.Range(0, 20000, 1)", nil},
		{"a megabyte", `x: 1000000*"x"`, nil},
		{"a table of structs", `x: [` + strings.Repeat(`{name: "some name", image: "some image", tag: "latest"},`, 1000) + "]\ny: [for t in x {t.name}]", nil},
		{"names on the way", chain(`{b: {c: {d: 1}}}`, `$`, 500), nil},
		{"numbers that grow", chain(`2`, `$ * $`, 15), nil},
		{"products of ever more names", chain(`1`, `$ * $`, 200), nil},
		{"sums of ever more names", chain(`[0]`, `$`, 3) + "b0: object\n" + strings.ReplaceAll(chain(`b0`, `[$][0]`, 100), "a", "c"), nil},
		{"sums", chain(`1`, `$ + 1`, 500), nil},
		{"a recursive definition", "#T: {v: int, next?: #T}\nx: #T & {v: 1, next: {v: 2, next: v: 3}}", nil},
		{"a recursive definition with alternatives", "#T: {v: int, next: #T | *null}\nx: #T & {v: 1}", nil},
		{"a tree", "#T: {v: int, children: [...#T]}\nx: #T & {v: 1, children: [{v: 2, children: []}]}", nil},
		{"a large number that is not counted with", `x: object.spec.n + 1`, number(int64(1 << 60))},
		{"a large number in a text", `x: "\(object.spec.n)"`, number(1e300)},
		{"a condition on what is counted with", `if object.spec.n < 10 {x: object.spec.n*"x"}`, number(int64(1_000_000_000_000))},
		{"a condition among others", `if object.spec != _|_ if object.spec.n > 0 && object.spec.n <= 10 {x: object.spec.n*"x"}`, number(int64(1_000_000_000_000))},
		{"a condition in a list", "import \"list\"\nx: [if object.spec.n < 10 {list.Range(0, object.spec.n, 1)}]", number(int64(1_000_000_000_000))},
		{"a condition in a loop", `x: [for c in object.l if c.n < 2000 {c.n*"x"}]`, map[string]any{"l": []any{
			map[string]any{"n": int64(1)}, map[string]any{"n": int64(1_000_000_000_000)}}}},
		{"the lesser of two numbers", "import \"list\"\nx: list.Min([object.spec.n, 100])*\"x\"", number(int64(1_000_000_000_000))},
		{"a negative number", `if object.spec.n > 0 {x: object.spec.n*"x"}`, number(int64(-1_000_000_000_000))},
		{"a range between close numbers", "import \"list\"\nx: list.Range(object.spec.n, object.spec.n+3, 1)", number(int64(1_000_000_000))},
		{"a loop over many", `x: [for c in object.l {c.name}]`, list(10_000)},
		{"loops over a hundred", `x: [for c in object.l for d in object.l if c.n < d.n {"\(c.name)\(d.name)"}]`, list(100)},
		{"a long text of the object", "import \"strings\"\nx: strings.Replace(object.s, \"a\", \"bb\", -1)", map[string]any{"s": strings.Repeat("a", 1<<20)}},
		{"lines of the object", "import \"strings\"\nx: [for l in strings.Split(object.s, \"\\n\") if strings.HasPrefix(l, \"b\") {l}]", map[string]any{"s": strings.Repeat("a\n", 10_000)}},
		{"a document of the object", "import \"encoding/json\"\nx: json.Unmarshal(object.s)", map[string]any{"s": `{"a": [1, 2, {"b": 1e10}]}`}},
		{"a template", "import \"text/template\"\nx: template.Execute(\"{{.a}} and {{if .a}}more{{end}}\", {a: object.s})", map[string]any{"s": "x"}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			e := cue.NewEvaluator(cue.Limits{Timeout: time.Minute, CompileTimeout: time.Minute})
			p, problems := cue.Compile(tt.source+"\nobject: _\npatches: []", cue.Override, cue.Options{Evaluator: e})
			if p == nil {
				t.Fatalf("it is refused: %v", problems)
			}
			if tt.object == nil {
				return
			}
			if _, err := p.Run(context.Background(), &rule.Input{Object: tt.object}); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestBoundOfWhatIsFetched: the answer of an HTTP request counts like the object.
func TestBoundOfWhatIsFetched(t *testing.T) {
	t.Parallel()
	p := compile(t, "override/", fetching("_", `{method: "GET", url: "http://a.test/"}`)+"\nx: processing.output.n*\"x\"", cue.Options{})
	in := &rule.Input{Object: cart(), Facts: &fact.Known{}}
	_, err := p.Run(context.Background(), in)
	missing := (*fact.Missing)(nil)
	if !errors.As(err, &missing) {
		t.Fatalf("error is %v", err)
	}
	in.Facts.Set(missing.Ref, map[string]any{"body": map[string]any{"n": int64(1_000_000_000_000)}}, nil)
	_, err = p.Run(context.Background(), in)
	if !errors.Is(err, cue.ErrTooLarge) {
		t.Errorf("error is %v", err)
	}
}

// chain returns declarations a0, a1, … of which each is made of the one before.
func chain(first, next string, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "a0: %s\n", first)
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, "a%d: %s\n", i, strings.ReplaceAll(next, "$", fmt.Sprintf("a%d", i-1)))
	}
	return b.String()
}
