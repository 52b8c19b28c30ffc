package audit_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/internal/audit"
	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/compile"
)

// TestAnObjectHasOneResultOfAPolicy has a kind that is read in two versions, since one policy is for all
// of them and another one for v1 alone.
func TestAnObjectHasOneResultOfAPolicy(t *testing.T) {
	t.Parallel()
	gadget := func(version string) result.Kind {
		return result.Kind{Resource: schema.GroupVersionResource{Group: "example.com", Version: version, Resource: "gadgets"}, Kind: "Gadget", Namespaced: true}
	}
	policy := func(name, version string) compile.Compiled {
		return compiled(`{"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterObjectPolicy", "metadata": {"name": "` + name + `"}, "spec": {
			"matchConstraints": {"resourceRules": [{"apiGroups": ["example.com"], "apiVersions": ["` + version + `"], "operations": ["CREATE"], "resources": ["gadgets"]}]},
			"validations": [{"expression": "object.metadata.name == 'good'", "message": "not so"}],
			"bindings": [{"name": "all", "validationActions": ["Deny"]}]}}`)
	}
	v1, v2 := gadget("v1"), gadget("v2")
	x := audit.New(audit.Options{})
	x.Enforce(compile.Order([]compile.Compiled{policy("every", "*"), policy("old", "v1")}))
	read := func(k result.Kind) {
		s := x.Sink(k)
		s.Begin()
		for _, name := range []string{"good", "bad"} {
			if err := s.Set([]byte(`{"apiVersion": "` + k.Resource.GroupVersion().String() + `", "kind": "Gadget", "metadata": {"name": "` + name + `", "namespace": "a"}}`)); err != nil {
				t.Fatal(err)
			}
		}
		s.End()
	}
	for _, step := range []struct {
		reason   string
		versions []result.Kind
		want     []string
	}{
		{"nothing is known of versions", nil, []string{"example.com/v1 every", "example.com/v1 old", "example.com/v2 every"}},
		{"v2 is preferred", []result.Kind{v2, v1}, []string{"example.com/v1 old", "example.com/v2 every"}},
		{"v1 is preferred", []result.Kind{v1, v2}, []string{"example.com/v1 every", "example.com/v1 old"}},
		{"v2 is preferred again", []result.Kind{v2, v1}, []string{"example.com/v1 old", "example.com/v2 every"}},
	} {
		x.Discovered(judge.Versions{v1.Resource.GroupResource(): step.versions})
		read(v1)
		read(v2)
		for x.Next() {
		}
		results, counts := x.Namespace("a")
		var got []string
		for _, r := range results {
			got = append(got, r.Object.APIVersion+" "+r.Policy.Name)
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.reason, diff)
		}
		if n, summary := len(step.want), counts.Total(); summary != (result.Summary{Fail: n, Pass: n}) || x.Stats().Results != summary {
			t.Errorf("%s: the counts are %+v, and %+v in the cluster; want %d of each", step.reason, summary, x.Stats().Results, n)
		}
	}
}
