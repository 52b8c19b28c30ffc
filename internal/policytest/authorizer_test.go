package policytest_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/policytest"
)

const accessCase = `
phase: validate
request: {operation: CREATE, object: {apiVersion: v1, kind: Pod, metadata: {name: a, namespace: shop}}}
expect: {noMatch: true}
`

// TestCasesSayWhatUsersMayDo asks the facts of cases.
func TestCasesSayWhatUsersMayDo(t *testing.T) {
	t.Parallel()
	path := "/metrics"
	for _, test := range []struct {
		reason string
		text   string
		ask    policytest.AccessRequest
		want   map[string]any
	}{
		{"nothing is known", "", policytest.AccessRequest{User: "jane", Verb: "get", Resource: "pods"}, map[string]any{
			"decision": "noOpinion", "reason": "",
			"error": "nothing says who may do what: give the case answers under access, or run it with usher test and give it roles and bindings",
		}},
		{
			"no entry fits", "access: [{groups: [devs], decision: allow}]",
			policytest.AccessRequest{User: "jane", Groups: []string{"ops"}, Verb: "get", Resource: "pods"}, map[string]any{"decision": "noOpinion", "reason": ""},
		},
		{
			"the first entry that fits", "access: [{resource: nodes, decision: deny}, {extra: {a: [b]}, decision: deny}, {groups: [devs], subresource: exec, decision: allow}, {decision: deny}]",
			policytest.AccessRequest{User: "jane", Groups: []string{"ops", "devs"}, Verb: "get", Resource: "pods", Subresource: "exec"}, map[string]any{"decision": "allow", "reason": ""},
		},
		{
			"an error, with a decision", "access: [{path: /other, decision: deny}, {resource: pods, decision: deny}, {path: /metrics, decision: allow, error: webhook is down}]",
			policytest.AccessRequest{User: "jane", Verb: "get", Path: &path}, map[string]any{"decision": "allow", "reason": "", "error": "webhook is down"},
		},
		{
			"selectors", "access: [{fields: [{key: spec.nodeName, operator: In, values: [m]}], decision: deny}, {labels: [{key: a, operator: Exists}], decision: allow}]",
			policytest.AccessRequest{User: "jane", Verb: "list", Resource: "pods"}, map[string]any{"decision": "allow", "reason": ""},
		},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			cases, err := policytest.Load(write(t, accessCase+test.text))
			if err != nil {
				t.Fatal(err)
			}
			setup, err := cases[0].Setup(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer setup.Close()
			r := test.ask.Request()
			r.Access.Labels = []usher.Requirement{{Key: "a", Operator: "Exists"}}
			value, err := setup.Facts.Resolve(t.Context(), fact.Question{Request: r})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(any(test.want), value); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
