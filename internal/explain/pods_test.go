package explain_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/explain"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/rule"
)

// A teller denies pods with a host network, and explains that it has read it.
type teller struct{}

func (teller) String() string { return "teller" }

func (teller) Run(_ context.Context, in *rule.Input) (rule.Outcome, error) {
	if spec, _ := in.Object["spec"].(map[string]any); spec["hostNetwork"] == true {
		return rule.Outcome{Verdict: usher.Deny, Message: "no"}, nil
	}
	return rule.Outcome{}, nil
}

func (teller) Explain(in *rule.Input) (rule.Reading, error) {
	spec, _ := in.Object["spec"].(map[string]any)
	return rule.Reading{Values: []rule.Value{
		{Name: "kind", Value: in.Request.Kind.Kind}, {Name: "hostNetwork", Value: spec["hostNetwork"]}, {Name: "of", Value: in.Workload.String()},
	}}, nil
}

// A changer changes the network of pods, or rejects them.
type changer struct{ out rule.Outcome }

func (changer) String() string { return "changer" }

func (c changer) Run(context.Context, *rule.Input) (rule.Outcome, error) { return c.out, nil }

// TestOfTellsThePodsOfWorkloads: programs explain what they read of the pod that they were run on.
func TestOfTellsThePodsOfWorkloads(t *testing.T) {
	t.Parallel()
	pods := rule.Match{Resources: []rule.ResourceMatch{{Rules: []rule.ResourceRule{{Groups: []string{""}, Versions: []string{"v1"}, Resources: []string{"pods"}}}}}}
	judges := rule.Rule{
		Policy: named("judges"), Name: "one", Phase: usher.Validate, Match: rule.Match{Resources: []rule.ResourceMatch{rule.OfWorkloads(nil)}},
		Pod: &rule.Pod{Match: pods}, Steps: []rule.Step{{Name: "tell", Program: teller{}}},
	}
	changes := func(out rule.Outcome) rule.Rule {
		return rule.Rule{Policy: named("changes"), Name: "one", Phase: usher.Mutate, Match: pods, Steps: []rule.Step{{Program: changer{out}}}}
	}
	off := usher.Patch{{Op: "replace", Path: "/spec/hostNetwork", Value: false}}
	deployment := func(metadata map[string]any) *usher.Request {
		r := &usher.Request{Phase: usher.Validate, Operation: usher.Create, Namespace: "shop", Name: "web"}
		r.Kind.Group, r.Kind.Version, r.Kind.Kind = "apps", "v1", "Deployment"
		r.Resource.Group, r.Resource.Version, r.Resource.Resource = "apps", "v1", "deployments"
		r.Object = usher.TreeObject(map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
			"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"hostNetwork": true}}},
		})
		return r
	}
	read := func(host bool) *rule.Reading {
		return &rule.Reading{Values: []rule.Value{{Name: "kind", Value: "Pod"}, {Name: "hostNetwork", Value: host}, {Name: "of", Value: "Deployment shop/web"}}}
	}
	for _, test := range []struct {
		reason    string
		rules     []rule.Rule
		owners    []any
		outcome   usher.Outcome
		unmutated string
		want      *rule.Reading
	}{
		{"as the template has it", []rule.Rule{judges}, nil, usher.Rejected, "", read(true)},
		{"as other rules change it", []rule.Rule{changes(rule.Outcome{Patch: off}), judges}, nil, usher.Passed, "", read(false)},
		{
			"as the template has it, because one rejects it", []rule.Rule{changes(rule.Outcome{Verdict: usher.Deny, Message: "never"}), judges}, nil, usher.Rejected,
			"without the changes of policies, since one of them rejects it: never", read(true),
		},
		{"a pod that is not judged", []rule.Rule{judges}, []any{map[string]any{"controller": true}}, usher.Skipped, "", nil},
	} {
		r := deployment(map[string]any{"name": "web", "namespace": "shop", "ownerReferences": test.owners})
		d, err := engine.New(index.New(test.rules), nil, engine.Options{}).Decide(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		e, err := explain.Of(t.Context(), test.rules, r, d, explain.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if len(e.Rules) != 1 {
			t.Fatalf("%s: %+v", test.reason, e.Rules)
		}
		got := e.Rules[0]
		if got.PodOf != "Deployment shop/web" || got.Outcome != test.outcome || got.Unmutated != test.unmutated {
			t.Errorf("%s: %+v", test.reason, got)
		}
		if diff := cmp.Diff(test.want, got.Steps[0].Reading); diff != "" {
			t.Errorf("%s: -want +got:\n%s", test.reason, diff)
		}
	}
}
