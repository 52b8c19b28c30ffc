package policytest_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/usher-dev/usher/internal/policytest"
)

// atMost is a case of a policy with params, without its end.
const atMost = `
name: params
phase: validate
policies:
- apiVersion: usher.dev/v1alpha1
  kind: ClusterObjectPolicy
  metadata: {name: at-most}
  spec:
    matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
    validations: [{expression: "object.data.size() <= params.most", messageExpression: "params.advice + string(params.most)"}]
    bindings: [PARAMS]
request:
  operation: CREATE
  namespace: shop
  object: {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: shop}, data: {a: "1", b: "2"}}
`

func TestParamsOfACase(t *testing.T) {
	t.Parallel()
	const params = `{params: {most: 1, advice: "at most "}}`
	for _, c := range []struct{ reason, bindings, params, expect, fault string }{
		{"without params, those of the policy count", params, `null`, `{causes: ["data: at most 1"]}`, ""},
		{"a param of the case replaces the one of that name, and others stay", params, `{advice: "only "}`, `{causes: ["data: only 1"]}`, ""},
		{"in every binding", params + `, {validationActions: [Warn], params: {most: 0, advice: rather }}`, `{most: 2}`, `{allowed: true, warnings: []}`, ""},
		{"numbers stay as they are", `{params: {most: -9007199254740993, advice: ""}}`, `{advice: "not "}`, `{causes: ["data: not -9007199254740993"]}`, ""},
		{"params that no binding has are a mistake", `{validationActions: [Warn]}`, `{most: 2}`, `{allowed: true}`, "no policy of the case has a binding with params in place"},
	} {
		_, tests := testsOf(t, strings.Replace(atMost, "PARAMS", c.bindings, 1)+"params: "+c.params+"\nexpect: "+c.expect)
		got := tests[0].Run(t.Context())
		if (got.Status == policytest.Passed) != (c.fault == "") || !strings.Contains(got.Message, c.fault) {
			t.Errorf("%s: faults are %q, expected %q", c.reason, got.Message, c.fault)
		}
	}
}

func TestActionsOfACase(t *testing.T) {
	t.Parallel()
	const warned = `{allowed: true, warnings: ["at most 1 (ClusterObjectPolicy at-most)"]}`
	for _, c := range []struct{ reason, bindings, actions, expect, fault string }{
		{"they replace those of a binding", `{validationActions: [Deny], params: {most: 1, advice: "at most "}}`, `[Warn]`, warned, ""},
		{"in every binding", `{validationActions: [Deny], params: {most: 1, advice: "at most "}}, {validationActions: [Audit], params: {most: 1, advice: "at most "}}`, `[Warn]`, warned, ""},
		{"without bindings, they are a mistake", ``, `[Warn]`, warned, "validationActions: no policy of the case has a binding with actions"},
		{"there are no others", `{validationActions: [Deny], params: {most: 1, advice: "at most "}}`, `[Wran]`, warned, "Wran"},
	} {
		_, tests := testsOf(t, strings.Replace(atMost, "PARAMS", c.bindings, 1)+"validationActions: "+c.actions+"\nexpect: "+c.expect)
		got := tests[0].Run(t.Context())
		if (got.Status == policytest.Passed) != (c.fault == "") || !strings.Contains(got.Message, c.fault) {
			t.Errorf("%s: faults are %q, expected %q", c.reason, got.Message, c.fault)
		}
	}
}

// TestMutateLeavesWhatCasesReplace: no case can notice another param or action, if all have their own.
func TestMutateLeavesWhatCasesReplace(t *testing.T) {
	t.Parallel()
	const bindings = `{name: all, validationActions: [Deny], params: {most: 1, advice: "at most "}}`
	text := func(settings string) string {
		return strings.Replace(atMost, "PARAMS", bindings, 1) + settings + "\nexpect: {allowed: true, warnings: [\"at most 1 (ClusterObjectPolicy at-most)\"]}"
	}
	own := text("params: {most: 1, advice: \"at most \"}\nvalidationActions: [Warn]")
	for _, row := range []struct {
		reason, text string
		want         int
	}{
		{"all cases replace them", own, 0},
		{"one does not, and fails with all of them", own + "\n---" + strings.Replace(text(""), "{allowed: true, warnings: [\"at most 1 (ClusterObjectPolicy at-most)\"]}", "{causes: [\"data: at most 1\"]}", 1), 2},
	} {
		_, tests := testsOf(t, row.text)
		without := mutantsOf(t, tests).Total
		_, tests = testsOf(t, strings.Replace(row.text, "params: {most: 1, advice: \"at most \"}\nvalidationActions", "validationActions", 1))
		if got := mutantsOf(t, tests).Total - without; got != 2-row.want {
			t.Errorf("%s: %d mutants of params are left out, expected %d", row.reason, got, 2-row.want)
		}
	}
}

// TestMutateChangesFields: without the field of a validation, it may be the same one.
func TestMutateChangesFields(t *testing.T) {
	t.Parallel()
	text := strings.Replace(atMost, "PARAMS", `{validationActions: [Deny], params: {most: 1, advice: "at most "}}`, 1)
	text = strings.Replace(text, `validations: [{`, `validations: [{fieldPath: data, `, 1)
	for expect, survives := range map[string]bool{`{causes: ["data: at most 1"]}`: false, `{allowed: false}`: true} {
		_, tests := testsOf(t, text+"expect: "+expect)
		found := slices.ContainsFunc(mutantsOf(t, tests).Survivors, func(s policytest.Survivor) bool {
			return s.With == "data.other instead of data at spec.validations[0].fieldPath"
		})
		if found != survives {
			t.Errorf("with %s the field survives: %t, expected %t", expect, found, survives)
		}
	}
}
