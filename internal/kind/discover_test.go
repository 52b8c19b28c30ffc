package kind_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/internal/kind"
)

// TestInOrder has discovery in many orders.
func TestInOrder(t *testing.T) {
	t.Parallel()
	group := func(versions ...string) *metav1.APIGroup {
		g := &metav1.APIGroup{}
		for _, v := range versions {
			g.Versions = append(g.Versions, metav1.GroupVersionForDiscovery{GroupVersion: v})
		}
		g.PreferredVersion = g.Versions[len(g.Versions)-1]
		return g
	}
	groups := []*metav1.APIGroup{group("v1"), group("apps/v1"), group("example.com/v1", "example.com/v3", "example.com/v2")}
	want := []string{"v1", "apps/v1", "example.com/v2", "example.com/v1", "example.com/v3", "a.example.org/v1", "b.example.org/v1"}
	for range 50 {
		var lists []*metav1.APIResourceList
		for _, version := range want {
			lists = append(lists, &metav1.APIResourceList{GroupVersion: version})
		}
		rand.Shuffle(len(lists), func(i, k int) { lists[i], lists[k] = lists[k], lists[i] })
		before := slices.Clone(lists)
		var got []string
		for _, list := range kind.InOrder(groups, lists) {
			got = append(got, list.GroupVersion)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
		if !slices.Equal(before, lists) {
			t.Fatal("the lists of others were sorted")
		}
	}
}
