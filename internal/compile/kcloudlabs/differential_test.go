package kcloudlabs_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/jsonpatch"
	"github.com/usher-dev/usher/internal/lang/condition"
	"github.com/usher-dev/usher/internal/lang/cue"
	"github.com/usher-dev/usher/internal/lang/template"
	"github.com/usher-dev/usher/internal/rule"
)

// A pair is a template as closures and as the CUE program that it renders to.
type pair struct {
	closures rule.Program
	rendered rule.Program
}

// TestClosuresDoWhatTheRenderedProgramDoes runs both forms of every template of the cases
// on the object of its case and on variants of it.
func TestClosuresDoWhatTheRenderedProgramDoes(t *testing.T) {
	t.Parallel()
	pairs := 0
	for _, c := range loadCases(t) {
		for _, policy := range c.written(t) {
			for i, p := range templates(t, policy) {
				pairs++
				t.Run(fmt.Sprintf("%s/%s/%d", c.Name, policy.Object.GetName(), i), func(t *testing.T) {
					t.Parallel()
					compare(t, &c, p)
				})
			}
		}
	}
	if pairs < 100 {
		t.Errorf("only %d templates compared", pairs)
	}
}

// templates returns the templates of a policy that compile.
func templates(t *testing.T, policy api.Policy) []pair {
	t.Helper()
	var pairs []pair
	add := func(closures rule.Program, problems []rule.Problem, source string, found []rule.Problem, form cue.Form, o cue.Options,
		answers func(rule.Program) rule.Program,
	) {
		t.Helper()
		if closures == nil || len(rule.Errors(problems)) > 0 || len(rule.Errors(found)) > 0 {
			if len(rule.Errors(problems)) == 0 != (len(rule.Errors(found)) == 0) {
				t.Errorf("%s: compiling says %v, rendering says %v", policy.Object.GetName(), problems, found)
			}
			return
		}
		rendered, wrong := cue.Compile(t.Context(), source, form, o)
		if len(rule.Errors(wrong)) > 0 {
			t.Errorf("%s: rendered program %v:\n%s", policy.Object.GetName(), wrong, source)
			return
		}
		pairs = append(pairs, pair{closures: closures, rendered: answers(rendered)})
	}
	overrides := func(rules []v1alpha1.OverrideRule) {
		for i := range rules {
			if tpl := rules[i].Overriders.Template; tpl != nil {
				closures, problems := template.Compile(tpl)
				source, found := template.Render(tpl)
				add(closures, problems, source, found, cue.RenderedOverride, cue.Options{ExtraParams: template.Params(tpl)},
					func(p rule.Program) rule.Program { return p })
			}
		}
	}
	switch object := policy.Object.(type) {
	case *v1alpha1.OverridePolicy:
		overrides(object.Spec.OverrideRules)
	case *v1alpha1.ClusterOverridePolicy:
		overrides(object.Spec.OverrideRules)
	case *v1alpha1.ClusterValidatePolicy:
		for i := range object.Spec.ValidateRules {
			if tpl := object.Spec.ValidateRules[i].Template; tpl != nil {
				closures, problems := condition.Compile(tpl)
				source, found := condition.Render(tpl)
				add(closures, problems, source, found, cue.RenderedValidate, cue.Options{ExtraParams: condition.Params(tpl)},
					func(p rule.Program) rule.Program { return condition.Evaluated(tpl, p) })
			}
		}
	}
	return pairs
}

func compare(t *testing.T, c *testCase, p pair) {
	t.Helper()
	object, old := c.Request.Object, c.Request.OldObject
	if c.Request.Operation == usher.Delete {
		object, old = old, nil
	}
	for _, changed := range variants(object) {
		compareOn(t, c, p, changed, old)
	}
	if old == nil {
		return
	}
	for _, changed := range variants(old) {
		compareOn(t, c, p, object, changed)
	}
}

func compareOn(t *testing.T, c *testCase, p pair, object, old map[string]any) {
	t.Helper()
	want := run(t, c, p.rendered, object, old)
	got := run(t, c, p.closures, object, old)
	if want.err != "" && got.err != "" {
		return
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(result{})); diff != "" {
		t.Fatalf("the closures differ from the rendered program (-rendered +closures):\n%s\non %v\nold %v", diff, object, old)
	}
}

// A result is what a request makes of a program.
type result struct {
	verdict usher.Verdict
	message string
	object  map[string]any
	err     string
}

// run runs a program until it has all the facts that it needs, and applies its patch.
func run(t *testing.T, c *testCase, p rule.Program, object, old map[string]any) result {
	t.Helper()
	in := &rule.Input{
		Request: &usher.Request{
			Phase: c.Phase, Operation: c.Request.Operation, Namespace: c.Request.Namespace,
			Object: usher.TreeObject(object), OldObject: usher.TreeObject(old),
		},
		Object: object, OldObject: old, Facts: &fact.Known{},
	}
	for range 8 {
		outcome, err := p.Run(context.Background(), in)
		if missing := (*fact.Missing)(nil); errors.As(err, &missing) {
			value, err := c.resolve(missing.Ref)
			in.Facts.Set(missing.Ref, value, err)
			continue
		}
		if err != nil {
			return result{err: err.Error()}
		}
		patched, _, err := jsonpatch.Apply(object, outcome.Patch)
		if err != nil {
			return result{err: err.Error()}
		}
		return result{verdict: outcome.Verdict, message: outcome.Message, object: patched}
	}
	t.Fatalf("%s still asks for facts", p)
	return result{}
}
