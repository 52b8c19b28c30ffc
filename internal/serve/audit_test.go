package serve_test

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

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/audit/result"
	clusterfact "github.com/usher-dev/usher/fact/cluster"
	"github.com/usher-dev/usher/internal/serve"
)

// A selection is which resources policies select, as group/version/resource with wildcards; those
// whose names begin with meta read metadata only.
type selection map[string][]string

func (s selection) Policies(of result.Kind) []usher.PolicyRef {
	var refs []usher.PolicyRef
	for _, name := range slices.Sorted(maps.Keys(s)) {
		for _, pattern := range s[name] {
			want := strings.Split(pattern, "/")
			got := []string{of.Resource.Group, of.Resource.Version, of.Resource.Resource}
			if !slices.EqualFunc(want, got, func(want, got string) bool { return want == "*" || want == got }) {
				continue
			}
			refs = append(refs, usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: name})
			break
		}
	}
	return refs
}

func (s selection) Selects(of result.Kind) (selects, metadataOnly bool) {
	policies := s.Policies(of)
	full := slices.ContainsFunc(policies, func(p usher.PolicyRef) bool { return !strings.HasPrefix(p.Name, "meta") })
	return len(policies) > 0, len(policies) > 0 && !full
}

func TestAuditedKinds(t *testing.T) {
	t.Parallel()
	lists := []*metav1.APIResourceList{
		resources("v1", "pods", "pods/status", "pods/log!get", "bindings!create", "events", "secrets", "componentstatuses!get list"),
		resources("apps/v1", "deployments", "deployments/scale"),
		resources("autoscaling/v2", "horizontalpodautoscalers"),
		resources("autoscaling/v1", "horizontalpodautoscalers"),
		resources("events.k8s.io/v1", "events"),
		resources("coordination.k8s.io/v1", "leases"),
		resources("openreports.io/v1alpha1", "reports"),
	}
	tests := []struct {
		reason   string
		policies selection
		want     []string
	}{
		{"no policy", selection{}, nil},
		{"one kind", selection{"a": {"/v1/pods"}}, []string{"/v1/pods"}},
		{"metadata suffices for all policies of the kind", selection{"meta-a": {"/v1/pods", "/v1/secrets"}, "b": {"/v1/secrets"}}, []string{"/v1/pods metadata", "/v1/secrets"}},
		{"a kind that the cluster does not have", selection{"a": {"example.com/v1/widgets"}}, nil},
		{"what cannot be listed and watched is left alone", selection{"a": {"/v1/bindings", "/v1/componentstatuses", "/v1/pods/log"}}, nil},
		{"all kinds: not what changes all the time, nor reports", selection{"a": {"*/*/*"}}, []string{"/v1/pods", "/v1/secrets", "apps/v1/deployments", "autoscaling/v2/horizontalpodautoscalers"}},
		{"unless a policy names it", selection{"a": {"*/*/*"}, "b": {"/v1/events"}}, []string{"/v1/events", "/v1/pods", "/v1/secrets", "apps/v1/deployments", "autoscaling/v2/horizontalpodautoscalers"}},
		{"the version that the policy names", selection{"a": {"autoscaling/v1/*"}}, []string{"autoscaling/v1/horizontalpodautoscalers"}},
		{"one version if it is for all policies", selection{"a": {"autoscaling/*/*"}, "b": {"autoscaling/v2/*"}}, []string{"autoscaling/v2/horizontalpodautoscalers"}},
		{"each version that a policy needs", selection{"a": {"autoscaling/v1/*"}, "b": {"autoscaling/v2/*"}}, []string{"autoscaling/v1/horizontalpodautoscalers", "autoscaling/v2/horizontalpodautoscalers"}},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			var got []string
			for kind, metadataOnly := range serve.Audited(lists, test.policies) {
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

// TestFactChangesWaitForCaches passes changes on once, when no cache has the old object any more.
func TestFactChangesWaitForCaches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var told []string
		changes := serve.NewFactChanges(time.Second, func(of schema.GroupVersionKind, namespace, name string) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprintf("%s %s/%s", of.Kind, namespace, name))
		})
		resolver := clusterfact.New(dynamicfake.NewSimpleDynamicClient(runtime.NewScheme()), nil, clusterfact.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { changes.Run(ctx, resolver) })
		namespaces := schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
		for range 3 {
			changes.Add(namespaces, "", "shop")
		}
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
