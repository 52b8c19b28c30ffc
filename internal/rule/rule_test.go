package rule_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

type program string

func (p program) String() string { return string(p) }

func (program) Run(context.Context, *rule.Input) (rule.Outcome, error) { return rule.Outcome{}, nil }

func TestRuleString(t *testing.T) {
	t.Parallel()
	team := usher.PolicyRef{Kind: "ClusterOverridePolicy", Name: "add-team"}
	tests := []struct {
		reason string
		rule   rule.Rule
		want   string
	}{
		{
			"a rule for everything",
			rule.Rule{Policy: team, Name: "spec.overrideRules[0]", Phase: usher.Mutate},
			"mutate/0 ClusterOverridePolicy add-team spec.overrideRules[0] on every operation of every object: ",
		},
		{
			"steps, and a pass of several digits",
			rule.Rule{
				Policy: team, Name: "spec.overrideRules[1]", Phase: usher.Mutate, Pass: 12,
				Match: rule.Match{Operations: []usher.Operation{usher.Create, usher.Update}, Selectors: []rule.Selector{{APIVersion: "v1", Kind: "Pod"}}},
				Steps: []rule.Step{{Name: "template", Program: program("labels add team")}, {Name: "plaintext", Program: program("1 op")}},
			},
			"mutate/12 ClusterOverridePolicy add-team spec.overrideRules[1] on CREATE, UPDATE of v1 Pod: template(labels add team), plaintext(1 op)",
		},
		{
			"a pass before the first",
			rule.Rule{Policy: team, Name: "n", Phase: usher.Validate, Pass: -1},
			"validate/-1 ClusterOverridePolicy add-team n on every operation of every object: ",
		},
		{
			"a namespaced policy with several selectors",
			rule.Rule{
				Policy: usher.PolicyRef{Kind: "OverridePolicy", Namespace: "shop", Name: "x"}, Name: "n", Phase: usher.Mutate, Pass: 2,
				Match: rule.Match{Namespace: "shop", Selectors: []rule.Selector{
					{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "cart"},
					{APIVersion: "v1", Kind: "Secret", Name: "key"},
					{APIVersion: "v1", Kind: "Pod", Namespace: "shop"},
				}},
			},
			"mutate/2 OverridePolicy shop/x n on every operation of v1 Pod shop/cart or v1 Secret key or v1 Pod shop/* in namespace shop: ",
		},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, tt.rule.String()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// slow is a program that is slow for a reason.
type slow string

func (s slow) String() string { return "slow" }

func (s slow) SlowPath() string { return string(s) }

func (slow) Run(context.Context, *rule.Input) (rule.Outcome, error) { return rule.Outcome{}, nil }

func TestSlow(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason string
		steps  []rule.Step
		want   map[string]string
	}{
		{"no steps", nil, nil},
		{"programs that are never slow", []rule.Step{{Name: "plaintext", Program: program("1 op")}}, nil},
		{"programs that could be and are not", []rule.Step{{Name: "cue", Program: slow("")}}, nil},
		{"one of several", []rule.Step{{Name: "plaintext", Program: program("1 op")}, {Name: "cue", Program: slow("it has a definition")}},
			map[string]string{"cue": "it has a definition"}},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			r := rule.Rule{Steps: test.steps}
			if diff := cmp.Diff(test.want, r.SlowPath()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestSelectorString(t *testing.T) {
	t.Parallel()
	tests := []struct {
		reason   string
		selector rule.Selector
		want     string
	}{
		{
			"fields and labels",
			selectorFor(func(s *rule.Selector) {
				s.Fields = rule.Fields{
					field("spec.node", rule.In, "a", "b"), field("spec.tier", rule.NotIn, "c"),
					field("spec.x", rule.Exists), field("spec.y", rule.DoesNotExist), field("spec.z", "Like"),
				}
				s.Labels = labels.Set{"app": "cart"}.AsSelector()
			}),
			"v1 Pod where spec.node in (a, b), spec.tier notin (c), spec.x, !spec.y, spec.z Like labelled app=cart",
		},
		{"empty selectors ask for nothing", selectorFor(func(s *rule.Selector) { s.Fields, s.Labels = rule.Fields{}, labels.Everything() }), "v1 Pod"},
		{"not understood", selectorFor(func(s *rule.Selector) { s.Never = "unknown operator" }), "v1 Pod never (unknown operator)"},
		{"a name makes the rest irrelevant", selectorFor(func(s *rule.Selector) { s.Name, s.Never, s.Labels = "cart", "x", labels.Nothing() }), "v1 Pod cart"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, tt.selector.String()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestProblemString(t *testing.T) {
	t.Parallel()
	full := rule.Problem{
		Policy:   usher.PolicyRef{Kind: "ClusterOverridePolicy", Name: "x"},
		Severity: rule.Error,
		Field:    "spec.overrideRules[0].overriders.cue",
		What:     "patches is missing",
		Do:       "add it",
		File:     "a.yaml",
		Line:     12,
	}
	without := func(change func(*rule.Problem)) rule.Problem {
		p := full
		change(&p)
		return p
	}
	tests := []struct {
		reason  string
		problem rule.Problem
		want    string
	}{
		{"all there is", full, "a.yaml:12: error: ClusterOverridePolicy x: spec.overrideRules[0].overriders.cue: patches is missing; add it"},
		{"no line", without(func(p *rule.Problem) { p.Line = 0 }), "a.yaml: error: ClusterOverridePolicy x: spec.overrideRules[0].overriders.cue: patches is missing; add it"},
		{"no file", without(func(p *rule.Problem) { p.File = "" }), "error: ClusterOverridePolicy x: spec.overrideRules[0].overriders.cue: patches is missing; add it"},
		{"no field", without(func(p *rule.Problem) { p.File, p.Field = "", "" }), "error: ClusterOverridePolicy x: patches is missing; add it"},
		{"nothing to do", without(func(p *rule.Problem) { p.File, p.Field, p.Do, p.Severity = "", "", "", rule.Warning }), "warning: ClusterOverridePolicy x: patches is missing"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, tt.problem.String()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestSortProblems(t *testing.T) {
	t.Parallel()
	policy := func(name string) usher.PolicyRef { return usher.PolicyRef{Kind: "P", Name: name} }
	want := []rule.Problem{
		{Policy: policy("z"), What: "no file"},
		{File: "a.yaml", Line: 2, Policy: policy("b"), What: "b"},
		{File: "a.yaml", Line: 10, Policy: policy("a"), What: "a"},
		{File: "b.yaml", Policy: policy("a"), Field: "spec.a", What: "x"},
		{File: "b.yaml", Policy: policy("a"), Field: "spec.a", What: "y", Severity: rule.Error},
		{File: "b.yaml", Policy: policy("a"), Field: "spec.b", What: "a"},
		{File: "b.yaml", Policy: policy("b"), Field: "spec.a", What: "a"},
	}
	got := []rule.Problem{want[4], want[6], want[1], want[0], want[5], want[2], want[3]}
	rule.SortProblems(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(want[4:5], rule.Errors(want)); diff != "" {
		t.Errorf("Errors: -want +got:\n%s", diff)
	}
}
