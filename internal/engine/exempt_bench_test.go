package engine_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/index"
)

// exemptionText is an exemption of a cluster.
const exemptionText = `{"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterPolicyExemption", "metadata": {"name": "x%d"}, "spec": {
	"policyRefs": [{"kind": "ClusterObjectPolicy", "name": %q}], "subjects": [{"users": [%q]}],
	"matchConditions": [{"name": "name", "expression": "object.metadata.name == 'web'"}],
	"reason": "r", "owner": "o", "expiresAt": "2100-01-01T00:00:00Z"}}`

const exemptPolicyText = `{"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterObjectPolicy", "metadata": {"name": "team"}, "spec": {
	"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]},
	"validations": [{"expression": "has(object.metadata.labels) && 'team' in object.metadata.labels"}]}}`

// BenchmarkExemptions decides with 1,000 exemptions, and without any.
func BenchmarkExemptions(b *testing.B) {
	passing, failing := `{"team": "a"}`, `{"app": "a"}`
	for _, test := range []struct {
		name         string
		count        int
		policy, user string
		labels       string
	}{
		{"none/passes", 0, "", "", passing},
		{"from-other-policies/passes", 1000, "other", "joe", passing},
		{"from-the-policy/passes", 1000, "team", "joe", passing},
		{"none/denied", 0, "", "", failing},
		{"from-other-policies/denied", 1000, "other", "joe", failing},
		{"from-the-policy-for-others/denied", 1000, "team", "joe", failing},
		{"exempt", 1, "team", "jane", failing},
	} {
		b.Run(test.name, func(b *testing.B) {
			texts := []string{exemptPolicyText}
			for i := range test.count {
				texts = append(texts, fmt.Sprintf(exemptionText, i, test.policy, test.user))
			}
			var policies []api.Policy
			for _, text := range texts {
				policy, err := api.Decode([]byte(text))
				if err != nil {
					b.Fatal(err)
				}
				policies = append(policies, policy)
			}
			rules, _ := compile.Policies(policies)
			e := engine.New(index.New(rules), nil, engine.Options{})
			pod := []byte(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop", "labels": ` + test.labels + `}, "spec": {"containers": [{"name": "c", "image": "i"}]}}`)
			b.ReportAllocs()
			for b.Loop() {
				r := usher.Request{
					Phase: usher.Validate, Operation: usher.Create, Namespace: "shop", Name: "web", User: usher.User{Name: "jane"},
					Kind: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"},
					Object: usher.RawObject(pod),
				}
				d, err := e.Decide(b.Context(), &r)
				if denied := test.labels == failing && test.name != "exempt"; err != nil || (d.Verdict == usher.Deny) != denied {
					b.Fatalf("%v, %+v", err, d)
				}
			}
		})
	}
}
