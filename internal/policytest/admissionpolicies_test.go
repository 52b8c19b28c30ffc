package policytest_test

import (
	"strings"
	"testing"

	"github.com/usher-dev/usher/internal/policytest"
)

// Cases about Kubernetes' own policies have all that these can say.
func TestRunAdmissionPolicies(t *testing.T) {
	t.Parallel()
	policytest.Run(t, "testdata/vap")
}

// Cases about object policies have their features one by one.
func TestRunObjectPolicies(t *testing.T) {
	t.Parallel()
	policytest.Run(t, "testdata/object")
}

const admissionCase = `
name: x
phase: validate
policies:
- apiVersion: admissionregistration.k8s.io/v1
  kind: ValidatingAdmissionPolicy
  metadata: {name: p}
  spec:
    matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
    matchConditions: [{name: web, expression: "object.metadata.name == 'web'"}]
    validations: [{expression: "false", message: refused}]
    auditAnnotations: [{key: who, valueExpression: "request.userInfo.username"}]
- apiVersion: admissionregistration.k8s.io/v1
  kind: ValidatingAdmissionPolicyBinding
  metadata: {name: p}
  spec: {policyName: p, validationActions: [Warn]}
request:
  operation: CREATE
  namespace: shop
  user: {name: jane}
  object: {apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}}
`

const admissionWarning = `Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p': refused`

func TestExpectationsOfAdmissionPolicies(t *testing.T) {
	t.Parallel()
	other := strings.Replace(admissionCase, "{name: web, namespace", "{name: db, namespace", 1)
	for _, row := range []struct {
		reason, text, expect string
		status               policytest.Status
		want                 string // in the message
	}{
		{"all warnings", admissionCase, `{warnings: ["` + admissionWarning + `"]}`, policytest.Passed, ""},
		{"a warning that is not expected", admissionCase, `{allowed: true, warnings: []}`, policytest.Failed, `warnings: expected [], got ["Validation failed`},
		{"a warning that does not come", admissionCase, `{warnings: ["` + admissionWarning + `", more]}`, policytest.Failed, `"more"], got [`},
		{"no expectation about warnings", admissionCase, `{allowed: true}`, policytest.Passed, ""},
		{"an annotation", admissionCase, `{auditAnnotations: {p/who: jane}}`, policytest.Passed, ""},
		{"another value", admissionCase, `{auditAnnotations: {p/who: joe}}`, policytest.Failed, `auditAnnotations[p/who]: expected "joe", got "jane"`},
		{"an annotation that is missing", admissionCase, `{auditAnnotations: {p/what: joe}}`, policytest.Failed, `auditAnnotations[p/what]: expected "joe", is absent; there are ["p/who"]`},
		{"an annotation that is not there", admissionCase, `{allowed: true, auditAnnotations: {p/what: null}}`, policytest.Passed, ""},
		{"an annotation that should not be there", admissionCase, `{auditAnnotations: {p/who: null}}`, policytest.Failed, `auditAnnotations[p/who]: expected to be absent, got "jane"`},
		{"a condition excludes the request", other, `{noMatch: true}`, policytest.Passed, ""},
		{"allowed because a condition excludes the request", other, `{allowed: true}`, policytest.Passed, ""},
		{"a denial that a condition keeps from the request", other, `{allowed: false}`, policytest.Failed, "ValidatingAdmissionPolicy p binding p skipped: matchConditions[web] is false"},
		{"a rule that is for the request", admissionCase, `{noMatch: true}`, policytest.Failed, "expected that no rule matches; ValidatingAdmissionPolicy p binding p warned, and did not deny"},
		{
			"no rule is for the resource", strings.Replace(admissionCase, "kind: Pod", "kind: Secret", 1), `{allowed: true}`, policytest.Failed,
			"passes vacuously: no policy matched",
		},
		{
			"a policy that does not compile", strings.Replace(admissionCase, "username", "usernam", 1), `{allowed: false}`, policytest.Failed,
			"not run: a policy does not compile; correct it, or expect code: 500 if that is the point\nerror: ValidatingAdmissionPolicy p: ",
		},
		{
			"what an API server makes of a policy that does not compile", strings.Replace(admissionCase, "username", "usernam", 1),
			`{allowed: false, messageContains: "compilation error: compilation failed"}`, policytest.Passed, "",
		},
	} {
		cases, err := policytest.Load(write(t, row.text+"expect: "+row.expect))
		if err != nil {
			t.Fatalf("%s: %v", row.reason, err)
		}
		got := cases[0].Run(t.Context())
		if got.Status != row.status || !strings.Contains(got.Message, row.want) {
			t.Errorf("%s: %s, want %s with %q:\n%s", row.reason, got.Status, row.status, row.want, got.Message)
		}
	}
}

// TestExemptions runs cases of policy exemptions.
func TestExemptions(t *testing.T) {
	t.Parallel()
	policytest.Run(t, "testdata/exempt")
}
