package reference_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/internal/lang/reference"
	"github.com/usher-dev/usher/internal/rule"
)

func TestText(t *testing.T) {
	t.Parallel()
	in := &rule.Input{Object: object(), OldObject: map[string]any{"spec": map[string]any{"size": 1.5, "big": 1e21, "on": true}}}
	tests := []struct {
		text, want, expr, reason string
	}{
		{``, ``, `""`, "an empty text is one"},
		{`plain`, `plain`, `"plain"`, "most texts are plain"},
		{`say "no"`, `say "no"`, `"say \"no\""`, "quotes are quoted"},
		{`say \"no\"`, `say "no"`, `"say \"no\""`, "who knew of the missing quoting wrote the backslashes"},
		{`v"},{op:"add"`, `v"},{op:"add"`, `"v\"},{op:\"add\""`, "nothing can be injected"},
		{"two\nlines\ttab\x01", "two\nlines\ttab\x01", `"two\nlines\ttab\u0001"`, "the literal stays on one line"},
		{`a\nb \\ \/ \u00e9`, "a\nb \\ / é", `"a\nb \\ / é"`, "escapes of CUE are understood"},
		{`\d+ \( \`, `\d+ \( \`, `"\\d+ \\( \\"`, "a backslash that begins no escape is taken literally"},
		{`\ud800`, `\ud800`, `"\\ud800"`, "half a surrogate is no escape"},
		{`pod-\(object.metadata.name)`, `pod-cart`, `"pod-\(object.metadata.name)"`, "interpolation"},
		{`\(object.spec.containers[1].image)!`, `proxy:2!`, `"\(object.spec.containers[1].image)!"`, "interpolation of a list item"},
		{`\(object.metadata.labels["team.io"])`, `red`, `"\(object.metadata.labels["team.io"])"`, "quotes within an interpolation"},
		{`\( data.object.metadata.name ) is a \(kind)`, `cart is a Pod`, `"\(object.metadata.name) is a \(object.kind)"`, "other names of the object"},
		{`\(object.spec.replicas) \(oldObject.spec.size) \(oldObject.spec.on) \(data.oldObject.spec.big)`, `3 1.5 true 1E+21`,
			`"\(object.spec.replicas) \(oldObject.spec.size) \(oldObject.spec.on) \(oldObject.spec.big)"`, "numbers and booleans have the text that CUE gives them"},
	}
	for _, test := range tests {
		text := reference.ParseText(test.text)
		if text.Open() {
			t.Errorf("%s is open: %s", test.text, test.reason)
		}
		got, err := text.Value(in)
		if err != nil || got != test.want {
			t.Errorf("%s is %q, %v, want %q: %s", test.text, got, err, test.want, test.reason)
		}
		if got := text.Expr(); got != test.expr {
			t.Errorf("%s is %s in CUE, want %s: %s", test.text, got, test.expr, test.reason)
		}
	}
}

func TestTextFails(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text    string
		missing bool
		reason  string
	}{
		{`\(object.spec.nope)`, true, "the field is missing"},
		{`\(object.status.phase)`, true, "the parent is missing"},
		{`\(object.spec.affinity)`, false, "null is no text"},
		{`\(object.spec.containers)`, false, "a list is no text"},
		{`\(object.metadata)`, false, "an object is no text"},
		{`\(object.spec.affinity.x)`, false, "null has no fields"},
		{`\(object.spec.containers[5].image)`, false, "out of range"},
		{`\(oldObject.spec.x)`, false, "there is no old object"},
	}
	for _, test := range tests {
		text := reference.ParseText(test.text)
		got, err := text.Value(&rule.Input{Object: object()})
		if err == nil {
			t.Errorf("%s is %q, want an error: %s", test.text, got, test.reason)
		}
		if errors.Is(err, reference.ErrMissing) != test.missing {
			t.Errorf("%s: %v; missing should be %v: %s", test.text, err, test.missing, test.reason)
		}
	}
}

func TestOpenText(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text, expr string
		packages   []string
		reason     string
	}{
		{`\(strings.ToUpper(object.metadata.name))`, `"\(strings.ToUpper(object.metadata.name))"`, []string{"strings"}, "a call"},
		{`n=\(len(object.spec.containers) + 1)`, `"n=\(len(object.spec.containers) + 1)"`, nil, "arithmetic"},
		{`\(otherObject.data.zone)`, `"\(otherObject.data.zone)"`, nil, "what the reference is, only the program knows"},
		{`\(object)`, `"\(object)"`, nil, "not a text, but CUE's to say so"},
		{`\(strings.Join(["a)", "b"], ","))`, `"\(strings.Join(["a)", "b"], ","))"`, []string{"strings"}, "brackets in a string do not count"},
		{`\(mystrings.x + object.math.y)`, `"\(mystrings.x + object.math.y)"`, nil, "names that only end like a package"},
	}
	for _, test := range tests {
		text := reference.ParseText(test.text)
		if !text.Open() {
			t.Errorf("%s is not open: %s", test.text, test.reason)
		}
		if _, err := text.Value(&rule.Input{Object: object()}); !errors.Is(err, reference.ErrNeedsEvaluator) {
			t.Errorf("%s: %v, want ErrNeedsEvaluator: %s", test.text, err, test.reason)
		}
		if got := text.Expr(); got != test.expr {
			t.Errorf("%s is %s in CUE, want %s: %s", test.text, got, test.expr, test.reason)
		}
		if diff := cmp.Diff(test.packages, text.Packages()); diff != "" {
			t.Errorf("packages of %s (-want +got): %s\n%s", test.text, test.reason, diff)
		}
	}
}

// TestCraftedInterpolation: what looks like an interpolation but would leave the string is
// a literal.
func TestCraftedInterpolation(t *testing.T) {
	t.Parallel()
	tests := []struct{ text, reason string }{
		{`\(a"`, "it does not end"},
		{`\(a]`, "the wrong bracket"},
		{"\\(a\n)", "a line end is not allowed in it"},
		{`\(a // b)`, "a comment would hide the end"},
		{`\("""a)`, "a multi-line string has other rules"},
		{`\(#"a"#)`, "a raw string has other rules"},
		{`\()`, "it is empty"},
	}
	for _, test := range tests {
		text := reference.ParseText(test.text)
		if got, ok := text.Literal(); !ok || got != test.text {
			t.Errorf("%q is %q, %v, want it unchanged: %s", test.text, got, ok, test.reason)
		}
	}
}

func BenchmarkTextValue(b *testing.B) {
	text := reference.ParseText(`pod \(object.metadata.name) refused`)
	in := &rule.Input{Object: object()}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := text.Value(in); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzParseText finds texts that panic, and literals that CUE would not read as they are.
func FuzzParseText(f *testing.F) {
	for _, seed := range []string{`a"b`, `\(object.metadata.name)`, `\u12`, `\(f("\(x)"))`, "\xff", `\\(x)`} {
		f.Add(seed)
	}
	in := &rule.Input{Object: object()}
	f.Fuzz(func(t *testing.T, s string) {
		text := reference.ParseText(s)
		value, err := text.Value(in)
		if text.Open() || err != nil {
			return
		}
		again := reference.ParseText(unquote(reference.Quote(value)))
		literal, ok := again.Literal()
		if want := string([]rune(value)); !ok || literal != want {
			t.Errorf("Quote(%q) = %s, which reads as %q", value, reference.Quote(value), literal)
		}
	})
}

func unquote(literal string) string { return literal[1 : len(literal)-1] }
