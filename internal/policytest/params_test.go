package policytest_test

import (
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
