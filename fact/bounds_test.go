package fact_test

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
)

func TestBounds(t *testing.T) {
	t.Parallel()
	shop := &fact.Bounds{
		Namespace: "shop", Reads: []fact.Read{{APIVersion: "v1", Kind: "ConfigMap"}, {APIVersion: "apps/v1", Kind: "ReplicaSet"}},
		Anywhere: func(gk schema.GroupKind) bool { return gk.Kind == "Plan" }, Hosts: fact.Hosts{"cmdb.example"},
	}
	of := func(apiVersion, kind, namespace, name string) fact.Ref {
		return &fact.Object{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name}
	}
	in := func(namespace string) map[string]any {
		return map[string]any{"metadata": map[string]any{"name": "a", "namespace": namespace}}
	}
	const elsewhere = "a policy of namespace shop reads objects of that namespace only"
	for _, test := range []struct {
		reason  string
		bounds  *fact.Bounds
		ref     fact.Ref
		value   any
		refused string
	}{
		{"no bounds", nil, of("v1", "Secret", "bank", "db"), in("bank"), ""},
		{"in the namespace", shop, of("v1", "ConfigMap", "shop", "a"), in("shop"), ""},
		{"in another version", shop, of("apps/v1beta1", "ReplicaSet", "shop", "a"), in("shop"), ""},
		{"in another namespace", shop, of("v1", "ConfigMap", "bank", "a"), nil, elsewhere},
		{"in all namespaces", shop, of("v1", "ConfigMap", "", ""), nil, elsewhere},
		{"of a kind that it is not known to read", shop, of("v1", "Secret", "shop", "a"), nil, "does not read objects of the kind Secret"},
		{"the Namespace itself", shop, of("v1", "Namespace", "", "shop"), map[string]any{"metadata": map[string]any{"name": "shop"}}, ""},
		{"another Namespace", shop, of("v1", "Namespace", "", "bank"), nil, elsewhere},
		{"a kind that may be anywhere", shop, of("example.com/v1", "Plan", "bank", "a"), in("bank"), ""},
		{"an owner that turns out to be in no namespace", shop, &fact.Object{APIVersion: "apps/v1", Kind: "ReplicaSet", Namespace: "shop", Name: "a", AnyScope: true}, map[string]any{"metadata": map[string]any{"name": "a"}}, elsewhere},
		{"what a resolver takes from elsewhere", shop, of("v1", "ConfigMap", "shop", "a"), in("bank"), elsewhere},
		{"a list of objects in the namespace", shop, of("v1", "ConfigMap", "shop", ""), []any{in("shop"), in("shop")}, ""},
		{"a list with an object elsewhere", shop, of("v1", "ConfigMap", "shop", ""), []any{in("shop"), in("bank")}, elsewhere},
		{"a list of a kind that turns out to be in no namespace", shop, &fact.Object{APIVersion: "apps/v1", Kind: "ReplicaSet", Namespace: "shop", AnyScope: true, All: true}, []any{map[string]any{"metadata": map[string]any{"name": "a"}}}, elsewhere},
		{"nothing", shop, of("v1", "ConfigMap", "shop", "a"), nil, ""},
		{"a host", shop, &fact.HTTP{URL: "https://cmdb.example:8443/a"}, nil, ""},
		{"another host", shop, &fact.HTTP{URL: "https://evil.example/cmdb.example"}, nil, "HTTP facts do not come from evil.example: allowed are cmdb.example"},
		{"a name before another host", shop, &fact.HTTP{URL: "https://cmdb.example@evil.example/"}, nil, "do not come from evil.example"},
		{"a host for tokens", shop, &fact.HTTP{URL: "https://cmdb.example", Auth: &fact.Auth{URL: "https://evil.example"}}, nil, "do not come from evil.example"},
		{"what is no URL", shop, &fact.HTTP{URL: "https://cmdb.example/%zz"}, nil, "the URL cannot be read"},
		{"HTTP is off", &fact.Bounds{}, &fact.HTTP{URL: "https://cmdb.example"}, nil, "HTTP facts are off"},
		{"what users may do", shop, access(func(*usher.Request) {}), nil, "a policy of namespace shop does not ask what users may do"},
		{"what users may do, in a cluster policy", &fact.Bounds{}, access(func(*usher.Request) {}), nil, ""},
		{"objects of a cluster policy", &fact.Bounds{}, of("v1", "Secret", "bank", "db"), in("bank"), ""},
	} {
		_, err := test.bounds.Resolve(t.Context(), fact.ResolverFunc(func(context.Context, fact.Ref) (any, error) { return test.value, nil }), test.ref)
		if (err != nil) != (test.refused != "") || err != nil && !strings.Contains(err.Error(), test.refused) {
			t.Errorf("%s: %v, want %q", test.reason, err, test.refused)
		}
	}
}
