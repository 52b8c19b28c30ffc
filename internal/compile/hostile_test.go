package compile_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/lang/cel/celtest"
	"github.com/usher-dev/usher/internal/rule"
)

// TestHostileExpressions compiles hostile expressions wherever a policy has one.
func TestHostileExpressions(t *testing.T) {
	t.Parallel()
	const (
		pods     = `"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["pods"]}]}`
		vap      = `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"p"},"spec":{` + pods + `,`
		mapp     = `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingAdmissionPolicy","metadata":{"name":"p"},"spec":{"reinvocationPolicy":"Never",` + pods + `,`
		object   = `{"apiVersion":"usher.dev/v1alpha1","kind":"ClusterObjectPolicy","metadata":{"name":"p"},"spec":{` + pods + `,`
		own      = `{"apiVersion":"usher.dev/v1alpha1","kind":"ObjectPolicy","metadata":{"name":"p","namespace":"n"},"spec":{` + pods + `,`
		holds    = `"validations":[{"expression":"true"}]`
		access   = `"spec":{"effect":"Allow","subjects":[{"users":["u"]}],"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}],`
		exempts  = `"spec":{"policyRefs":[{"kind":"ClusterObjectPolicy","name":"p"}],"reason":"r","owner":"o","expiresAt":"2099-01-01T00:00:00Z",`
		existing = `"existingObjects":{"apiVersion":"v1","kind":"Pod",`
	)
	for _, row := range []struct{ reason, policy string }{
		{"a validation", vap + `"validations":[{"expression":%}]}}`},
		{"a variable", vap + `"variables":[{"name":"v","expression":%}],` + holds + `}}`},
		{"a match condition", vap + `"matchConditions":[{"name":"c","expression":%}],` + holds + `}}`},
		{"a message", vap + `"validations":[{"expression":"true","messageExpression":%}]}}`},
		{"an audit annotation", vap + `"auditAnnotations":[{"key":"k","valueExpression":%}]}}`},
		{"a JSON patch", mapp + `"mutations":[{"patchType":"JSONPatch","jsonPatch":{"expression":%}}]}}`},
		{"an apply configuration", mapp + `"mutations":[{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":%}}]}}`},
		{"an object policy", object + `"validations":[{"expression":%}]}}`},
		{"an object policy that mutates", object + `"mutations":[{"patchType":"JSONPatch","jsonPatch":{"expression":%}}]}}`},
		{"an object policy of a namespace", own + `"validations":[{"expression":%}]}}`},
		{"the name of an object", own + `"data":[{"name":"d","object":{"apiVersion":"v1","kind":"ConfigMap","nameExpression":%}}],` + holds + `}}`},
		{"the namespace of an object", object + `"data":[{"name":"d","object":{"apiVersion":"v1","kind":"ConfigMap","name":"a","namespaceExpression":%}}],` + holds + `}}`},
		{"the namespace of a list", object + `"data":[{"name":"d","list":{"apiVersion":"v1","kind":"ConfigMap","namespaceExpression":%}}],` + holds + `}}`},
		{"the message about objects that exist", object + holds + `,` + existing + `"messageExpression":%}}}`},
		{"a condition about objects that exist", object + holds + `,` + existing + `"matchConditions":[{"name":"c","expression":%}]}}}`},
		{"a condition of authorization", `{"apiVersion":"usher.dev/v1alpha1","kind":"ClusterAuthorizationPolicy","metadata":{"name":"p"},` + access + `"when":[{"cel":%}]}}`},
		{"an exception of authorization", `{"apiVersion":"usher.dev/v1alpha1","kind":"AuthorizationPolicy","metadata":{"name":"p","namespace":"n"},` + access + `"unless":[{"cel":%}]}}`},
		{"an exemption", `{"apiVersion":"usher.dev/v1alpha1","kind":"ClusterPolicyExemption","metadata":{"name":"x"},` + exempts + `"matchConditions":[{"name":"c","expression":%}]}}`},
		{"an exemption of a namespace", `{"apiVersion":"usher.dev/v1alpha1","kind":"PolicyExemption","metadata":{"name":"x","namespace":"n"},` + exempts + `"matchConditions":[{"name":"c","expression":%}]}}`},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			for _, h := range []celtest.Hostile{celtest.Expressions()[0], celtest.Expressions()[5]} {
				text, err := json.Marshal(h.Expression)
				if err != nil {
					t.Fatal(err)
				}
				policy := decode(t, "p", []byte(strings.Replace(row.policy, "%", string(text), 1)))
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				compiled := compile.Options{}.Policy(ctx, policy)
				if ctx.Err() != nil {
					t.Fatalf("%s: it was not compiled in time", h.Reason)
				}
				other := func(p rule.Problem) bool { return !strings.Contains(p.What, "expression too large") }
				if problems := rule.Errors(compiled.Problems); len(problems) == 0 || slices.ContainsFunc(problems, other) {
					t.Errorf("%s: problems %v", h.Reason, problems)
				}
			}
		})
	}
}
