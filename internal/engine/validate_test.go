package engine_test

import (
	"testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/rule"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	const first, second = "spec.rules[0]", "spec.rules[1]"
	tests := []struct {
		reason   string
		options  engine.Options
		rules    []rule.Rule
		want     usher.Decision
		findings []string
	}{
		{
			reason:   "nothing is said against it",
			rules:    []rule.Rule{one("a", pass()), one("b", say(rule.Outcome{Verdict: usher.Allow}))},
			want:     usher.Decision{Verdict: usher.Allow},
			findings: []string{"a passed", "b passed"},
		},
		{
			reason:   "the first rejection of a policy is its last word",
			rules:    []rule.Rule{at(first, one("a", deny("one"))), at(second, one("a", deny("two")))},
			want:     usher.Decision{Verdict: usher.Deny, Message: "one", Audit: deniedBy("P a spec.rules[0]")},
			findings: []string{"a rejected one"},
		},
		{
			reason:   "the first step that rejects ends its rule",
			rules:    []rule.Rule{one("a", warn("w"), deny("one"), deny("two"))},
			want:     usher.Decision{Verdict: usher.Deny, Message: "one", Warnings: []string{"w"}, Audit: deniedBy("P a spec.rules[0]")},
			findings: []string{"a rejected one"},
		},
		{
			reason:   "other policies go on, and the user gets all reasons in order",
			rules:    []rule.Rule{one("a", deny("one")), one("b", pass()), one("c", deny("")), one("d", deny("three"))},
			want:     usher.Decision{Verdict: usher.Deny, Message: "one; three", Audit: deniedBy("P a spec.rules[0]; P c spec.rules[0]; P d spec.rules[0]")},
			findings: []string{"a rejected one", "b passed", "c rejected", "d rejected three"},
		},
		{
			reason:   "a rejection without a reason stays one",
			rules:    []rule.Rule{one("a", deny(""))},
			want:     usher.Decision{Verdict: usher.Deny, Audit: deniedBy("P a spec.rules[0]")},
			findings: []string{"a rejected"},
		},
		{
			reason: "policies of one name in two namespaces are two",
			rules: []rule.Rule{
				{Policy: usher.PolicyRef{Kind: "P", Namespace: "x", Name: "a"}, Name: first, Steps: one("", deny("one")).Steps},
				{Policy: usher.PolicyRef{Kind: "P", Namespace: "y", Name: "a"}, Name: first, Steps: one("", deny("two")).Steps},
			},
			want:     usher.Decision{Verdict: usher.Deny, Message: "one; two", Audit: deniedBy("P x/a spec.rules[0]; P y/a spec.rules[0]")},
			findings: []string{"a rejected one", "a rejected two"},
		},
		{
			reason: "a failure denies too, ends its policy and gives the code if it comes first",
			rules:  []rule.Rule{at(first, one("a", fail(errBroken))), at(second, one("a", deny("unheard"))), one("b", deny("no"))},
			want: usher.Decision{Verdict: usher.Deny, Code: 500, Message: "fake: broken (P a spec.rules[0]); no",
				Audit: map[string]string{"denied-by": "P a spec.rules[0]; P b spec.rules[0]", "failed-by": "P a spec.rules[0]"}},
			findings: []string{"a failed fake: broken", "b rejected no"},
		},
		{
			reason: "a rejection before the failure gives the code",
			rules:  []rule.Rule{one("a", deny("no")), one("b", fail(errBroken))},
			want: usher.Decision{Verdict: usher.Deny, Message: "no; fake: broken (P b spec.rules[0])",
				Audit: map[string]string{"denied-by": "P a spec.rules[0]; P b spec.rules[0]", "failed-by": "P b spec.rules[0]"}},
			findings: []string{"a rejected no", "b failed fake: broken"},
		},
		{
			reason:   "after an ignored failure even its own policy goes on",
			options:  engine.Options{FailurePolicy: usher.Ignore},
			rules:    []rule.Rule{at(first, one("a", fail(errBroken))), at(second, one("a", pass())), one("b", pass())},
			want:     usher.Decision{Verdict: usher.Allow, Audit: map[string]string{"failed-by": "P a spec.rules[0]"}},
			findings: []string{"a failed ignored fake: broken", "a passed", "b passed"},
		},
		{
			reason:   "what is validated is final: patches have no effect",
			rules:    []rule.Rule{one("a", label("x", "1"), label("y", "1"), patch(add("/no/such/parent", "1")))},
			want:     usher.Decision{Verdict: usher.Allow},
			findings: []string{"a passed"},
		},
		{
			reason:   "built-in rules are not one policy",
			rules:    []rule.Rule{builtIn(one("", deny("one"))), builtIn(one("", pass())), builtIn(one("", deny("two")))},
			want:     usher.Decision{Verdict: usher.Deny, Message: "one; two", Audit: deniedBy("built-in; built-in")},
			findings: []string{" rejected one", " rejected two"},
		},
		{
			reason:   "warnings also come with a denial",
			rules:    []rule.Rule{one("a", say(rule.Outcome{Verdict: usher.Deny, Message: "no", Warnings: []string{"w"}})), one("b", warn("w", "v"))},
			want:     usher.Decision{Verdict: usher.Deny, Message: "no", Warnings: []string{"w", "v"}, Audit: deniedBy("P a spec.rules[0]")},
			findings: []string{"a rejected no", "b passed"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			got := decide(t, newEngine(usher.Validate, tt.options, nil, tt.rules...), request(usher.Validate, usher.Create))
			equalDecision(t, tt.want, got)
			equalFindings(t, tt.findings, got.Findings)
		})
	}
}

func TestAFailureBlocksDeletionWhenValidating(t *testing.T) {
	t.Parallel()
	e := newEngine(usher.Validate, engine.Options{}, nil, one("a", fail(errBroken)))
	if got := decide(t, e, request(usher.Validate, usher.Delete)); got.Verdict != usher.Deny || got.Code != 500 {
		t.Errorf("got %+v", got)
	}
}

func deniedBy(value string) map[string]string { return map[string]string{"denied-by": value} }
