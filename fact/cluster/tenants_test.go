package cluster_test

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/cluster"
)

// TestTenantsReadAtTheirRate: objects choose the names that policies read. What those of a namespace read from the
// API server delays nobody else.
func TestTenantsReadAtTheirRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := cluster.New(newClient(), newMapper(configMap), cluster.Options{})
		read := func(tenant string, ref *fact.Object) error {
			ctx, cancel := context.WithTimeout(fact.ForTenant(t.Context(), tenant), time.Second)
			defer cancel()
			if _, err := r.Resolve(ctx, ref); err != nil && !strings.Contains(err.Error(), "not found") {
				return err
			}
			return nil
		}
		refused, begin := 0, time.Now()
		for i := range 100 {
			if err := read("shop", named("ConfigMap", "shop", fmt.Sprint(i))); err != nil {
				if !strings.Contains(err.Error(), "policies of namespace shop read more than 10 objects a second that are not in memory") {
					t.Fatal(err)
				}
				refused++
			}
		}
		if took := time.Since(begin); refused > 0 || took != 8*time.Second {
			t.Errorf("100 objects one after the other took %v, %d were refused; 20 at once and then 10 a second are expected", took, refused)
		}
		errs := make(chan error)
		for range 100 {
			go func() { errs <- read("shop", selected("ConfigMap", "shop")) }()
		}
		synctest.Wait()
		for _, other := range []string{"", "bank"} {
			begin := time.Now()
			if err := read(other, named("ConfigMap", "shop", "a")); err != nil || time.Since(begin) > 0 {
				t.Errorf("for policies of namespace %q: %v after %v", other, err, time.Since(begin))
			}
		}
		for range 100 {
			if err := <-errs; err != nil {
				refused++
			}
		}
		if refused < 90 {
			t.Errorf("of 100 lists at once %d were refused", refused)
		}
	})
}

// TestBoundsTellNothingOfOtherScopes: for a policy of a namespace nothing in no namespace is read, so that what it is told
// does not depend on whether it is there.
func TestBoundsTellNothingOfOtherScopes(t *testing.T) {
	t.Parallel()
	const elsewhere = "a policy of namespace shop reads objects of that namespace only"
	bounds := &fact.Bounds{
		Namespace: "shop", Reads: []fact.Read{{APIVersion: "v1", Kind: "Node"}, {APIVersion: "v1", Kind: "Namespace"}},
		Anywhere: func(kind schema.GroupKind) bool { return kind.Kind == "Widget" },
	}
	for _, test := range []struct {
		reason    string
		ref       fact.Object
		want, err string
	}{
		{"one that is there", fact.Object{APIVersion: "v1", Kind: "Node", Name: "n1"}, "", elsewhere},
		{"one that is not", fact.Object{APIVersion: "v1", Kind: "Node", Name: "n2"}, "", elsewhere},
		{"a list", fact.Object{APIVersion: "v1", Kind: "Node", All: true, Selector: label("web")}, "", elsewhere},
		{"an empty list", fact.Object{APIVersion: "v1", Kind: "Node", All: true, Selector: label("db")}, "", elsewhere},
		{"another Namespace that is there", fact.Object{APIVersion: "v1", Kind: "Namespace", Name: "bank"}, "", elsewhere},
		{"another Namespace that is not", fact.Object{APIVersion: "v1", Kind: "Namespace", Name: "none"}, "", elsewhere},
		{"its own", fact.Object{APIVersion: "v1", Kind: "Namespace", Name: "shop"}, "/shop", ""},
		{"a kind that may be anywhere", fact.Object{APIVersion: "shop.example/v1", Kind: "Widget", Name: "w"}, "/w", ""},
	} {
		client := newClient(object("v1", "Node", "", "n1", "web"), object("v1", "Namespace", "", "bank", ""), object("v1", "Namespace", "", "shop", ""), object("shop.example/v1", "Widget", "", "w", ""))
		namespace := schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
		mapper := meta.NewDefaultRESTMapper(nil)
		for _, kind := range []schema.GroupVersionKind{node, namespace, widget} {
			mapper.Add(kind, meta.RESTScopeRoot)
		}
		test.ref.Namespace, test.ref.AnyScope = "shop", true
		value, err := bounds.Resolve(t.Context(), cluster.New(client, mapper, cluster.Options{}), &test.ref)
		if fmt.Sprint(err) != cmp.Or(test.err, "<nil>") || test.err == "" && fullName(value) != test.want {
			t.Errorf("%s: %v, %v, want %q, %q", test.reason, value, err, test.want, test.err)
		}
		if read := len(client.Actions()); read > 0 != (test.err == "") {
			t.Errorf("%s: %d objects are read", test.reason, read)
		}
	}
}
