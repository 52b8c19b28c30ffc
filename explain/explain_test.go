package explain_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/explain"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/policytest"
	"github.com/usher-dev/usher/rule"
)

// TestEveryCaseIsExplained explains the whole corpus: what is told has to be what was
// decided, and nothing that was decided may be missing.
func TestEveryCaseIsExplained(t *testing.T) {
	t.Parallel()
	cases, err := policytest.Load("../policytest/testdata/kinitiras", "../policytest/testdata/semantics", "../examples/cases")
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) < 600 {
		t.Errorf("only %d cases", len(cases))
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			if c.Skip != "" {
				t.Skip(c.Skip)
			}
			setup, err := c.Setup(t.Context())
			if err != nil {
				t.Skip("the case cannot be set up: ", err)
			}
			defer setup.Close()
			check(t, c, setup)
		})
	}
}

func check(t *testing.T, c *policytest.Case, setup *policytest.Setup) {
	t.Helper()
	r, err := c.Request.For(c.Phase)
	if err != nil {
		t.Fatal(err)
	}
	d, err := setup.Decider.Decide(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	e, err := explain.Of(t.Context(), setup.Rules, r, d, explain.Options{Facts: setup.Facts})
	if err != nil {
		t.Fatal(err)
	}
	if e.Verdict != d.Verdict || e.Message != d.Message || e.Code != d.Code {
		t.Errorf("told %s %d %q, decided %s %d %q", e.Verdict, e.Code, e.Message, d.Verdict, d.Code, d.Message)
	}
	told := map[string]usher.Outcome{}
	for _, told1 := range e.Rules {
		if told1.Clause == "" {
			t.Errorf("%s %s: no clause", told1.Policy, told1.Name)
		}
		if told1.Matched && told1.Outcome == "" && told1.Unrun == "" {
			t.Errorf("%s %s: neither an outcome nor why there is none", told1.Policy, told1.Name)
		}
		told[told1.Policy.String()+" "+told1.Name] = told1.Outcome
	}
	for _, f := range d.Findings {
		if f.Policy == (usher.PolicyRef{}) || f.Policy.Kind == "" {
			continue
		}
		got, ok := told[f.Policy.String()+" "+f.Rule]
		if isPolicy := r.Kind.Group == "policy.kcloudlabs.io"; !isPolicy && (!ok || got != f.Outcome) {
			t.Errorf("%s %s: told %q, found %q", f.Policy, f.Rule, got, f.Outcome)
		}
	}
}

func TestOfTellsMatchesMissesAndReadings(t *testing.T) {
	t.Parallel()
	ref := fact.Ref{Object: &fact.Object{APIVersion: "v1", Kind: "ConfigMap", Name: "limits"}}
	rules := []rule.Rule{
		{Policy: named("reads"), Name: "one", Phase: usher.Validate, Steps: []rule.Step{{Name: "condition", Program: reader{ref}}}},
		{Policy: named("other"), Name: "one", Phase: usher.Validate, Match: rule.Match{Operations: []usher.Operation{usher.Delete}}},
		{Policy: named("mutates"), Name: "one", Phase: usher.Mutate},
	}
	facts := fact.ResolverFunc(func(context.Context, fact.Ref) (any, error) { return "seven", nil })
	r := &usher.Request{Phase: usher.Validate, Operation: usher.Create, Object: usher.TreeObject(map[string]any{"apiVersion": "v1", "kind": "Pod"})}
	d := usher.Decision{Verdict: usher.Deny, Findings: []usher.Finding{{Policy: named("reads"), Rule: "one", Outcome: usher.Rejected, Message: "no"}}}

	got, err := explain.Of(t.Context(), rules, r, d, explain.Options{Facts: facts})
	if err != nil {
		t.Fatal(err)
	}
	want := []explain.Rule{
		{
			Policy: named("reads"), Name: "one", Matched: true, Clause: "every operation of every object", Outcome: usher.Rejected, Message: "no",
			Steps: []explain.Step{{Name: "condition", Program: "reads", Reading: &rule.Reading{
				Condition: "limits", Holds: true, Values: []rule.Value{{Name: "limits", Value: "seven"}},
			}}},
		},
		{Policy: named("other"), Name: "one", Clause: "operation CREATE is not DELETE"},
	}
	if diff := cmp.Diff(want, got.Rules, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}

	// Without facts it says what it lacks.
	got, err = explain.Of(t.Context(), rules, r, d, explain.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if said := got.Rules[0].Steps[0].Error; said != (&fact.Missing{Ref: ref}).Error() {
		t.Errorf("without facts it says %q", said)
	}
}

func TestMeasureRunsTheRule(t *testing.T) {
	t.Parallel()
	runs := 0
	rules := []rule.Rule{{Policy: named("a"), Name: "one", Phase: usher.Validate, Steps: []rule.Step{{Name: "go", Program: counter{&runs}}}}}
	r := &usher.Request{Phase: usher.Validate, Operation: usher.Create, Object: usher.TreeObject(map[string]any{"apiVersion": "v1", "kind": "Pod"})}
	got, err := explain.Of(t.Context(), rules, r, usher.Allowed(), explain.Options{Measure: true})
	if err != nil {
		t.Fatal(err)
	}
	if got.Rules[0].Cost == nil || runs < 2 {
		t.Errorf("cost is %v after %d runs", got.Rules[0].Cost, runs)
	}
}

func named(name string) usher.PolicyRef {
	return usher.PolicyRef{Kind: "ClusterValidatePolicy", Name: name}
}

// A reader is a program that looks at a fact.
type reader struct{ ref fact.Ref }

func (r reader) Run(context.Context, *rule.Input) (rule.Outcome, error) { return rule.Outcome{}, nil }

func (r reader) Explain(in *rule.Input) (rule.Reading, error) {
	value, err := in.Facts.Value(r.ref)
	if err != nil {
		return rule.Reading{}, err
	}
	return rule.Reading{Condition: "limits", Holds: true, Values: []rule.Value{{Name: "limits", Value: value}}}, nil
}

func (r reader) String() string { return "reads" }

// A counter is a program that counts its runs.
type counter struct{ runs *int }

func (c counter) Run(context.Context, *rule.Input) (rule.Outcome, error) {
	*c.runs++
	return rule.Outcome{}, nil
}

func (c counter) String() string { return "counts" }
