package object_test

import (
	"context"
	"errors"
	"testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/policytest"
	"github.com/usher-dev/usher/internal/withhold"
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

// TestAbsentDataIsTheCause: who is denied because an object of data does not exist reads that first, and no field
// of the request. In a status, the name stays if the policy has it, and not if it may be of the request.
func TestAbsentDataIsTheCause(t *testing.T) {
	t.Parallel()
	const variable = "variables.allowed.exists(a, object.spec.containers[0].image.startsWith(a))"
	for _, test := range []struct{ reason, name, message, status string }{
		{
			"a name of the policy", "name: allowed-registry",
			"data.allowed: ConfigMap team-a/allowed-registry does not exist (in expression '" + variable + "')", "data.allowed: ConfigMap team-a/allowed-registry does not exist (in expression (…))",
		},
		{
			"a name of the request", "nameExpression: object.metadata.name",
			`data.allowed: ConfigMap "team-a/web" does not exist (in expression '` + variable + "')", "data.allowed: ConfigMap (…) does not exist (in expression (…))",
		},
	} {
		rules := stored(t, `{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: p}, spec: {podTemplates: "Off",
			matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]},
			data: [{name: allowed, object: {apiVersion: v1, kind: ConfigMap, namespace: team-a, `+test.name+`}}],
			variables: [{name: allowed, expression: "data.allowed.data.registries.split(',')"}],
			validations: [{expression: "`+variable+`", message: closed}]}}`)
		q := policytest.Request{Operation: usher.Create, Namespace: "shop", Object: map[string]any{
			"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "web", "namespace": "shop"},
			"spec": map[string]any{"containers": []any{map[string]any{"name": "a", "image": "b"}}},
		}}
		r, err := q.For(usher.Validate)
		if err != nil {
			t.Fatal(err)
		}
		facts := fact.ResolverFunc(func(_ context.Context, ref fact.Ref) (any, error) {
			o := ref.(*fact.Object)
			return nil, &fact.NotFound{Kind: o.Kind, Name: o.Namespace + "/" + o.Name}
		})
		d, err := engine.New(index.New(rules), facts, engine.Options{FailurePolicy: usher.Fail}).Decide(t.Context(), r)
		if err != nil || d.Verdict != usher.Deny || len(d.Findings) != 1 || len(d.Findings[0].Checks) != 1 {
			t.Fatalf("%s: %+v, %v", test.reason, d, err)
		}
		check := d.Findings[0].Checks[0]
		if check.Message != test.message || check.Field != "" {
			t.Errorf("%s: %q of field %q, want %q", test.reason, check.Message, check.Field, test.message)
		}
		if got := withhold.Error(r, errors.New(check.Message), false); got != test.status {
			t.Errorf("%s: in a status %q, want %q", test.reason, got, test.status)
		}
	}
}
