package cluster_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/source"
	"github.com/usher-dev/usher/source/cluster"
)

var (
	overrides        = v1alpha1.GroupVersion.WithResource("overridepolicies")
	clusterOverrides = v1alpha1.GroupVersion.WithResource("clusteroverridepolicies")
	objectPolicies   = usherv1alpha1.GroupVersion.WithResource("clusterobjectpolicies")
	clusterValidates = v1alpha1.GroupVersion.WithResource("clustervalidatepolicies")
)

func TestPoliciesFollowTheCluster(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		going := policy("OverridePolicy", "shop", "b", "x: 1")
		going.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
		client := newClient(
			going,
			policy("OverridePolicy", "bank", "z", "x: 1"),
			policy("OverridePolicy", "bank-2", "a", "x: 1"),
			policy("ClusterOverridePolicy", "", "c", "x: 1"),
		)
		_, updates := run(t, client, cluster.Options{})
		settle()
		updates.expect(t, "ClusterOverridePolicy c, OverridePolicy bank/z, OverridePolicy bank-2/a, OverridePolicy shop/b")

		create(t, client, clusterValidates, policy("ClusterValidatePolicy", "", "v", ""))
		settle()
		updates.expect(t, "ClusterOverridePolicy c, ClusterValidatePolicy v, OverridePolicy bank/z, OverridePolicy bank-2/a, OverridePolicy shop/b")

		if err := client.Resource(overrides).Namespace("shop").Delete(t.Context(), "b", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		settle()
		updates.expect(t, "ClusterOverridePolicy c, ClusterValidatePolicy v, OverridePolicy bank/z, OverridePolicy bank-2/a")
	})
}

func TestPoliciesAreDecodedAsFromFiles(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := policy("ClusterOverridePolicy", "", "p", "x: 1")
		p.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl"}})
		p.SetResourceVersion("7")
		p.SetGeneration(3)
		if err := unstructured.SetNestedField(p.Object, "y", "spec", "overrideRulez"); err != nil {
			t.Fatal(err)
		}
		if err := unstructured.SetNestedField(p.Object, true, "status", "whatever"); err != nil {
			t.Fatal(err)
		}
		_, updates := run(t, newClient(p), cluster.Options{})
		settle()
		set := updates.last(t)
		if len(set.Policies) != 1 {
			t.Fatalf("policies %v", set.Policies)
		}
		got := set.Policies[0]
		want := &v1alpha1.ClusterOverridePolicy{
			TypeMeta:   metav1.TypeMeta{APIVersion: "policy.kcloudlabs.io/v1alpha1", Kind: "ClusterOverridePolicy"},
			ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "uid-p", Generation: 3},
			Spec: v1alpha1.OverridePolicySpec{OverrideRules: []v1alpha1.OverrideRule{
				{Overriders: v1alpha1.Overriders{Cue: "x: 1"}},
			}},
		}
		if diff := cmp.Diff(api.Object(want), got.Object); diff != "" {
			t.Errorf("policy (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"spec.overrideRulez"}, got.Unknown); diff != "" {
			t.Errorf("unknown fields (-want +got):\n%s", diff)
		}
		if got.Position("spec") != (api.Position{}) {
			t.Errorf("it is at %v, want nowhere", got.Position("spec"))
		}
	})
}

func TestWhatIsNoChange(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason string
		change func(p *unstructured.Unstructured)
		again  bool
	}{
		{"its resourceVersion", func(p *unstructured.Unstructured) { p.SetResourceVersion("99") }, false},
		{"its managedFields", func(p *unstructured.Unstructured) {
			p.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "other"}})
		}, false},
		{"its status", func(p *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(p.Object, "True", "status", "compiled")
		}, false},
		{"its labels are, since policies can select policies", func(p *unstructured.Unstructured) { p.SetLabels(map[string]string{"a": "b"}) }, true},
		{"its spec is", func(p *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(p.Object, []any{}, "spec", "overrideRules")
		}, true},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := policy("ClusterOverridePolicy", "", "p", "x: 1")
				client := newClient(p, policy("ClusterOverridePolicy", "", "q", "x: 1"))
				_, updates := run(t, client, cluster.Options{})
				settle()
				before := updates.last(t)
				test.change(p)
				if _, err := client.Resource(clusterOverrides).Update(t.Context(), p, metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
				settle()
				if again := updates.count() == 2; again != test.again || updates.count() > 2 {
					t.Errorf("%d updates, want another one: %t", updates.count(), test.again)
				}
				if after := updates.last(t); after.Policies[1].Object != before.Policies[1].Object {
					t.Error("the other policy has got a new object")
				}
			})
		})
	}
}

func TestChangesAreGathered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := newClient()
		_, updates := run(t, client, cluster.Options{})
		settle()
		for i := range 100 {
			create(t, client, overrides, policy("OverridePolicy", "shop", fmt.Sprint(i), "x: 1"))
			time.Sleep(10 * time.Millisecond)
		}
		settle()
		if n := updates.count(); n > 4 {
			t.Errorf("%d updates within a second", n)
		}
		if n := len(updates.last(t).Policies); n != 100 {
			t.Errorf("%d policies, want 100", n)
		}
	})
}

func TestAPolicyThatCannotBeDecoded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := policy("ClusterOverridePolicy", "", "p", "x: 1")
		never := policy("OverridePolicy", "shop", "n", "x: 1")
		never.Object["spec"] = "text"
		client := newClient(p, never)
		_, updates := run(t, client, cluster.Options{})
		settle()
		updates.expect(t, "ClusterOverridePolicy p, unreadable: OverridePolicy shop/n: decode OverridePolicy: ")

		broken := p.DeepCopy()
		broken.Object["spec"] = map[string]any{"overrideRules": "all"}
		if _, err := client.Resource(clusterOverrides).Update(t.Context(), broken, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		settle()
		updates.expect(t, "ClusterOverridePolicy p, unreadable: ClusterOverridePolicy p: decode ClusterOverridePolicy: ")
		if got := updates.last(t).Policies[0].Object.(*v1alpha1.ClusterOverridePolicy).Spec.OverrideRules[0].Overriders.Cue; got != "x: 1" {
			t.Errorf("the policy is %q, want its last good text", got)
		}

		another := broken.DeepCopy()
		another.SetUID("another")
		if _, err := client.Resource(clusterOverrides).Update(t.Context(), another, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		settle()
		if n := len(updates.last(t).Policies); n != 0 {
			t.Errorf("%d policies: the last good text belongs to another policy of the same name", n)
		}

		if _, err := client.Resource(clusterOverrides).Update(t.Context(), p, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		settle()
		updates.expect(t, "ClusterOverridePolicy p, unreadable: OverridePolicy shop/n: ")
	})
}

func TestRunEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := cluster.New(newClient(), cluster.Options{})
		if stale := s.Staleness(); stale != 0 {
			t.Errorf("stale for %s before it runs", stale)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Run(ctx, func(source.Set) {}); err != nil {
			t.Errorf("Run = %v", err)
		}
	})
}

// TestResourcesAreThoseOfTheCRDs compares the names under which policies are read with
// those that the CRDs give them.
func TestResourcesAreThoseOfTheCRDs(t *testing.T) {
	t.Parallel()
	for _, kind := range api.Kinds() {
		resource := kind.GroupVersionResource()
		file := filepath.Join("..", "..", "deploy", "crds", resource.Group+"_"+resource.Resource+".yaml")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, line := range []string{"kind: " + kind.Kind + "\n", "plural: " + resource.Resource + "\n"} {
			if !strings.Contains(string(text), line) {
				t.Errorf("%s has no line %q", file, line)
			}
		}
	}
}

func BenchmarkRead1000(b *testing.B) {
	var objects []runtime.Object
	for i := range 1000 {
		objects = append(objects, policy("OverridePolicy", "shop", fmt.Sprint(i), "x: 1"))
	}
	client := newClient(objects...)
	b.ReportAllocs()
	for b.Loop() {
		ctx, cancel := context.WithCancel(b.Context())
		if err := cluster.New(client, cluster.Options{}).Run(ctx, func(source.Set) { cancel() }); err != nil {
			b.Fatal(err)
		}
	}
}

// settle waits until changes have been handed over.
func settle() {
	time.Sleep(time.Second)
	synctest.Wait()
}

// Updates are the sets that a source has handed over.
type updates struct {
	mu   sync.Mutex
	sets []source.Set
}

func run(t *testing.T, client *fake.FakeDynamicClient, o cluster.Options) (*cluster.Source, *updates) {
	t.Helper()
	s, u := cluster.New(client, o), &updates{}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() {
		_ = s.Run(ctx, func(set source.Set) {
			u.mu.Lock()
			defer u.mu.Unlock()
			u.sets = append(u.sets, set)
		})
	}()
	return s, u
}

func (u *updates) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.sets)
}

func (u *updates) last(t *testing.T) source.Set {
	t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.sets) == 0 {
		t.Fatal("no update")
	}
	return u.sets[len(u.sets)-1]
}

// expect compares the last set with its policies and how what is unreadable begins.
func (u *updates) expect(t *testing.T, want string) {
	t.Helper()
	var got []string
	set := u.last(t)
	for _, p := range set.Policies {
		name := p.Object.GetName()
		if namespace := p.Object.GetNamespace(); namespace != "" {
			name = namespace + "/" + name
		}
		got = append(got, p.Object.GetObjectKind().GroupVersionKind().Kind+" "+name)
	}
	for _, u := range set.Unreadable {
		got = append(got, "unreadable: "+u.String())
	}
	text := strings.Join(got, ", ")
	if text != want && (!strings.Contains(want, "unreadable: ") || !strings.HasPrefix(text, want)) {
		t.Errorf("set\n%s\nwant\n%s", text, want)
	}
}

func newClient(objects ...runtime.Object) *fake.FakeDynamicClient {
	return fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), listKinds(), objects...)
}

// listKinds are those of all kinds of policy.
func listKinds() map[schema.GroupVersionResource]string {
	kinds := map[schema.GroupVersionResource]string{}
	for _, kind := range api.Kinds() {
		resource := kind.GroupVersionResource()
		kinds[resource] = kind.Kind + "List"
	}
	return kinds
}

func create(t *testing.T, client *fake.FakeDynamicClient, resource schema.GroupVersionResource, p *unstructured.Unstructured) {
	t.Helper()
	if _, err := client.Resource(resource).Namespace(p.GetNamespace()).Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func policy(kind, namespace, name, cue string) *unstructured.Unstructured {
	p := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": kind,
		"metadata": map[string]any{"name": name, "uid": "uid-" + name},
		"spec":     map[string]any{"overrideRules": []any{map[string]any{"overriders": map[string]any{"cue": cue}}}},
	}}
	if kind == "ClusterValidatePolicy" {
		p.Object["spec"] = map[string]any{"validateRules": []any{}}
	}
	if namespace != "" {
		p.SetNamespace(namespace)
	}
	return p
}
