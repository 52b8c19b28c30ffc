package auditing_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	"github.com/usher-dev/usher/api"
	clusterfact "github.com/usher-dev/usher/fact/cluster"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/serve/auditing"
)

// A selection is which resources policies select, as group/version/resource with wildcards; those
// whose names begin with meta read metadata only.
type selection map[string][]string

// compiled returns the policies.
func (s selection) compiled(t *testing.T) []compile.Compiled {
	t.Helper()
	var all []api.Policy
	for _, name := range slices.Sorted(maps.Keys(s)) {
		var rules []string
		for _, pattern := range s[name] {
			parts := strings.SplitN(pattern, "/", 3)
			rules = append(rules, fmt.Sprintf(`{"apiGroups": [%q], "apiVersions": [%q], "operations": ["CREATE"], "resources": [%q]}`, parts[0], parts[1], parts[2]))
		}
		expression := "has(object.spec)"
		if strings.HasPrefix(name, "meta") {
			expression = "has(object.metadata.labels)"
		}
		policy, err := api.Decode(fmt.Appendf(nil, `{"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterObjectPolicy", "metadata": {"name": %q}, "spec": {
			"podTemplates": "Off", "matchConstraints": {"resourceRules": [%s]}, "validations": [{"expression": %q}], "bindings": [{"name": "all", "validationActions": ["Warn"]}]}}`,
			name, strings.Join(rules, ", "), expression))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, policy)
	}
	compiled, _ := compile.Options{}.All(t.Context(), all)
	for i := range compiled {
		for _, problem := range compiled[i].Problems {
			t.Fatal(problem.Text())
		}
	}
	return compiled
}

func TestAuditedKinds(t *testing.T) {
	t.Parallel()
	lists := []*metav1.APIResourceList{
		resources("v1", "pods", "pods/status", "pods/log!get", "bindings!create", "events", "secrets", "componentstatuses!get list", "tokenreviews!create"),
		resources("example.com/v2", "gadgets!get list create update delete"),
		resources("example.com/v1", "gadgets", "gizmos!get list create update delete", "gears!get create", "gizmos/status!get update"),
		resources("apps/v1", "deployments", "deployments/scale"),
		resources("autoscaling/v2", "horizontalpodautoscalers"),
		resources("autoscaling/v1", "horizontalpodautoscalers"),
		resources("events.k8s.io/v1", "events"),
		resources("coordination.k8s.io/v1", "leases"),
		resources("openreports.io/v1alpha1", "reports"),
	}
	const (
		gears  = "example.com/v1/gears: the API server offers no list for it"
		gizmos = "example.com/v1/gizmos: the API server offers no watch for it"
	)
	tests := []struct {
		reason   string
		policies selection
		want     []string
	}{
		{"no policy", selection{}, nil},
		{"one kind", selection{"a": {"/v1/pods"}}, []string{"/v1/pods"}},
		{"metadata suffices for all policies of the kind", selection{"meta-a": {"/v1/pods", "/v1/secrets"}, "b": {"/v1/secrets"}}, []string{"/v1/pods metadata", "/v1/secrets"}},
		{"a kind that the cluster does not have", selection{"a": {"example.com/v1/widgets"}}, nil},
		{"what nobody can store is left alone", selection{"a": {"/v1/bindings", "/v1/tokenreviews", "/v1/componentstatuses", "/v1/pods/log"}}, nil},
		{"what is stored and cannot be read is said", selection{"a": {"example.com/v1/gizmos", "example.com/v1/gears"}}, []string{gears, gizmos}},
		{"another version can be read", selection{"a": {"example.com/*/gadgets"}}, []string{"example.com/v1/gadgets"}},
		{"for a policy that names another version", selection{"a": {"example.com/*/gadgets"}, "b": {"example.com/v2/gadgets"}}, []string{
			"example.com/v1/gadgets", "example.com/v2/gadgets: the API server offers no watch for it",
		}},
		{"all kinds: not what changes all the time, nor reports", selection{"a": {"*/*/*"}}, []string{"/v1/pods", "/v1/secrets", "apps/v1/deployments", "autoscaling/v2/horizontalpodautoscalers", "example.com/v1/gadgets", gears, gizmos}},
		{"unless a policy names it", selection{"a": {"*/*/*"}, "b": {"/v1/events"}}, []string{"/v1/events", "/v1/pods", "/v1/secrets", "apps/v1/deployments", "autoscaling/v2/horizontalpodautoscalers", "example.com/v1/gadgets", gears, gizmos}},
		{"the version that the policy names", selection{"a": {"autoscaling/v1/*"}}, []string{"autoscaling/v1/horizontalpodautoscalers"}},
		{"one version if it is for all policies", selection{"a": {"autoscaling/*/*"}, "b": {"autoscaling/v2/*"}}, []string{"autoscaling/v2/horizontalpodautoscalers"}},
		{"each version that a policy needs", selection{"a": {"autoscaling/v1/*"}, "b": {"autoscaling/v2/*"}}, []string{"autoscaling/v1/horizontalpodautoscalers", "autoscaling/v2/horizontalpodautoscalers"}},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			var got []string
			kinds, unreadable := auditing.NewTerm(test.policies.compiled(t)).Kinds(lists, true)
			for kind, err := range unreadable {
				got = append(got, fmt.Sprintf("%s/%s/%s: %v", kind.Resource.Group, kind.Resource.Version, kind.Resource.Resource, err))
			}
			for kind, metadataOnly := range kinds {
				text := kind.Resource.Group + "/" + kind.Resource.Version + "/" + kind.Resource.Resource
				if metadataOnly {
					text += " metadata"
				}
				got = append(got, text)
			}
			slices.Sort(got)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("kinds (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAVersionThatDoesNotRespondKeepsItsPolicies has discovery that is not complete.
func TestAVersionThatDoesNotRespondKeepsItsPolicies(t *testing.T) {
	t.Parallel()
	v1, v2 := resources("example.com/v1", "gadgets"), resources("example.com/v2", "gadgets")
	term := auditing.NewTerm(selection{"every": {"example.com/*/gadgets"}, "old": {"example.com/v1/gadgets"}}.compiled(t))
	gadgets := func(version string) result.Kind {
		return result.Kind{Resource: schema.GroupVersionResource{Group: "example.com", Version: version, Resource: "gadgets"}, Kind: "gadgets"}
	}
	names := func(version string) string {
		var all []string
		for _, ref := range term.Policies(gadgets(version)) {
			all = append(all, ref.Name)
		}
		return strings.Join(all, " ")
	}
	for _, step := range []struct {
		reason   string
		lists    []*metav1.APIResourceList
		complete bool
		v1, v2   string
	}{
		{"one version is known", []*metav1.APIResourceList{v1}, false, "every old", "every"},
		{"each policy judges one", []*metav1.APIResourceList{v2, v1}, true, "old", "every"},
		{"the preferred version does not respond", []*metav1.APIResourceList{v1}, false, "old", "every"},
		{"nor does any", nil, false, "old", "every"},
		{"another version is preferred", []*metav1.APIResourceList{v1, v2}, true, "every old", ""},
		{"the preferred version is gone", []*metav1.APIResourceList{v2}, true, "every old", "every"},
	} {
		if term.Kinds(step.lists, step.complete); names("v1") != step.v1 || names("v2") != step.v2 {
			t.Errorf("%s: v1 is judged by %q, v2 by %q; want %q, %q", step.reason, names("v1"), names("v2"), step.v1, step.v2)
		}
	}
}

// resources is what discovery says of a group; after ! are the verbs, if they are not all.
func resources(version string, names ...string) *metav1.APIResourceList {
	list := &metav1.APIResourceList{GroupVersion: version}
	for _, name := range names {
		name, verbs, some := strings.Cut(name, "!")
		if !some {
			verbs = "get list watch create"
		}
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: name, Kind: name, Verbs: strings.Fields(verbs)})
	}
	return list
}

// TestKindsWithoutAStreamAreErrors has a kind that policies select and that nobody can watch.
func TestKindsWithoutAStreamAreErrors(t *testing.T) {
	t.Parallel()
	policy, err := api.Decode([]byte(`{
		"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterObjectPolicy", "metadata": {"name": "gizmos"},
		"spec": {
			"matchConstraints": {"resourceRules": [{"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["*"]}]},
			"validations": [{"expression": "object.metadata.name != 'bad'"}], "bindings": [{"name": "all", "validationActions": ["Warn"]}]
		}
	}`))
	if err != nil {
		t.Fatal(err)
	}
	compiled, _ := compile.Options{}.All(t.Context(), []api.Policy{policy})
	term := auditing.NewTerm(compiled)
	some := []*metav1.APIResourceList{resources("example.com/v1", "gizmos!get list create update delete", "reviews!create")}
	for _, step := range []struct {
		reason   string
		lists    []*metav1.APIResourceList
		complete bool
		errors   int
	}{
		{"the kind is there", some, true, 1},
		{"once", some, true, 1},
		{"its group does not respond", nil, false, 1},
		{"the kind is gone", nil, true, 0},
		{"it is there again", some, true, 1},
	} {
		ready, state, results := term.Follow(t.Context(), step.lists, step.complete)
		named := strings.Contains(ready, "  gizmos.v1.example.com: cannot be audited, since ") && strings.Contains(ready, ": the API server offers no watch for it\n")
		resource, known := state.Resources["gizmos.v1.example.com"]
		if want := step.errors > 0; named != want || known != want || resource.Readable || len(state.Resources) != step.errors || state.Results["error"] != step.errors {
			t.Errorf("%s: %+v\n%s", step.reason, state, ready)
		}
		if len(results) != step.errors {
			t.Fatalf("%s: results %+v, want %d", step.reason, results, step.errors)
		}
		for _, r := range results {
			if r.Status != result.Error || r.Policy.Name != "gizmos" || !strings.Contains(r.Message, "the API server offers no watch for it") {
				t.Errorf("%s: result %+v", step.reason, r)
			}
		}
	}
}

// TestFactChangesWaitForCaches passes changes on once, when no cache has the old object any more.
func TestFactChangesWaitForCaches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var told []string
		changes := auditing.NewFactChanges(time.Second, func(of schema.GroupVersionKind, namespace, name string) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprintf("%s %s/%s", of.Kind, namespace, name))
		})
		resolver := clusterfact.New(dynamicfake.NewSimpleDynamicClient(runtime.NewScheme()), nil, clusterfact.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		namespaces := schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
		// Noted before anybody passes them on, so that they are one.
		for range 3 {
			changes.Add(namespaces, "", "shop")
		}
		running.Go(func() { changes.Run(ctx, resolver) })
		time.Sleep(900 * time.Millisecond)
		changes.Add(namespaces, "", "bank")
		synctest.Wait()
		mu.Lock()
		if len(told) > 0 {
			t.Errorf("told too early: %v", told)
		}
		mu.Unlock()
		time.Sleep(5 * time.Second)
		// Nobody watches Secrets: they are taken to have changed from time to time.
		time.Sleep(10 * time.Minute)
		cancel()
		running.Wait()
		if diff := cmp.Diff([]string{"Namespace /shop", "Namespace /bank", "Secret /"}, told); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	})
}
