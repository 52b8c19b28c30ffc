package jmespath_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/usher-dev/usher/internal/convert/kyverno/jmespath"
)

// form writes a node with parentheses.
func form(n *jmespath.Node) string {
	args := make([]string, len(n.Args))
	for i, arg := range n.Args {
		args[i] = form(arg)
		if n.Keys != nil {
			args[i] = n.Keys[i] + ": " + args[i]
		}
	}
	all := strings.Join(args, ", ")
	names := map[jmespath.Op]string{
		jmespath.Sub: "sub", jmespath.Pipe: "pipe", jmespath.Project: "each", jmespath.ProjectValues: "values", jmespath.Filter: "filter",
		jmespath.Flatten: "flatten", jmespath.Or: "or", jmespath.And: "and", jmespath.Not: "not", jmespath.Compare: n.Text, jmespath.Call: n.Text,
		jmespath.Reference: "&", jmespath.List: "list", jmespath.Map: "map",
		jmespath.Text: "text", jmespath.Key: "key", jmespath.Outer: "outer",
	}
	switch n.Op {
	case jmespath.Current:
		return "@"
	case jmespath.Field:
		return n.Text
	case jmespath.Literal:
		return fmt.Sprintf("%#v", n.Value)
	case jmespath.Index:
		return fmt.Sprintf("[%d]", n.Value)
	case jmespath.Slice:
		var parts []string
		slice, _ := n.Value.([3]*int)
		for _, part := range slice {
			if part == nil {
				parts = append(parts, "")
				continue
			}
			parts = append(parts, fmt.Sprint(*part))
		}
		return "[" + strings.Join(parts, ":") + "]"
	default:
		return names[n.Op] + "(" + all + ")"
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for text, expected := range map[string]string{
		"a.b.c":                          "sub(sub(a, b), c)",
		`a."b/c".d`:                      "sub(sub(a, b/c), d)",
		"a || b && c | d":                "pipe(or(a, and(b, c)), d)",
		"!a == b":                        "==(not(a), b)",
		"a[].b":                          "each(flatten(a), b)",
		"a[*].b[0]":                      "each(a, sub(b, [0]))",
		"a[?b=='x'].c":                   `filter(a, c, ==(b, "x"))`,
		"a[?b][]":                        "each(flatten(filter(a, @, b)), @)",
		"a.*.b":                          "values(a, b)",
		"a.[b, c][].d":                   "each(flatten(sub(a, list(b, c))), d)",
		"a.{x: b, y: @}":                 "sub(a, map(x: b, y: @))",
		"a[].b.split(@, ':')[0]":         `each(flatten(a), sub(b, sub(split(@, ":"), [0])))`,
		"a.keys(@)[]":                    "each(flatten(sub(a, keys(@))), @)",
		"f(a, &b, `[1, \"x\"]`)":         `f(a, &(b), []interface {}{1, "x"})`,
		"a[-1]":                          "sub(a, [-1])",
		"a[1:].b":                        "each(sub(a, [1::]), b)",
		"a[::2]":                         "each(sub(a, [::2]), @)",
		`'it\'s'`:                        `"it's"`,
		`'\d+\\.'`:                       `"\\d+\\\\."`,
		"request.operation || 'X'":       `or(sub(request, operation), "X")`,
		"(a || `[]`) | sort(@)":          "pipe(or(a, []interface {}{}), sort(@))",
		"a[?contains(@, ':') == `true`]": `filter(a, @, ==(contains(@, ":"), true))`,
		"a | [0] | b":                    "pipe(pipe(a, sub(@, [0])), b)",
		"a[?b == '\x01c.d || ''\x02']":   "filter(a, @, ==(b, text(or(sub(c, d), \"\"))))",
		"a.\"\x01b\x02\".c":              "sub(sub(a, key(b)), c)",
		"a[?f(b, `\x01c\x02`)]":          "filter(a, @, f(b, outer(c)))",
		"*.a":                            "values(@, a)",
		"[]":                             "each(flatten(@), @)",
	} {
		n, err := jmespath.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := form(n); got != expected {
			t.Errorf("%s: %s, expected %s", text, got, expected)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for text, expected := range map[string]string{
		"":                          "the expression is incomplete at character 1",
		"a.":                        "the expression is incomplete at character 3",
		"a b":                       `unexpected "b" at character 3`,
		"a ? 'x' : 'y'":             `unexpected '?' at character 3`,
		"a[":                        "the expression is incomplete at character 3",
		"a[1:2:3:4]":                `unexpected ":" at character 8`,
		"a[1 2]":                    `unexpected "2" at character 5`,
		"a['b']":                    `unexpected "'b'" at character 3`,
		"f(a b)":                    `unexpected "b" at character 5`,
		"f(a,)":                     `unexpected ")" at character 5`,
		`"f"(a)`:                    `unexpected "(" at character 4`,
		"a[0](b)":                   "there is no function to call at character 5",
		"'a":                        "there is no ' at the end at character 1",
		"`{`":                       "no JSON in backquotes: unexpected end of JSON input at character 1",
		"{a}":                       `unexpected "}" at character 3`,
		"a = b":                     `unexpected '=' at character 3`,
		"a + b":                     `unexpected '+' at character 3`,
		"é":                         `unexpected 'é' at character 1`,
		strings.Repeat("(", 200):    "more than 100 expressions in one another at character 101",
		strings.Repeat("a.", 200):   "more than 100 operators after one another at character 204",
		strings.Repeat("a", 10_001): "the expression is longer than 10000 bytes at character 1",
	} {
		if _, err := jmespath.Parse(text); err == nil || err.Error() != expected {
			t.Errorf("%.20s: %v, expected %s", text, err, expected)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"a[?b=='x'].c | [0]", "a.{x: `1`}", "f(&a)[1:]", "[*]", "*]", "a[*", "&", "!"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := jmespath.Parse(text)
		if err == nil {
			form(n)
		}
	})
}
