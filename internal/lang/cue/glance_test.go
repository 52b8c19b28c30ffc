package cue_test

import (
	"context"
	"strings"
	"testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/lang/cue"
	"github.com/usher-dev/usher/internal/rule"
)

// TestGlance: what is known at a glance is that an object is valid, and it takes the same time for every object.
func TestGlance(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	object := pod()
	object["long"] = long
	object["same"] = strings.Clone(long)
	object["list"] = make([]any, 1<<16)
	for _, row := range []struct {
		reason, source string
		known          bool
	}{
		{"a constant", `validate: {valid: object.spec.restartPolicy != "Never", reason: "no"}`, true},
		{"fields under conditions", `validate: {if object.metadata.labels.guard == "on" {valid: false, reason: "guarded"}}`, true},
		{"presence, and a size", `validate: {valid: object.spec != _|_ && len(object.list) > 0}`, true},
		{"a loop over few values", `bad: [for c in object.spec.containers if c.image == "x" {c.name}]` + "\nvalidate: valid: len(bad) == 0", true},
		{"a short text", `validate: {valid: true, reason: "pod \(object.metadata.name)"}`, true},
		{"it denies", `validate: {valid: object.spec.restartPolicy != "Always", reason: "no"}`, false},
		{"it warns", `validate: {valid: true, warnings: ["w"]}`, false},
		{"only the evaluator knows", `validate: {valid: object.nothing.at.all == 1}`, false},
		{"a long loop", `all: [for v in object.list {v}]` + "\nvalidate: valid: true", false},
		{"a long text", `validate: {valid: true, reason: "\(object.long)"}`, false},
		{"two long texts", `validate: {valid: object.long == object.same}`, false},
		{"two long texts that have to be the same", `validate: {valid: true, if true {reason: object.long}, if true {reason: object.same}}`, false},
		{"a long text added to another", `x: object.long + "x"` + "\nvalidate: valid: true", false},
		{"a regular expression", `validate: {valid: object.metadata.name =~ "^a"}`, false},
		{"a function", `import "strings"` + "\n" + `validate: {valid: strings.HasPrefix(object.metadata.name, "a")}`, false},
		{"a long key", `validate: {valid: object.metadata.labels[object.long] == _|_}`, false},
		{"many expressions", `validate: {valid: true` + strings.Repeat(` && object.metadata.name != "x"`, 100) + `}`, false},
		{"a long constant", `validate: {valid: object.long != "` + strings.Repeat("x", 300) + `"}`, false},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			source := row.source
			if !strings.HasPrefix(source, "import") {
				source = "object: _ @tag(object)\n" + source
			} else {
				source = strings.Replace(source, "\n", "\nobject: _ @tag(object)\n", 1)
			}
			p, problems := cue.Compile(t.Context(), source, cue.Validate, cue.Options{})
			if p == nil {
				t.Fatal(problems)
			}
			in := &rule.Input{Request: &usher.Request{Operation: usher.Create}, Object: object}
			out, known := p.Glance(t.Context(), in)
			if known != row.known || !out.Silent() {
				t.Errorf("known %t: %v (%v)", known, out, problems)
			}
			if !known {
				return
			}
			if ran, err := p.Run(t.Context(), in); err != nil || !ran.Silent() {
				t.Errorf("and yet it says %v, %v", ran, err)
			}
		})
	}
}

// TestOverridesAreNotGlanced: they change objects.
func TestOverridesAreNotGlanced(t *testing.T) {
	t.Parallel()
	p, problems := cue.Compile(t.Context(), "object: _ @tag(object)\npatches: []", cue.Override, cue.Options{})
	if p == nil {
		t.Fatal(problems)
	}
	if _, known := p.Glance(context.Background(), &rule.Input{Object: pod()}); known {
		t.Error("it is known")
	}
}
