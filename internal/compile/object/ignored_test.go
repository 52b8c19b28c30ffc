package object_test

import (
	"context"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/observe/failing"
	"github.com/usher-dev/usher/internal/policytest"
	"github.com/usher-dev/usher/internal/rule"
)

const (
	configMaps = `resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [configmaps]}]`
	bound      = `, "b": {apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: b}, spec: {policyName: p, validationActions: [Deny]}}}`
	bindsMAP   = `, "b": {apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicyBinding, metadata: {name: b}, spec: {policyName: p}}}`
)

// own is a ClusterObjectPolicy, and kubes an admission policy of Kubernetes with its binding.
func own(spec string) string {
	return `{"a": {apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: p}, spec: {failurePolicy: Ignore, matchConstraints: {` + configMaps + `}, ` + spec + `}}}`
}

func kubes(kind, spec, binding string) string {
	return `{"a": {apiVersion: admissionregistration.k8s.io/v1, kind: ` + kind + `, metadata: {name: p, uid: u, generation: 1}, spec: {failurePolicy: Ignore, matchConstraints: {` + configMaps + `}, ` + spec + `}}` + binding
}

// TestIgnoredFailuresAreFindings: a policy that fails and lets the request pass does not look like one that
// has judged it.
func TestIgnoredFailuresAreFindings(t *testing.T) {
	t.Parallel()
	const (
		wrong     = `validations: [{expression: "true"}, {expression: "object.metadata.labels.team == 'a'", message: m}]`
		condition = `matchConditions: [{name: c, expression: "object.metadata.labels.team == 'a'"}], validations: [{expression: "false"}]`
		vap       = "ValidatingAdmissionPolicy"
		mutation  = `mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/metadata/labels/x', value: object.metadata.labels.team}]"}}]`
	)
	for _, row := range []struct {
		reason, policies string
		phase            usher.Phase
		verdict          usher.Verdict
		outcome          usher.Outcome
		part             string
	}{
		{"a validation", own(wrong), usher.Validate, usher.Allow, usher.Failed, "spec.validations[1]"},
		{"a validation with a name", own(strings.Replace(wrong, "message: m", "message: m, name: label", 1)), usher.Validate, usher.Allow, usher.Failed, "spec.validations[1] (label)"},
		{"a condition", own(condition), usher.Validate, usher.Allow, usher.Failed, "spec.matchConditions"},
		{"another validation denies", own(strings.Replace(wrong, `"true"`, `"false"`, 1)), usher.Validate, usher.Deny, usher.Rejected, "spec.validations[1]"},
		{"a mutation", own(mutation), usher.Mutate, usher.Allow, usher.Failed, ""},
		{"a condition of a mutation", own(`matchConditions: [{name: c, expression: "object.metadata.labels.team == 'a'"}], ` + mutation), usher.Mutate, usher.Allow, usher.Failed, "spec.matchConditions"},
		{"a validation of Kubernetes", kubes(vap, wrong, bound), usher.Validate, usher.Allow, usher.Failed, "spec.validations[1]"},
		{"a condition of Kubernetes", kubes(vap, condition, bound), usher.Validate, usher.Allow, usher.Failed, "spec.matchConditions"},
		{"a mutation of Kubernetes", kubes("MutatingAdmissionPolicy", "reinvocationPolicy: Never, "+mutation, bindsMAP), usher.Mutate, usher.Allow, usher.Failed, "spec.mutations[0]"},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			var documents map[string]any
			if err := yaml.Unmarshal([]byte(row.policies), &documents); err != nil {
				t.Fatal(err)
			}
			var policies []api.Policy
			for _, document := range documents {
				raw, err := yaml.Marshal(document)
				if err != nil {
					t.Fatal(err)
				}
				if raw, err = yaml.YAMLToJSON(raw); err != nil {
					t.Fatal(err)
				}
				p, err := api.Decode(raw)
				if err != nil {
					t.Fatal(err)
				}
				policies = append(policies, p)
			}
			rules, problems := compile.Policies(policies)
			if len(rule.Errors(problems)) > 0 {
				t.Fatal(problems)
			}
			q := policytest.Request{Operation: usher.Create, Namespace: "x", Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x", "namespace": "x"}}}
			r, err := q.For(row.phase)
			if err != nil {
				t.Fatal(err)
			}
			d, err := engine.New(index.New(rules), nil, engine.Options{}).Decide(t.Context(), r)
			if err != nil || d.Verdict != row.verdict || len(d.Findings) != 1 {
				t.Fatalf("%v: %s, findings %+v", err, d.Verdict, d.Findings)
			}
			f := &d.Findings[0]
			if f.Outcome != row.outcome || f.Failure() == nil || f.Ignored != (row.outcome == usher.Failed) {
				t.Errorf("%s, ignored %t: %v", f.Outcome, f.Ignored, f.Failure())
			}
			tracker := failing.New(nil)
			tracker.Keep([]rule.State{{Policy: f.Policy, UID: "u", Generation: 1, Compiled: true, Enforced: true}})
			decided := usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) { return d, nil })
			if _, err := tracker.Wrap(decided).Decide(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			failures := tracker.Failures()
			if len(failures) != 1 || failures[0].Part != row.part || !failures[0].Ignored || failures[0].Count != 1 {
				t.Errorf("failures %+v, want one of %q", failures, row.part)
			}
		})
	}
}
