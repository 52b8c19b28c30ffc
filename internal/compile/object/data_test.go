package object_test

import (
	"context"
	"testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/policytest"
)

// TestLiveLists: a list is read from the API server if its source says so, and a request that finds the
// host of another object is denied.
func TestLiveLists(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason, source string
		live           bool
	}{
		{"from memory", `{apiVersion: networking.k8s.io/v1, kind: Ingress, namespace: "*"}`, false},
		{"live", `{apiVersion: networking.k8s.io/v1, kind: Ingress, namespace: "*", live: true}`, true},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			rules := stored(t, `{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: p}, spec: {
				matchConstraints: {resourceRules: [{apiGroups: [networking.k8s.io], apiVersions: [v1], operations: [CREATE], resources: [ingresses]}]},
				data: [{name: others, list: `+test.source+`}],
				validations: [{expression: "!data.others.exists(o, o.spec.rules[0].host == object.spec.rules[0].host)", message: "the host is taken"}]}}`)
			ingress := map[string]any{
				"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": map[string]any{"name": "web", "namespace": "shop"},
				"spec": map[string]any{"rules": []any{map[string]any{"host": "shop.example.com"}}},
			}
			q := policytest.Request{Operation: usher.Create, Namespace: "shop", Object: ingress}
			r, err := q.For(usher.Validate)
			if err != nil {
				t.Fatal(err)
			}
			asked := 0
			facts := fact.ResolverFunc(func(_ context.Context, ref fact.Ref) (any, error) {
				if asked++; ref.(*fact.Object).Live != test.live {
					t.Errorf("%s is read live: %t, want %t", ref, ref.(*fact.Object).Live, test.live)
				}
				return []any{ingress}, nil
			})
			d, err := engine.New(index.New(rules), facts, engine.Options{}).Decide(t.Context(), r)
			if err != nil || d.Verdict != usher.Deny || asked != 1 {
				t.Errorf("%v, %s, the list is read %d times", err, d.Verdict, asked)
			}
		})
	}
}
