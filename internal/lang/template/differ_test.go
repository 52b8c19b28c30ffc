package template_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/lang/cue"
	"github.com/usher-dev/usher/internal/lang/template"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/ruletest"
)

// differ checks that the real evaluator comes to the same patch by what Render prints as
// the program of Compile does, or that both fail.
func differ(t testing.TB, tmpl *v1alpha1.OverrideRuleTemplate, in *rule.Input) {
	t.Helper()
	native, problems := template.Compile(tmpl)
	text, _ := template.Render(tmpl)
	if native == nil {
		if (len(rule.Errors(problems)) > 0) != (text == "") {
			t.Errorf("Compile and Render disagree: %v, %q", problems, text)
		}
		return
	}
	slow, problems := cue.Compile(t.Context(), text, cue.RenderedOverride, cue.Options{ExtraParams: template.Params(tmpl), DependsOn: template.ParamsDependOn(tmpl)})
	if slow == nil {
		t.Fatalf("the rendered program does not compile: %v\n%s", problems, text)
	}
	want, wantErr := slow.Run(context.Background(), in)
	got, err := ruletest.Run(t, native, in)
	if missing, ok := sameMissing(wantErr, err); ok {
		t.Fatalf("fact is not known: %v", missing)
	}
	if (wantErr != nil) != (err != nil) {
		t.Fatalf("natively: %v\nevaluated: %v\n%s\n%s", err, wantErr, text, printed(in.Object))
	}
	if err != nil {
		return
	}
	if diff := cmp.Diff(lines(want.Patch), lines(got.Patch)); diff != "" {
		t.Errorf("patch (-evaluated +natively):\n%s\n%s\n%s", diff, text, printed(in.Object))
	}
}

// sameMissing reports whether both errors ask for the same fact.
func sameMissing(a, b error) (*fact.Missing, bool) {
	var missingA, missingB *fact.Missing
	return missingA, errors.As(a, &missingA) && errors.As(b, &missingB) && missingA.Ref.Key() == missingB.Ref.Key()
}

func printed(v any) string {
	raw, _ := json.Marshal(v)
	return string(raw)
}

// TestEvaluatedCases does for every case what TestCases does, with the rendered program in
// the real evaluator.
func TestEvaluatedCases(t *testing.T) {
	t.Parallel()
	for name, c := range loadCases(t) {
		tmpl := c.template()
		if tmpl == nil {
			continue
		}
		text, problems := template.Render(tmpl)
		if len(rule.Errors(problems)) > 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program, problems := cue.Compile(t.Context(), text, cue.RenderedOverride, cue.Options{ExtraParams: template.Params(tmpl), DependsOn: template.ParamsDependOn(tmpl)})
			if program == nil {
				t.Fatalf("the rendered program does not compile: %v", problems)
			}
			patch, err := c.decide(t, program)
			c.check(t, patch, err)
		})
	}
}

// FuzzTemplate makes a template and objects of the input and compares Compile with Render
// run by the real evaluator.
func FuzzTemplate(f *testing.F) {
	for seed := range 40 {
		input := make([]byte, 200)
		for i := range input {
			input[i] = byte((seed*131 + i*(2*seed+7)*37) >> (i % 3))
		}
		f.Add(input)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		g := &generator{input: input}
		tmpl := g.template()
		for range 3 {
			in := &rule.Input{
				Request: &usher.Request{Operation: usher.Create},
				Object:  g.object(), Facts: &fact.Known{},
			}
			if g.pick(2) == 1 {
				in.Request.Operation = usher.Update
				in.OldObject = g.object()
			}
			g.resolve(template.Params(tmpl), in)
			differ(t, tmpl, in)
		}
	})
}
