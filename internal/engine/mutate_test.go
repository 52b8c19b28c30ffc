package engine_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/rule"
)

func TestMutate(t *testing.T) {
	t.Parallel()
	noLabels := add("/metadata/labels", map[string]any{})
	badAdd := patch(add("/metadata/labels/a/b", "x"))
	tests := []struct {
		reason    string
		operation usher.Operation
		options   engine.Options
		rules     []rule.Rule
		want      usher.Decision
		findings  []string
	}{
		{
			reason:   "the patches of rules are joined in evaluation order, each rule on the result of the former",
			rules:    []rule.Rule{one("a", label("x", "1")), one("b", label("y", "2"))},
			want:     usher.Decision{Verdict: usher.Allow, Patch: usher.Patch{noLabels, add("/metadata/labels/x", "1"), add("/metadata/labels/y", "2")}, Audit: changedBy("P a spec.rules[0]; P b spec.rules[0]")},
			findings: []string{"a changed", "b changed"},
		},
		{
			reason: "a step sees what the step before has done",
			rules:  []rule.Rule{one("a", label("x", "1"), label("y", "1"), patch(usher.PatchOp{Op: "replace", Path: "/metadata/labels/x", Value: "2"}))},
			want: usher.Decision{Verdict: usher.Allow, Patch: usher.Patch{
				noLabels, add("/metadata/labels/x", "1"), add("/metadata/labels/y", "1"), {Op: "replace", Path: "/metadata/labels/x", Value: "2"},
			}, Audit: changedBy("P a spec.rules[0]")},
			findings: []string{"a changed"},
		},
		{
			reason: "rules of one pass are matched before any of them runs, those of the next pass afterwards",
			rules: []rule.Rule{
				one("set", label("tier", "gold")),
				onLabel("tier", "gold", one("same-pass", label("no", "1"))),
				inPass(1, onLabel("tier", "gold", one("next-pass", label("yes", "1")))),
			},
			want: usher.Decision{Verdict: usher.Allow, Patch: usher.Patch{
				noLabels, add("/metadata/labels/tier", "gold"), add("/metadata/labels/yes", "1"),
			}, Audit: changedBy("P set spec.rules[0]; P next-pass spec.rules[0]")},
			findings: []string{"set changed", "next-pass changed"},
		},
		{
			reason: "passes run in ascending order, wherever their rules were emitted",
			rules:  []rule.Rule{inPass(11, one("b", label("x", "2"))), inPass(-2, one("a", label("x", "1")))},
			want: usher.Decision{Verdict: usher.Allow, Patch: usher.Patch{
				noLabels, add("/metadata/labels/x", "1"), add("/metadata/labels/x", "2"),
			}, Audit: changedBy("P a spec.rules[0]; P b spec.rules[0]")},
			findings: []string{"a changed", "b changed"},
		},
		{
			reason:   "what changes nothing is no change",
			rules:    []rule.Rule{one("a", patch(add("/kind", "Pod"), usher.PatchOp{Op: "test", Path: "/kind", Value: "Pod"})), one("b", pass()), one("c")},
			want:     usher.Decision{Verdict: usher.Allow},
			findings: []string{"a passed", "b passed", "c passed"},
		},
		{
			reason:   "a failed rule ends it all and leaves no patch",
			rules:    []rule.Rule{one("a", label("x", "1")), one("b", fail(errBroken)), one("c", label("y", "1"))},
			want:     usher.Decision{Verdict: usher.Deny, Code: 500, Message: "fake: broken (P b spec.rules[0])", Audit: map[string]string{"changed-by": "P a spec.rules[0]", "denied-by": "P b spec.rules[0]", "failed-by": "P b spec.rules[0]"}},
			findings: []string{"a changed", "b failed fake: broken"},
		},
		{
			reason:   "a patch that does not apply fails the rule",
			rules:    []rule.Rule{one("b", badAdd)},
			want:     usher.Decision{Verdict: usher.Deny, Code: 500, Message: `fake: add operation does not apply: doc is missing path: "/metadata/labels/a/b": missing value (P b spec.rules[0])`, Audit: map[string]string{"denied-by": "P b spec.rules[0]", "failed-by": "P b spec.rules[0]"}},
			findings: []string{`b failed fake: add operation does not apply: doc is missing path: "/metadata/labels/a/b": missing value`},
		},
		{
			reason:   "an ignored failure drops all that its rule did, and the run goes on",
			options:  engine.Options{FailurePolicy: usher.Ignore},
			rules:    []rule.Rule{one("a", warn("from a"), label("x", "1"), badAdd), one("b", label("y", "1"))},
			want:     usher.Decision{Verdict: usher.Allow, Patch: usher.Patch{noLabels, add("/metadata/labels/y", "1")}, Audit: map[string]string{"changed-by": "P b spec.rules[0]", "failed-by": "P a spec.rules[0]"}},
			findings: []string{`a failed ignored fake: add operation does not apply: doc is missing path: "/metadata/labels/a/b": missing value`, "b changed"},
		},
		{
			reason:   "a rejection ends it all, without code, and drops what its rule did",
			rules:    []rule.Rule{one("a", label("x", "1")), one("b", label("y", "1"), deny("no")), one("c", label("z", "1"))},
			want:     usher.Decision{Verdict: usher.Deny, Message: "no", Audit: map[string]string{"changed-by": "P a spec.rules[0]", "denied-by": "P b spec.rules[0]"}},
			findings: []string{"a changed", "b rejected no"},
		},
		{
			reason:    "a deletion gets no patch and no failure blocks it",
			operation: usher.Delete,
			rules:     []rule.Rule{one("a", label("x", "1")), one("b", badAdd), one("c", patch(usher.PatchOp{Op: "test", Path: "/metadata/labels/x", Value: "1"}))},
			want:      usher.Decision{Verdict: usher.Allow, Audit: map[string]string{"failed-by": "P b spec.rules[0]"}},
			findings:  []string{"a passed", `b failed ignored fake: add operation does not apply: doc is missing path: "/metadata/labels/a/b": missing value`, "c passed"},
		},
		{
			reason:   "warnings come in order, each once",
			rules:    []rule.Rule{one("a", warn("two", "one")), one("b", warn("one", "three"))},
			want:     usher.Decision{Verdict: usher.Allow, Warnings: []string{"two", "one", "three"}},
			findings: []string{"a passed", "b passed"},
		},
		{
			reason:   "a built-in rule is heard of when it changes something",
			rules:    []rule.Rule{builtIn(one("", pass())), builtIn(one("", label("x", "1")))},
			want:     usher.Decision{Verdict: usher.Allow, Patch: usher.Patch{noLabels, add("/metadata/labels/x", "1")}, Audit: changedBy("built-in")},
			findings: []string{" changed"},
		},
		{
			reason:   "a built-in rule is heard of when it fails",
			rules:    []rule.Rule{builtIn(one("", fail(errBroken)))},
			want:     usher.Decision{Verdict: usher.Deny, Code: 500, Message: "fake: broken (built-in)", Audit: map[string]string{"denied-by": "built-in", "failed-by": "built-in"}},
			findings: []string{" failed fake: broken"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			if tt.operation == "" {
				tt.operation = usher.Create
			}
			r := request(usher.Mutate, tt.operation)
			got := decide(t, newEngine(usher.Mutate, tt.options, nil, tt.rules...), r)
			equalDecision(t, tt.want, got)
			equalFindings(t, tt.findings, got.Findings)
			if diff := cmp.Diff(podTree(), tree(t, r.Target())); diff != "" {
				t.Errorf("the object of the request was changed: -want +got:\n%s", diff)
			}
		})
	}
}

func TestFindingsCarryTheirPatch(t *testing.T) {
	t.Parallel()
	e := newEngine(usher.Mutate, engine.Options{}, nil, one("a", label("x", "1")), one("b", label("y", "2")))
	got := decide(t, e, request(usher.Mutate, usher.Create))
	want := []usher.Patch{
		{add("/metadata/labels", map[string]any{}), add("/metadata/labels/x", "1")},
		{add("/metadata/labels/y", "2")},
	}
	for i, f := range got.Findings {
		if diff := cmp.Diff(want[i], f.Patch); diff != "" {
			t.Errorf("finding %d: -want +got:\n%s", i, diff)
		}
	}
}

func changedBy(value string) map[string]string { return map[string]string{"changed-by": value} }

func tree(t *testing.T, o *usher.Object) map[string]any {
	t.Helper()
	tree, err := o.Tree()
	if err != nil {
		t.Fatalf("Tree: %v", err)
	}
	return tree
}
