package policytest_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/internal/policytest"
)

// weak is a policy of Kubernetes of every kind of part, with a case that shows little.
const weak = `
name: denied
phase: validate
policies:
- apiVersion: admissionregistration.k8s.io/v1
  kind: ValidatingAdmissionPolicy
  metadata: {name: weak}
  spec:
    paramKind: {apiVersion: v1, kind: ConfigMap}
    matchConstraints:
      resourceRules:
      - {apiGroups: [""], apiVersions: [v1], operations: [CREATE, DELETE], resources: [pods]}
      excludeResourceRules:
      - {apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [pods], resourceNames: [free]}
      objectSelector: {matchLabels: {app: web}}
    matchConditions: [{name: not-joe, expression: "request.userInfo.username != 'joe'"}]
    variables: [{name: most, expression: "int(params.data.most)"}]
    validations:
    - {expression: "object.spec.containers.size() <= variables.most && !has(object.spec.nodeName)", message: too many, reason: Forbidden}
- apiVersion: admissionregistration.k8s.io/v1
  kind: ValidatingAdmissionPolicyBinding
  metadata: {name: weak}
  spec:
    policyName: weak
    validationActions: [Deny]
    paramRef: {name: limits, namespace: shop, parameterNotFoundAction: Deny}
objects:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: limits, namespace: shop}, data: {most: "1"}}
request:
  operation: CREATE
  namespace: shop
  user: {name: jane}
  object: {apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop, labels: {app: web}}, spec: {containers: [{name: a}, {name: b}, {name: c}]}}
expect: {allowed: false, reasonContains: Forbidden, warnings: []}
`

func TestMutateExpressions(t *testing.T) {
	t.Parallel()
	_, tests := testsOf(t, weak)
	mutants := mutantsOf(t, tests)
	var got []string
	for _, s := range mutants.Survivors {
		got = append(got, strings.TrimSpace(s.Set+" -"+s.Without+" +"+s.With))
	}
	const policy, binding = "ValidatingAdmissionPolicy weak ", "ValidatingAdmissionPolicyBinding weak "
	const validation = "object.spec.containers.size() <= variables.most && !has(object.spec.nodeName)"
	want := []string{
		// The case shows no request that is left alone.
		policy + "-spec.matchConstraints.resourceRules[0].operations[1]: DELETE +",
		policy + "-spec.matchConstraints.excludeResourceRules[0] +",
		policy + "-spec.matchConstraints.objectSelector.matchLabels.app +",
		policy + "-spec.matchConditions[0] +",
		policy + "- +spec.matchConditions[0].expression: \"joe-mutant\" instead of \"joe\"",
		// Nor one that passes, or that comes close.
		policy + "- +spec.validations[0].expression: without !has(object.spec.nodeName) in " + validation,
		policy + "- +spec.validations[0].expression: < instead of <=: object.spec.containers.size() <= variables.most",
		policy + "- +spec.validations[0].expression: without negation: !has(object.spec.nodeName)",
		policy + "- +spec.validations[0].expression: false instead of the expression",
		// It does not look at the message.
		policy + "-spec.validations[0].message +",
		// The params exist.
		binding + "- +Allow instead of Deny at spec.paramRef.parameterNotFoundAction",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("survivors (-want +got):\n%s", diff)
	}

	coverage, err := policytest.Cover(t.Context(), tests)
	if err != nil {
		t.Fatal(err)
	}
	missing := []string{
		policy + "spec.validations[0]: denies every case",
		policy + "spec.matchConditions[0]: keeps no case out",
	}
	if diff := cmp.Diff(missing, coverage[0].Missing); diff != "" {
		t.Errorf("not exercised (-want +got):\n%s", diff)
	}
}
