package kcloudlabs_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/compile/kcloudlabs"
	"github.com/usher-dev/usher/internal/rule"
)

func TestNamespaceFromRequest(t *testing.T) {
	t.Parallel()
	set := usher.Patch{{Op: "add", Path: "/metadata/namespace", Value: "shop"}}
	for _, test := range []struct {
		reason    string
		namespace string
		object    map[string]any
		want      usher.Patch
	}{
		{
			reason: "an object without namespace gets that of the request", namespace: "shop",
			object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "p"}}, want: set,
		},
		{
			reason: "the empty text is no namespace", namespace: "shop",
			object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"namespace": ""}}, want: set,
		},
		{
			reason: "null is no namespace", namespace: "shop",
			object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"namespace": nil}}, want: set,
		},
		{
			reason: "a namespace stays", namespace: "shop",
			object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"namespace": "bank"}},
		},
		{
			reason: "the request has none",
			object: map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": "n"}},
		},
		{
			reason: "options have no metadata to put it into", namespace: "shop",
			object: map[string]any{"apiVersion": "v1", "kind": "PodExecOptions"},
		},
		{
			reason: "a Namespace is in no namespace, although its request carries its name", namespace: "shop",
			object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "shop"}},
		},
		{
			reason: "a Namespace of another group may be", namespace: "shop",
			object: map[string]any{"apiVersion": "a.io/v1", "kind": "Namespace", "metadata": map[string]any{"name": "shop"}}, want: set,
		},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			var got usher.Patch
			for _, r := range kcloudlabs.BuiltIn() {
				for _, step := range r.Steps {
					outcome, err := step.Program.Run(context.Background(), &rule.Input{
						Request: &usher.Request{Phase: usher.Mutate, Operation: usher.Create, Namespace: test.namespace},
						Object:  test.object,
					})
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, outcome.Patch...)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBuiltInRulesAreForWritesOnly(t *testing.T) {
	t.Parallel()
	for _, r := range kcloudlabs.BuiltIn() {
		for _, operation := range usher.Operations() {
			s := rule.TargetOf(&usher.Request{Operation: operation}, map[string]any{})
			want := operation == usher.Create || operation == usher.Update
			if got := r.Match.Matches(&s); got != want {
				t.Errorf("%s matches %s: %t, want %t", r.Name, operation, got, want)
			}
		}
	}
}

// TestBrokenStepsFail checks that a part that does not compile is not left out: requests
// that it was meant for must not slip through.
func TestBrokenStepsFail(t *testing.T) {
	t.Parallel()
	rules, problems := kcloudlabs.Compiler{}.ClusterValidatePolicy(t.Context(), &v1alpha1.ClusterValidatePolicy{
		Spec: v1alpha1.ClusterValidatePolicySpec{ValidateRules: []v1alpha1.ValidateRule{
			{Cue: `validate: {valid: nowhere}`},
			{Cue: `validate: {valid: true}`},
		}},
	})
	if len(rules) != 2 || len(rule.Errors(problems)) != 1 {
		t.Fatalf("%d rules and problems %v; want both rules and one error", len(rules), problems)
	}
	in := &rule.Input{
		Request: &usher.Request{Phase: usher.Validate, Operation: usher.Create},
		Object:  map[string]any{"kind": "Pod"},
	}
	_, err := rules[0].Steps[0].Program.Run(context.Background(), in)
	if err == nil || !strings.HasPrefix(err.Error(), "policy does not compile: ") || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("error %v, want one that says that the policy does not compile and why", err)
	}
	if _, err := rules[1].Steps[0].Program.Run(context.Background(), in); err != nil {
		t.Errorf("the rule beside it fails too: %v", err)
	}
}
