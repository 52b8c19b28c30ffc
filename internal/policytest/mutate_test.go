package policytest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/internal/policytest"
)

// mutated is a policy of every kind of part, with a case that shows as little as can be.
const mutated = `
name: changed
phase: mutate
policies:
- apiVersion: policy.kcloudlabs.io/v1alpha1
  kind: ClusterOverridePolicy
  metadata: {name: over}
  spec:
    resourceSelectors:
    - {apiVersion: v1, kind: Pod, namespace: shop, labelSelector: {matchLabels: {a: b}, matchExpressions: [{key: c, operator: DoesNotExist}]}}
    - {apiVersion: v1, kind: Secret}
    overrideRules:
    - targetOperations: [CREATE, UPDATE]
      overriders:
        plaintext:
        - {path: /metadata/labels/one, op: add, value: "1"}
        - {path: /metadata/labels/two, op: add, value: "2"}
        template: {type: labels, operation: add, value: {stringMap: {three: "3", four: "4"}}}
    - overriders:
        cue: |
          object: _ @tag(object)
          patches: [if object.metadata.name == "web" || object.metadata.name == "other" {op: "add", path: "/metadata/labels/five", value: "5"}]
request:
  operation: CREATE
  namespace: shop
  object: {apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop, labels: {a: b}}}
expect:
  fields:
  - {path: /metadata/labels/one, value: "1"}
  - {path: /metadata/labels/four, value: "4"}
  - {path: /metadata/labels/five, value: "5"}
---
name: rejected
phase: validate
policies:
- apiVersion: policy.kcloudlabs.io/v1alpha1
  kind: ClusterValidatePolicy
  metadata: {name: never}
  spec:
    resourceSelectors: [{apiVersion: v1, kind: Pod}]
    validateRules:
    - cue: "validate: {valid: false, reason: \"no\"}"
request:
  operation: CREATE
  namespace: shop
  object: {apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}}
expect: {allowed: false}
`

// testsOf writes case files and reads them.
func testsOf(t *testing.T, text string) (file string, tests []policytest.Test) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "case.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	tests, err := policytest.Tests(file)
	if err != nil {
		t.Fatal(err)
	}
	return file, tests
}

func mutantsOf(t *testing.T, tests []policytest.Test) policytest.Mutants {
	t.Helper()
	mutants, err := policytest.Mutate(t.Context(), tests, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	return mutants
}

// Each part of a policy makes a mutant, which is a copy of it: there may not be any number of them.
func TestMutateIsBounded(t *testing.T) {
	t.Parallel()
	var params strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&params, "p%d: 1, ", i)
	}
	_, tests := testsOf(t, `{phase: validate, expect: {allowed: true},
request: {operation: CREATE, object: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}},
policies: [{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: many}, spec: {
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]},
  bindings: [{name: all, validationActions: [Deny], params: {`+params.String()+`}}],
  validations: [{expression: "true"}]}}]}`)
	if _, err := policytest.Mutate(t.Context(), tests, func(int) {}); err == nil || !strings.Contains(err.Error(), "mutate ClusterObjectPolicy many: more than ") {
		t.Errorf("5000 params in a binding: %v", err)
	}
}

func TestMutateAdmission(t *testing.T) {
	t.Parallel()
	_, tests := testsOf(t, mutated)
	mutants := mutantsOf(t, tests)
	var got []string
	for _, s := range mutants.Survivors {
		got = append(got, s.Set+" "+s.Without)
	}
	want := []string{
		// A second selector, and clauses that keep requests out which no case makes.
		"ClusterOverridePolicy over spec.resourceSelectors[1]",
		"ClusterOverridePolicy over spec.resourceSelectors[0].namespace",
		"ClusterOverridePolicy over spec.resourceSelectors[0].labelSelector.matchLabels.a",
		"ClusterOverridePolicy over spec.resourceSelectors[0].labelSelector.matchExpressions[0]",
		"ClusterOverridePolicy over spec.overrideRules[0].targetOperations[1]: UPDATE",
		"ClusterOverridePolicy over spec.overrideRules[0].targetOperations",
		// No case looks at labels two and three.
		"ClusterOverridePolicy over spec.overrideRules[0].overriders.plaintext[1]",
		"ClusterOverridePolicy over spec.overrideRules[0].overriders.template.value.stringMap.three",
		// No object is called other, and none has no part in the condition.
		`ClusterOverridePolicy over the condition object.metadata.name == "web" || object.metadata.name == "other" of spec.overrideRules[1].overriders.cue`,
		`ClusterOverridePolicy over the condition object.metadata.name == "other" of spec.overrideRules[1].overriders.cue`,
		// It rejects everything, and no case shows that something passes.
		"ClusterValidatePolicy never the condition of spec.validateRules[0]",
	}
	if diff := cmp.Diff(want, got); diff != "" || mutants.Total <= len(want) {
		t.Errorf("%d mutants, -want +got:\n%s", mutants.Total, diff)
	}
}

func TestCoverAdmission(t *testing.T) {
	t.Parallel()
	file, tests := testsOf(t, mutated)
	got, err := policytest.Cover(t.Context(), tests)
	if err != nil {
		t.Fatal(err)
	}
	share := func(exercised, total int) policytest.Share {
		return policytest.Share{Exercised: exercised, Total: total}
	}
	want := []policytest.Coverage{
		{Set: "ClusterOverridePolicy over", File: file, Policies: share(1, 1), Rules: share(2, 2)},
		{
			Set: "ClusterValidatePolicy never", File: file, Policies: share(1, 1), Rules: share(1, 1), Conditions: share(0, 1),
			Missing: []string{"ClusterValidatePolicy never spec.validateRules[0]: passes no case"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestExamplesNoticeMutants is about the shipped examples: whatever is left out of a policy, one of
// its cases fails.
func TestExamplesNoticeMutants(t *testing.T) {
	t.Parallel()
	tests, err := policytest.Tests("../../examples/cases", "../../examples/cookbook", "../../examples/cel/cases", "../../examples/object-policies/cases", "../../examples/authorization/suite.yaml")
	if err != nil {
		t.Fatal(err)
	}
	mutants := mutantsOf(t, tests)
	for _, s := range mutants.Survivors {
		t.Errorf("%s (%s): no case fails: %s%s", s.Set, s.File, s.Without, s.With)
	}
	if mutants.Total < 150 {
		t.Errorf("%d mutants, expected at least 150", mutants.Total)
	}
}

// linked are an admission policy of Kubernetes with two validations and two bindings, of which one
// only warns, and cases about one of the validations.
const linked = `
name: denied
phase: validate
policies:
- apiVersion: admissionregistration.k8s.io/v1
  kind: ValidatingAdmissionPolicy
  metadata: {name: names}
  spec:
    matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
    validations:
    - {expression: "object.metadata.name != 'web'"}
    - {expression: "object.metadata.name != 'other'"}
- apiVersion: admissionregistration.k8s.io/v1
  kind: ValidatingAdmissionPolicyBinding
  metadata: {name: denies}
  spec: {policyName: names, validationActions: [Deny]}
- apiVersion: admissionregistration.k8s.io/v1
  kind: ValidatingAdmissionPolicyBinding
  metadata: {name: warns}
  spec: {policyName: names, validationActions: [Warn]}
request:
  operation: CREATE
  namespace: shop
  object: {apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}}
expect: {allowed: false}
`

func TestAdmissionPoliciesOfKubernetes(t *testing.T) {
	t.Parallel()
	file, tests := testsOf(t, linked)
	coverage, err := policytest.Cover(t.Context(), tests)
	if err != nil {
		t.Fatal(err)
	}
	wantCoverage := []policytest.Coverage{{
		Set: "ValidatingAdmissionPolicy names", File: file,
		Policies: policytest.Share{Exercised: 1, Total: 1}, Rules: policytest.Share{Exercised: 2, Total: 2}, Conditions: policytest.Share{Exercised: 0, Total: 2},
		Missing: []string{"ValidatingAdmissionPolicy names spec.validations[0]: denies every case", "ValidatingAdmissionPolicy names spec.validations[1]: denies no case"},
	}}
	if diff := cmp.Diff(wantCoverage, coverage); diff != "" {
		t.Errorf("coverage (-want +got):\n%s", diff)
	}
	mutants := mutantsOf(t, tests)
	wantSurvivors := []policytest.Survivor{
		{Set: "ValidatingAdmissionPolicy names", File: file, Without: "spec.validations[1]"},
		{Set: "ValidatingAdmissionPolicy names", File: file, With: `spec.validations[1].expression: == instead of !=: object.metadata.name != "other"`},
		{Set: "ValidatingAdmissionPolicy names", File: file, With: `spec.validations[1].expression: "other-mutant" instead of "other"`},
		{Set: "ValidatingAdmissionPolicy names", File: file, With: "spec.validations[0].expression: false instead of the expression"},
		{Set: "ValidatingAdmissionPolicy names", File: file, With: "spec.validations[1].expression: false instead of the expression"},
		// The case does not look at warnings.
		{Set: "ValidatingAdmissionPolicyBinding warns", File: file, Without: "the policy"},
		{Set: "ValidatingAdmissionPolicyBinding warns", File: file, With: "Deny instead of Warn at spec.validationActions[0]"},
	}
	if diff := cmp.Diff(wantSurvivors, mutants.Survivors); diff != "" {
		t.Errorf("survivors of %d (-want +got):\n%s", mutants.Total, diff)
	}
}

// A policy that takes too long to compile is one that does not compile: nobody waits for its mutants. Those of a
// run that was interrupted are not told.
func TestMutateGivesUp(t *testing.T) {
	t.Parallel()
	_, tests := testsOf(t, mutated)
	for i := range tests {
		tests[i] = tests[i].WithTimeout(1)
	}
	tried := 0
	if mutants, err := policytest.Mutate(t.Context(), tests, func(int) { tried++ }); err != nil || mutants.Total != 0 || tried != 0 {
		t.Errorf("within a nanosecond: %d mutants, %d tried, %v", mutants.Total, tried, err)
	}
	if coverage, err := policytest.Cover(t.Context(), tests); err != nil || len(coverage) != 0 {
		t.Errorf("within a nanosecond: %v, %v", coverage, err)
	}
	_, tests = testsOf(t, mutated)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := policytest.Mutate(ended, tests, func(int) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

// TestPoliciesThatDifferLate: two policies of one name are two, however late they differ.
func TestPoliciesThatDifferLate(t *testing.T) {
	t.Parallel()
	var cases []string
	for _, denied := range []string{"a", "b"} {
		cases = append(cases, fmt.Sprintf(`{name: %[1]s, phase: validate, expect: {allowed: false},
request: {operation: CREATE, object: {apiVersion: v1, kind: ConfigMap, metadata: {name: %[1]s, namespace: shop}}, namespace: shop},
policies: [{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: long, annotations: {about: %[2]q}}, spec: {
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]},
  validations: [{expression: "object.metadata.name != '%[1]s'"}]}}]}`, denied, strings.Repeat("long ", 100)))
	}
	_, tests := testsOf(t, strings.Join(cases, "\n---\n"))
	covered, err := policytest.Cover(t.Context(), tests)
	if err != nil {
		t.Fatal(err)
	}
	if len(covered) != 2 {
		t.Errorf("the coverage is of %d policies, expected 2: %+v", len(covered), covered)
	}
	_, first := testsOf(t, cases[0])
	if one, both := mutantsOf(t, first), mutantsOf(t, tests); both.Total != 2*one.Total {
		t.Errorf("%d mutants of one policy, %d of two", one.Total, both.Total)
	}
}
