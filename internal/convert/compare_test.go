package convert_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/kind"
)

// decode reads policies, one a document.
func decode(t *testing.T, text string) []api.Object {
	t.Helper()
	var all []api.Object
	for document := range strings.SplitSeq(text, "---\n") {
		raw, err := yaml.YAMLToJSON([]byte(document))
		if err != nil {
			t.Fatal(err)
		}
		p, err := api.Decode(raw)
		if err != nil || len(p.Unknown) > 0 {
			t.Fatal(err, p.Unknown, document)
		}
		all = append(all, p.Object)
	}
	return all
}

const vap = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p}
spec:
  failurePolicy: Fail
  matchConstraints:
    objectSelector: {matchExpressions: [{key: skip, operator: DoesNotExist}]}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [pods]}]
  matchConditions: [{name: people, expression: "!request.userInfo.username.startsWith('system:')"}]
  variables: [{name: registry, expression: "object.spec.containers.all(c, c.image.startsWith('registry.example/'))"}]
  validations:
  - {expression: "!has(object.spec.hostNetwork) || object.spec.hostNetwork == false || object.metadata.namespace == 'x'", message: network}
  - {expression: "variables.registry || object.metadata.labels['tier'] == 'web'", message: registry}
  - {expression: "has(object.spec.priority) ? object.spec.priority < 1000 : true", message: priority}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: b}
spec:
  policyName: p
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {env: prod}}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: c}
spec:
  policyName: p
  validationActions: [Audit]
`

const mutatingPolicy = `apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: p}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}]}
  mutations:
  - patchType: JSONPatch
    jsonPatch: {expression: "has(object.spec.replicas) && object.spec.replicas > 5 ? [JSONPatch{op: 'replace', path: '/spec/replicas', value: 5}] : []"}
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: {'tier': 'web'}}}"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: b}
spec: {policyName: p}
`

// TestFailingConditionsAreAlike: kinds report a match condition that fails in different places.
func TestFailingConditionsAreAlike(t *testing.T) {
	t.Parallel()
	var policies []api.Policy
	for _, o := range decode(t, strings.Replace(vap, "!request.userInfo.username.startsWith('system:')", "object.metadata.labels['color'] == 'red'", 1)) {
		policies = append(policies, api.Policy{Object: o})
	}
	kinds := kind.Recorded()
	conversions, err := convert.From(policies, nil, kinds)
	if err != nil {
		t.Fatal(err)
	}
	result, err := convert.Compare(t.Context(), &conversions[0], nil, kinds)
	if err != nil || result.Difference != nil || result.Effective == 0 {
		t.Errorf("%v %v, %d of %d requests are not allowed", err, result.Difference, result.Effective, result.Requests)
	}
}

// TestCompare finds each change of a policy, and none where there is none.
func TestCompare(t *testing.T) {
	t.Parallel()
	kinds := kind.Recorded()
	for _, row := range []struct{ reason, policy, old, new, want string }{
		{"nothing changes", vap, "", "", ""},
		{"nothing changes in a mutation", mutatingPolicy, "", "", ""},
		{"an operator", vap, "priority < 1000", "priority <= 1000", "spec.validations[2]"},
		{"a constant", vap, "registry.example/", "registry.other/", "variables.registry"},
		{"the label of an object", vap, "labels['tier'] == 'web'", "labels['tier'] == 'app'", "spec.validations[1]"},
		{"a test whether a field is there", vap, "!has(object.spec.hostNetwork) || ", "", "no such key: hostNetwork"},
		{"a namespace", vap, "namespace == 'x'", "namespace == 'y'", "spec.validations[0]"},
		{"a condition", vap, "startsWith('system:')", "startsWith('system:node:')", "system:serviceaccount:x:x"},
		{"an action", vap, "[Audit]", "[Warn]", "Audit by"},
		{"the namespaces of a binding", vap, "{env: prod}", "{env: other}", "Deny by"},
		{"the labels of objects", vap, "operator: DoesNotExist", "operator: Exists", "spec.validations"},
		{"an operation", vap, "[CREATE, UPDATE]", "[CREATE]", "UPDATE of this object"},
		{"errors", vap, "failurePolicy: Fail", "failurePolicy: Ignore", "no such key"},
		{"a message", vap, "message: registry", "message: other", "registry"},
		{"a limit of a mutation", mutatingPolicy, "replicas > 5", "replicas > 6", "changed to"},
		{"a value of a mutation", mutatingPolicy, "value: 5", "value: 4", "changed to"},
		{"an applied label", mutatingPolicy, "'tier': 'web'", "'tier': 'app'", "changed to"},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			if row.old != "" && strings.Count(row.policy, row.old) != 1 {
				t.Fatalf("%q does not occur once", row.old)
			}
			c := convert.Conversion{From: decode(t, row.policy), To: decode(t, strings.Replace(row.policy, row.old, row.new, 1))}
			result, err := convert.Compare(t.Context(), &c, nil, kinds)
			switch {
			case err != nil:
				t.Fatal(err)
			case row.want == "" && result.Difference != nil:
				t.Error(result.Difference)
			case row.want == "" && (result.Requests < 100 || result.Effective < result.Requests/10):
				t.Errorf("%d requests, of which %d are not allowed", result.Requests, result.Effective)
			case row.want != "" && result.Difference == nil:
				t.Errorf("no difference in %d requests, of which %d are not allowed", result.Requests, result.Effective)
			case row.want != "" && len(result.Difference.Error()) > 1500:
				t.Errorf("the object is not reduced: %.1500s", result.Difference.Error())
			case row.want != "" && !strings.Contains(result.Difference.Error(), row.want):
				t.Errorf("%.600s; want %q", result.Difference.Error(), row.want)
			}
		})
	}
}
