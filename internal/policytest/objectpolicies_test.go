package policytest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/internal/policytest"
)

// bound is an object policy with a part of each kind, and two cases that show little of it.
const bound = `
name: denied
phase: validate
policies:
- apiVersion: usher.dev/v1alpha1
  kind: ClusterObjectPolicy
  metadata: {name: bound}
  spec:
    matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
    subjects: [{groups: [devs, ops]}]
    excludeSubjects: [{users: [joe]}]
    podTemplates: "Off"
    validations:
    - {name: few, expression: "object.spec.containers.size() <= params.most", messageExpression: "'at most ' + string(params.most)", fieldPath: spec}
    - {name: alone, expression: "!has(object.spec.nodeName)", message: no node}
    mutations:
    - {patchType: JSONPatch, jsonPatch: {expression: '[JSONPatch{op: "add", path: "/metadata/labels", value: {"a": "b"}}]'}}
    - {patchType: JSONPatch, jsonPatch: {expression: 'has(object.spec.nodeName) ? [JSONPatch{op: "remove", path: "/spec/nodeName"}] : []'}}
    bindings:
    - {name: everywhere, validationActions: [Warn], params: {most: 2}}
    - {name: shop, params: {most: 1}, matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}}}
    - {name: bank, params: {most: 0}, matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: bank}}}}
request:
  operation: CREATE
  namespace: shop
  user: {name: jane, groups: [devs]}
  object: {apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}, spec: {containers: [{name: a}, {name: b}, {name: c}]}}
expect: {allowed: false, causes: ["spec: at most 1"]}
---
name: labelled
phase: mutate
policies:
- apiVersion: usher.dev/v1alpha1
  kind: ClusterObjectPolicy
  metadata: {name: other}
  spec:
    matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
    mutations:
    - {patchType: JSONPatch, jsonPatch: {expression: '[JSONPatch{op: "add", path: "/metadata/labels", value: {"a": "b"}}]'}}
    - {patchType: JSONPatch, jsonPatch: {expression: 'has(object.spec.nodeName) ? [JSONPatch{op: "remove", path: "/spec/nodeName"}] : []'}}
request:
  operation: CREATE
  namespace: shop
  object: {apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}, spec: {containers: [{name: a}]}}
expect: {fields: [{path: /metadata/labels/a, value: b}]}
`

// TestObjectPoliciesAreCovered: validations by their names, bindings, and mutations.
func TestObjectPoliciesAreCovered(t *testing.T) {
	t.Parallel()
	_, tests := testsOf(t, bound)
	got, err := policytest.Cover(t.Context(), tests)
	if err != nil {
		t.Fatal(err)
	}
	const first = "ClusterObjectPolicy bound "
	want := [][]string{{
		first + "spec.mutations: changes nothing in any case",
		first + "spec.validations[0] (few): denies every case",
		first + "spec.validations[1] (alone): denies no case",
		first + "spec.bindings[1] (shop): is for every case",
		first + "spec.bindings[2] (bank): is for no case",
		first + "spec.mutations[0]: changes nothing in any case",
		first + "spec.mutations[1]: changes nothing in any case",
	}, {
		"ClusterObjectPolicy other spec.mutations[1]: changes nothing in any case",
	}}
	for i := range got {
		if diff := cmp.Diff(want[i], got[i].Missing); diff != "" {
			t.Errorf("%s: -want +got:\n%s", got[i].Set, diff)
		}
	}
	if share := got[0].Conditions; share.Exercised != 0 || share.Total != 6 {
		t.Errorf("%d of %d parts are exercised, expected 0 of 6", share.Exercised, share.Total)
	}
}

// TestMessagesMayNameThePolicy: messages are as decisions have them, or as clients get them.
func TestMessagesMayNameThePolicy(t *testing.T) {
	t.Parallel()
	for expect, fault := range map[string]string{
		`messageEquals: "at most 1"`:                                                   "",
		`messageEquals: "at most 1 (ClusterObjectPolicy bound)"`:                       "",
		`messageContains: "most 1 (ClusterObjectPolicy bound)"`:                        "",
		`messageEquals: "at most 1", messageContains: "1 (ClusterObjectPolicy bound)"`: "",
		`messageEquals: "at most 2 (ClusterObjectPolicy bound)"`:                       `message: expected "at most 2 (ClusterObjectPolicy bound)", got "at most 1 (ClusterObjectPolicy bound)"`,
		`messageEquals: "at most 1 (ClusterObjectPolicy other)"`:                       `message: expected "at most 1 (ClusterObjectPolicy other)", got "at most 1"`,
		`messageContains: bound`:                                                       `message: expected it to contain "bound", got "at most 1"`,
	} {
		_, tests := testsOf(t, strings.Replace(bound, `causes: ["spec: at most 1"]`, expect, 1))
		if got := tests[0].Run(t.Context()); got.Message != fault {
			t.Errorf("%s: %q, want %q", expect, got.Message, fault)
		}
	}
}

// TestObjectPoliciesAreMutated: each part that only object policies have is left out, and the case
// notices those that it is about.
func TestObjectPoliciesAreMutated(t *testing.T) {
	t.Parallel()
	_, tests := testsOf(t, bound)
	mutants := mutantsOf(t, tests)
	survives := func(part string) bool {
		return slices.ContainsFunc(mutants.Survivors, func(s policytest.Survivor) bool {
			return s.Set == "ClusterObjectPolicy bound" && strings.Contains(s.Without+s.With, part)
		})
	}
	for part, want := range map[string]bool{
		"spec.subjects[0].groups[0]":                   false,
		"spec.subjects[0].groups[1]":                   true,
		"spec.excludeSubjects":                         true,
		"Warn instead of Off at spec.podTemplates":     true,
		"spec.validations[0].fieldPath":                false,
		"spec.validations[0].messageExpression":        false,
		"spec.validations[1].message":                  true,
		"spec.bindings[0]":                             true,
		"spec.bindings[1].matchResources":              true,
		"spec.bindings[2].matchResources":              false,
		"Deny instead of Warn at spec.bindings[0].val": false,
		"spec.mutations[1]":                            true,
	} {
		if got := survives(part); got != want {
			t.Errorf("%s survives: %t, expected %t", part, got, want)
		}
	}
	if t.Failed() {
		t.Logf("survivors of %d: %+v", mutants.Total, mutants.Survivors)
	}
}

// TestEquivalentMutantsDoNotCount: a user who is denied is not warned of the same, so that no case can show that a binding
// which warns is not for namespaces in which another one denies.
func TestEquivalentMutantsDoNotCount(t *testing.T) {
	t.Parallel()
	const dev, rest, label = `namespaceSelector: {matchLabels: {env: dev}}`, `namespaceSelector: {matchExpressions: [{key: env, operator: NotIn, values: [dev]}]}`, "matchLabels.env"
	for _, row := range []struct {
		reason, bindings, without string
		survives                  bool
	}{
		{"all others are denied", `{matchResources: {` + rest + `}}, {validationActions: [Warn], matchResources: {` + dev + `}}`, label, false},
		{"some others are not", `{matchResources: {namespaceSelector: {matchLabels: {env: prod}}}}, {validationActions: [Warn], matchResources: {` + dev + `}}`, label, true},
		{"audits are seen beside denials", `{matchResources: {` + rest + `}}, {validationActions: [Audit], matchResources: {` + dev + `}}`, label, true},
		{"denials are seen beside warnings", `{validationActions: [Warn], matchResources: {` + rest + `}}, {validationActions: [Deny], matchResources: {` + dev + `}}`, label, true},
		{"other params", `{matchResources: {` + rest + `}, params: {a: 1}}, {validationActions: [Warn], matchResources: {` + dev + `}}`, label, true},
		{"not all requests are denied", `{matchResources: {` + rest + `, objectSelector: {matchLabels: {a: b}}}}, {validationActions: [Warn], matchResources: {` + dev + `}}`, label, true},
		{"what is denied everywhere is warned of nowhere", `{}, {validationActions: [Warn], matchResources: {` + dev + `}}`, "spec.bindings[1]", false},
		{"the only one that denies", `{}, {validationActions: [Warn], matchResources: {` + dev + `}}`, "spec.bindings[0]", true},
	} {
		// The case is about no binding: every mutant of them survives that is not left out.
		_, tests := testsOf(t, `{phase: validate, expect: {allowed: true},
request: {operation: CREATE, namespace: shop, object: {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: shop}}},
policies: [{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: bound}, spec: {
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]},
  bindings: [`+row.bindings+`], validations: [{expression: "true"}]}}]}`)
		mutants := mutantsOf(t, tests)
		survives := slices.ContainsFunc(mutants.Survivors, func(s policytest.Survivor) bool { return strings.HasSuffix(s.Without, row.without) })
		if survives != row.survives {
			t.Errorf("%s: %s survives: %t, expected %t; survivors of %d: %+v", row.reason, row.without, survives, row.survives, mutants.Total, mutants.Survivors)
		}
	}
}

// TestPodTemplatesAreCoveredIfWritten: what is there by default needs no case of its own.
func TestPodTemplatesAreCoveredIfWritten(t *testing.T) {
	t.Parallel()
	for podTemplates, want := range map[string]bool{"": false, "podTemplates: Warn": true, "podTemplates: Deny": true} {
		_, tests := testsOf(t, fmt.Sprintf(`
name: pod
phase: validate
policies:
- apiVersion: usher.dev/v1alpha1
  kind: ClusterObjectPolicy
  metadata: {name: p}
  spec:
    matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
    validations: [{expression: "!has(object.spec.nodeName)"}]
    %s
request:
  operation: CREATE
  namespace: shop
  object: {apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}, spec: {nodeName: a}}
expect: {allowed: false}
`, podTemplates))
		got, err := policytest.Cover(t.Context(), tests)
		if err != nil {
			t.Fatal(err)
		}
		if missing := slices.Contains(got[0].Missing, "ClusterObjectPolicy p spec.podTemplates: rejects no case"); missing != want {
			t.Errorf("%q: %q", podTemplates, got[0].Missing)
		}
	}
}

// TestParamsOfAllBindings: a param that all bindings have with the same value is one setting, although
// each of them reads another part of it. A binding that denies everywhere is what there is without one.
func TestParamsOfAllBindings(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason, bindings, expect string
		survivors                []string
	}{
		{
			"the same value", `[{name: a, validationActions: [Warn], params: {mode: a, says: {a: one, b: two}}}, {name: b, validationActions: [Warn], params: {mode: b, says: {a: one, b: two}}}]`,
			`{allowed: true, warnings: ["one (ClusterObjectPolicy p)", "two (ClusterObjectPolicy p)"]}`, nil,
		},
		{
			"other values", `[{name: a, validationActions: [Warn], params: {mode: a, says: {a: one, b: two}}}, {name: b, validationActions: [Warn], params: {mode: b, says: {a: two, b: two}}}]`,
			`{allowed: true, warnings: ["one (ClusterObjectPolicy p)", "two (ClusterObjectPolicy p)"]}`,
			[]string{"spec.bindings[0].params.says.b", "spec.bindings[1].params.says.a"},
		},
	} {
		got := bindingSurvivors(t, "string(params.says[params.mode])", row.bindings, row.expect)
		if diff := cmp.Diff(row.survivors, got); diff != "" {
			t.Errorf("%s: survivors (-want +got):\n%s", row.reason, diff)
		}
	}
	if got := bindingSurvivors(t, "'one'", "[{name: everywhere, validationActions: [Deny]}]", `{allowed: false, causes: ["spec.nodeName: one"]}`); got != nil {
		t.Errorf("a binding that denies everywhere: %v", got)
	}
}

// bindingSurvivors are the parts of bindings that a case does not need.
func bindingSurvivors(t *testing.T, message, bindings, expect string) []string {
	t.Helper()
	_, tests := testsOf(t, fmt.Sprintf(`
name: denied
phase: validate
policies:
- apiVersion: usher.dev/v1alpha1
  kind: ClusterObjectPolicy
  metadata: {name: p}
  spec:
    matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
    validations: [{expression: has(object.spec.nodeName), messageExpression: %q}]
    bindings: %s
request: {operation: CREATE, namespace: shop, object: {apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}, spec: {containers: [{name: a}]}}}
expect: %s
`, message, bindings, expect))
	for _, test := range tests {
		if result := test.Run(t.Context()); result.Status != policytest.Passed {
			t.Fatal(result.Message)
		}
	}
	var all []string
	for _, s := range mutantsOf(t, tests).Survivors {
		if part := s.Without + s.With; strings.Contains(part, "spec.bindings") {
			all = append(all, part)
		}
	}
	return all
}

// TestPatchesThatDifferLate: a mutation that adds to a long patch changes something.
func TestPatchesThatDifferLate(t *testing.T) {
	t.Parallel()
	const mutation = `{patchType: JSONPatch, jsonPatch: {expression: '[JSONPatch{op: "add", path: "/metadata/annotations/%s", value: "%s"}]'}}`
	_, tests := testsOf(t, `{name: annotated, phase: mutate, expect: {fields: [{path: /metadata/annotations/b, value: short}]},
request: {operation: CREATE, namespace: shop, object: {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: shop, annotations: {c: d}}}},
policies: [{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: long}, spec: {
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]},
  mutations: [`+fmt.Sprintf(mutation, "a", strings.Repeat("long ", 100))+", "+fmt.Sprintf(mutation, "b", "short")+`]}}]}`)
	covered, err := policytest.Cover(t.Context(), tests)
	if err != nil {
		t.Fatal(err)
	}
	if len(covered) != 1 || len(covered[0].Missing) != 0 {
		t.Errorf("both mutations change the object: %+v", covered)
	}
}
