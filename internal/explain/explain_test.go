package explain_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/explain"
	"github.com/usher-dev/usher/internal/policytest"
	"github.com/usher-dev/usher/internal/rule"
)

// TestEveryCaseIsExplained explains the whole corpus: what is told has to be what was
// decided, and nothing that was decided may be missing.
func TestEveryCaseIsExplained(t *testing.T) {
	t.Parallel()
	cases, err := policytest.Load("../policytest/testdata/kinitiras", "../policytest/testdata/semantics", "../../examples/cases")
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
	ref := &fact.Object{APIVersion: "v1", Kind: "ConfigMap", Name: "limits"}
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

// What a rule has read in a Secret, and what it has put into the object, is not told.
func TestOfWithholdsSecrets(t *testing.T) {
	t.Parallel()
	const canary = "hunter2"
	creates := func(kind, value string) *usher.Request {
		return &usher.Request{
			Phase: usher.Mutate, Operation: usher.Create, Kind: schema.GroupVersionKind{Version: "v1", Kind: kind},
			Object: usher.TreeObject(map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"labels": map[string]any{"from": value}}}),
		}
	}
	mutating := func(name string, programs ...rule.Program) rule.Rule {
		r := rule.Rule{Policy: named(name), Name: "one", Phase: usher.Mutate}
		for _, p := range programs {
			r.Steps = append(r.Steps, rule.Step{Name: "step", Program: p})
		}
		return r
	}
	label := func(key, value string) usher.Patch {
		return usher.Patch{{Op: "add", Path: "/metadata/labels/" + key, Value: value}}
	}
	secret := reader{&fact.Object{APIVersion: "v1", Kind: "Secret", Namespace: "shop", Name: "creds"}}
	miss := mutating("miss")
	miss.Match.Selectors = []rule.Selector{{APIVersion: "v1", Kind: "Pod", Labels: labels.Set{"password": "other"}.AsSelector()}}
	for _, test := range []struct {
		reason   string
		request  *usher.Request
		rules    []rule.Rule
		findings []usher.Finding
		// plain is what is told nevertheless.
		plain string
	}{
		{
			reason: "the rule has read a Secret", request: creates("Pod", "plain"), rules: []rule.Rule{mutating("a", secret)}, plain: "add",
			findings: []usher.Finding{{Policy: named("a"), Rule: "one", Outcome: usher.Changed, Confidential: true, Patch: label("password", canary)}},
		},
		{
			reason: "it failed, or rejects, with a text that repeats the Secret", request: creates("Pod", "plain"), rules: []rule.Rule{mutating("a"), mutating("b")}, plain: "rejected",
			findings: []usher.Finding{
				{Policy: named("a"), Rule: "one", Outcome: usher.Failed, Confidential: true, Ignored: true, Err: errors.New(canary)},
				{Policy: named("b"), Rule: "one", Outcome: usher.Rejected, Confidential: true, Message: canary},
			},
		},
		{
			reason: "later rules see what it has put into the object", request: creates("Pod", "plain"), rules: []rule.Rule{mutating("a"), mutating("b", objectReader{}), miss}, plain: "changed",
			findings: []usher.Finding{
				{Policy: named("a"), Rule: "one", Outcome: usher.Changed, Confidential: true, Patch: label("password", canary)},
				{Policy: named("b"), Rule: "one", Outcome: usher.Changed, Patch: label("copy", canary)},
			},
		},
		{
			reason: "rules before it have not seen the Secret", request: creates("Pod", "plain"), rules: []rule.Rule{mutating("a"), mutating("b")}, plain: "visible",
			findings: []usher.Finding{
				{Policy: named("a"), Rule: "one", Outcome: usher.Changed, Patch: label("team", "visible")},
				{Policy: named("b"), Rule: "one", Outcome: usher.Changed, Confidential: true, Patch: label("password", canary)},
			},
		},
		{
			reason: "the object is a Secret", request: creates("Secret", canary), rules: []rule.Rule{mutating("a", objectReader{}), miss}, plain: "changed",
			findings: []usher.Finding{{Policy: named("a"), Rule: "one", Outcome: usher.Changed, Patch: label("copy", canary)}},
		},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			facts := fact.ResolverFunc(func(context.Context, fact.Ref) (any, error) { return canary, nil })
			decision := usher.Decision{Verdict: usher.Deny, Message: canary, Warnings: []string{canary}, Findings: test.findings}
			got, err := explain.Of(t.Context(), test.rules, test.request, decision, explain.Options{Facts: facts})
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), canary) || !strings.Contains(string(text), test.plain) {
				t.Errorf("told, want %q in it and not %q:\n%s", test.plain, canary, text)
			}
		})
	}
}

// Explaining a dry run makes no requests that may have side effects, either.
func TestOfMakesNoUnsafeRequestsForDryRuns(t *testing.T) {
	t.Parallel()
	facts := fact.ResolverFunc(func(context.Context, fact.Ref) (any, error) {
		t.Error("a request was made")
		return nil, nil
	})
	rules := []rule.Rule{{Policy: named("a"), Name: "one", Phase: usher.Validate, Steps: []rule.Step{
		{Name: "step", Program: reader{&fact.HTTP{Method: "POST", URL: "https://cmdb.example"}}},
	}}}
	r := &usher.Request{Phase: usher.Validate, Operation: usher.Create, DryRun: true, Object: usher.TreeObject(map[string]any{"apiVersion": "v1", "kind": "Pod"})}
	if _, err := explain.Of(t.Context(), rules, r, usher.Allowed(), explain.Options{Facts: facts}); err != nil {
		t.Fatal(err)
	}
}

// An explanation that takes too long does not begin again for each fact.
func TestOfEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	asked := 0
	facts := fact.ResolverFunc(func(context.Context, fact.Ref) (any, error) {
		asked++
		cancel()
		return nil, errors.New("gone")
	})
	rules := []rule.Rule{{Policy: named("a"), Name: "one", Phase: usher.Validate, Steps: []rule.Step{
		{Name: "step", Program: reader{&fact.HTTP{URL: "https://cmdb.example"}}}, {Name: "next", Program: objectReader{}},
	}}}
	r := &usher.Request{Phase: usher.Validate, Operation: usher.Create, Object: usher.TreeObject(map[string]any{"apiVersion": "v1", "kind": "Pod"})}
	got, err := explain.Of(ctx, rules, r, usher.Allowed(), explain.Options{Facts: facts})
	if err != nil {
		t.Fatal(err)
	}
	if steps := got.Rules[0].Steps; asked != 1 || !strings.Contains(steps[0].Error, "canceled") || !strings.Contains(steps[1].Error, "canceled") {
		t.Errorf("asked %d times: %+v", asked, steps)
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

// TestMeasureStops: of a rule that is stopped, the limit is told and no cost; and it is not run again.
func TestMeasureStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		rules := []rule.Rule{{Policy: named("a"), Name: "one", Phase: usher.Validate, Steps: []rule.Step{{Name: "go", Program: sleeper{&runs}}}}}
		r := &usher.Request{Phase: usher.Validate, Operation: usher.Create, Object: usher.TreeObject(map[string]any{"apiVersion": "v1", "kind": "Pod"})}
		got, err := explain.Of(t.Context(), rules, r, usher.Allowed(), explain.Options{Measure: true})
		if err != nil {
			t.Fatal(err)
		}
		if cost := got.Rules[0].Cost; cost == nil || cost.Stopped != time.Second || runs != 1 {
			t.Errorf("cost is %v after %d runs", cost, runs)
		}
	})
}

// A sleeper runs until it is stopped, and counts how often.
type sleeper struct{ runs *int }

func (s sleeper) Run(ctx context.Context, _ *rule.Input) (rule.Outcome, error) {
	*s.runs++
	<-ctx.Done()
	return rule.Outcome{}, ctx.Err()
}

func (s sleeper) String() string { return "sleeper" }

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

// An objectReader is a program that reads the object.
type objectReader struct{}

func (objectReader) Run(context.Context, *rule.Input) (rule.Outcome, error) {
	return rule.Outcome{}, nil
}

func (objectReader) Explain(in *rule.Input) (rule.Reading, error) {
	return rule.Reading{Values: []rule.Value{{Name: "object", Value: in.Object}}}, nil
}

func (objectReader) String() string { return "looks" }

// A counter is a program that counts its runs.
type counter struct{ runs *int }

func (c counter) Run(context.Context, *rule.Input) (rule.Outcome, error) {
	*c.runs++
	return rule.Outcome{}, nil
}

func (c counter) String() string { return "counts" }
