package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/cluster"
)

var (
	configMap = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	secret    = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	node      = schema.GroupVersionKind{Version: "v1", Kind: "Node"}
	widget    = schema.GroupVersionKind{Group: "shop.example", Version: "v1", Kind: "Widget"}
)

func TestResolve(t *testing.T) {
	t.Parallel()
	objects := []runtime.Object{
		object("v1", "ConfigMap", "shop", "b", "web"),
		object("v1", "ConfigMap", "shop", "a", "web"),
		object("v1", "ConfigMap", "bank", "z", "web"),
		object("v1", "ConfigMap", "bank-2", "a", "web"),
		object("v1", "Secret", "shop", "s", "web"),
		object("v1", "Node", "", "n1", "web"),
	}
	tests := []struct {
		reason string
		ref    fact.Object
		// want is namespace/name, or nothing.
		want string
		err  string
	}{
		{"by name", fact.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "b"}, "shop/b", ""},
		{"a name that does not exist", fact.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "x"}, "", `ConfigMap "shop/x" not found`},
		{"a kind that does not exist", fact.Object{APIVersion: "v1", Kind: "Gadget", Namespace: "shop", Name: "x"}, "", `Gadget "shop/x" not found: the cluster has no kind v1 Gadget`},
		{"a version that does not exist", fact.Object{APIVersion: "v2", Kind: "ConfigMap", Namespace: "shop", Name: "b"}, "", `ConfigMap "shop/b" not found`},
		{"a kind that does not exist selects nothing by mistake", fact.Object{APIVersion: "v1", Kind: "Gadget", Selector: label("web")}, "", "the cluster has no kind v1 Gadget"},
		{"cluster-scoped by name", fact.Object{APIVersion: "v1", Kind: "Node", Name: "n1"}, "/n1", ""},
		{"without namespace only cluster-scoped kinds are found", fact.Object{APIVersion: "v1", Kind: "ConfigMap", Name: "b"}, "", `ConfigMap "b" not found: objects of this kind live in namespaces`},
		{"a namespace keeps cluster-scoped kinds away", fact.Object{APIVersion: "v1", Kind: "Node", Namespace: "shop", Name: "n1"}, "", `Node "shop/n1" not found: objects of this kind live in no namespace`},
		{"any scope finds what is cluster-scoped", fact.Object{APIVersion: "v1", Kind: "Node", Namespace: "shop", Name: "n1", AnyScope: true}, "/n1", ""},
		{"any scope keeps the namespace of what is not", fact.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "a", AnyScope: true}, "shop/a", ""},
		{"any scope stays in the namespace", fact.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "bank", Name: "a", AnyScope: true}, "", "not found"},
		{"the first by namespace and name", fact.Object{APIVersion: "v1", Kind: "ConfigMap", Selector: label("web")}, "bank/z", ""},
		{"the first of a namespace", fact.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Selector: label("web")}, "shop/a", ""},
		{"the first that is cluster-scoped", fact.Object{APIVersion: "v1", Kind: "Node", Selector: label("web")}, "/n1", ""},
		{"nothing cluster-scoped is in a namespace", fact.Object{APIVersion: "v1", Kind: "Node", Namespace: "shop", Selector: label("web")}, "", ""},
		{"nothing selected", fact.Object{APIVersion: "v1", Kind: "ConfigMap", Selector: label("db")}, "", ""},
		{"nothing of the kind", fact.Object{APIVersion: "shop.example/v1", Kind: "Widget", Selector: label("web")}, "", ""},
		{"neither name nor selector", fact.Object{APIVersion: "v1", Kind: "ConfigMap"}, "", ""},
		{"a Secret by name", fact.Object{APIVersion: "v1", Kind: "Secret", Namespace: "shop", Name: "s"}, "shop/s", ""},
		{"a Secret by selector", fact.Object{APIVersion: "v1", Kind: "Secret", Selector: label("web")}, "shop/s", ""},
	}
	for _, from := range []string{"API server", "memory"} {
		for _, test := range tests {
			t.Run(from+"/"+test.reason, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					r := cluster.New(newClient(objects...), newMapper(configMap, secret, node, widget), cluster.Options{})
					if from == "memory" {
						run(t, r)
						r.Watch([]schema.GroupVersionKind{configMap, secret, node, widget})
						synctest.Wait()
					}
					value, err := r.Resolve(t.Context(), &test.ref)
					if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
						t.Errorf("error = %v, want one with %q", err, test.err)
					}
					if test.want == "" && value != nil {
						t.Errorf("Resolve = %#v, want nil", value)
					}
					if test.want != "" && fullName(value) != test.want {
						t.Errorf("Resolve = %s, want %s", fullName(value), test.want)
					}
					if strings.Contains(fmt.Sprint(value), "managedFields") {
						t.Error("the object has managedFields")
					}
				})
			})
		}
	}
}

// TestResolveAll is about lists, such as the params of admission policies that a selector chooses.
func TestResolveAll(t *testing.T) {
	t.Parallel()
	objects := []runtime.Object{
		object("v1", "ConfigMap", "shop", "b", "db"), object("v1", "ConfigMap", "shop", "a", "web"), object("v1", "ConfigMap", "shop", "c", "web"),
		object("v1", "ConfigMap", "bank", "z", "web"), object("v1", "Node", "", "n1", "web"), object("v1", "Node", "", "n2", "web"),
	}
	for _, test := range []struct {
		reason string
		ref    fact.Object
		want   string
		err    error
	}{
		{"of all namespaces, in order", fact.Object{Kind: "ConfigMap"}, "bank/z shop/a shop/c", nil},
		{"of a namespace", fact.Object{Kind: "ConfigMap", Namespace: "shop", AnyScope: true}, "shop/a shop/c", nil},
		{"of a namespace without any", fact.Object{Kind: "ConfigMap", Namespace: "none"}, "", nil},
		{"of a kind without any", fact.Object{Kind: "Secret", Namespace: "shop"}, "", nil},
		{"cluster-scoped ones", fact.Object{Kind: "Node"}, "/n1 /n2", nil},
		{"cluster-scoped ones, for any scope", fact.Object{Kind: "Node", Namespace: "shop", AnyScope: true}, "/n1 /n2", nil},
		{"cluster-scoped ones of a namespace", fact.Object{Kind: "Node", Namespace: "shop"}, "", &fact.WrongScope{}},
		{"a namespaced kind without namespace is not selected everywhere", fact.Object{Kind: "ConfigMap", AnyScope: true}, "", &fact.WrongScope{Namespaced: true}},
		{"a kind that the cluster does not have", fact.Object{Kind: "Gadget", Namespace: "shop"}, "", &fact.NoKind{APIVersion: "v1", Kind: "Gadget"}},
	} {
		for _, from := range []string{"API server", "memory"} {
			t.Run(from+"/"+test.reason, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					r := cluster.New(newClient(objects...), newMapper(configMap, secret, node, widget), cluster.Options{})
					if from == "memory" {
						run(t, r)
						r.Watch([]schema.GroupVersionKind{configMap, node})
						synctest.Wait()
					}
					ref := test.ref
					ref.APIVersion, ref.Selector, ref.All = "v1", label("web"), true
					value, err := r.Resolve(t.Context(), &ref)
					if got, want := fmt.Sprintf("%#v", cause(err)), fmt.Sprintf("%#v", test.err); got != want {
						t.Fatalf("error = %v (%s), want %s", err, got, want)
					}
					var names []string
					list, _ := value.([]any)
					for _, o := range list {
						names = append(names, fullName(o))
					}
					if got := strings.Join(names, " "); got != test.want || list == nil && err == nil {
						t.Errorf("Resolve = %#v, want a list of %q", value, test.want)
					}
				})
			})
		}
	}
}

// cause is why an object cannot exist.
func cause(err error) error {
	if scope, ok := errors.AsType[*fact.WrongScope](err); ok {
		return scope
	}
	if missing, ok := errors.AsType[*fact.NoKind](err); ok {
		return missing
	}
	return err
}

// TestTooManyAreSelected: what one rule gets is bounded, wherever it comes from.
func TestTooManyAreSelected(t *testing.T) {
	t.Parallel()
	var objects []runtime.Object
	for i := range 1001 {
		objects = append(objects, object("v1", "ConfigMap", "shop", fmt.Sprint(i), "web"))
	}
	for _, from := range []string{"API server", "memory"} {
		t.Run(from, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := cluster.New(newClient(objects...), newMapper(configMap), cluster.Options{})
				if from == "memory" {
					run(t, r)
					r.Watch([]schema.GroupVersionKind{configMap})
					synctest.Wait()
				}
				ref := &fact.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Selector: label("web"), All: true}
				if _, err := r.Resolve(t.Context(), ref); err == nil || !strings.Contains(err.Error(), "more than 1000 objects are selected") {
					t.Errorf("error = %v, want that there are too many", err)
				}
			})
		})
	}
}

func TestResolveNoObject(t *testing.T) {
	t.Parallel()
	r := cluster.New(newClient(), newMapper(), cluster.Options{})
	if _, err := r.Resolve(t.Context(), &fact.HTTP{Method: "GET", URL: "https://h"}); err == nil {
		t.Error("an HTTP ref was resolved")
	}
}

func TestErrorsOfTheAPIServer(t *testing.T) {
	t.Parallel()
	configMaps := schema.GroupResource{Resource: "configmaps"}
	gone := apierrors.NewGenericServerResponse(404, "get", configMaps, "a", "404 page not found", 0, true)
	for _, test := range []struct {
		reason string
		err    error
		want   string
	}{
		{"no permission", apierrors.NewForbidden(configMaps, "a", errors.New("no rule")), "usher may not read configmaps: add them to the Helm value facts.resources"},
		{"a kind that cannot be read", apierrors.NewMethodNotSupported(configMaps, "get"), "does not let anybody read configmaps"},
		{"a kind that is gone", gone, "the cluster has no kind v1 ConfigMap"},
		{"anything else", errors.New("connection refused"), "connection refused"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			client := newClient()
			client.PrependReactor("*", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, test.err })
			r := cluster.New(client, newMapper(configMap), cluster.Options{})
			for _, ref := range []*fact.Object{named("ConfigMap", "shop", "a"), selected("ConfigMap", "shop")} {
				_, err := r.Resolve(t.Context(), ref)
				if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "ConfigMap") {
					t.Errorf("%s: error = %v, want one with %q", ref, err, test.want)
				}
			}
		})
	}
}

func TestKindsComeLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mapper := &resettable{RESTMapper: newMapper(), next: newMapper(widget)}
		r := cluster.New(newClient(object("shop.example/v1", "Widget", "shop", "a", "web")), mapper, cluster.Options{})
		ref := &fact.Object{APIVersion: "shop.example/v1", Kind: "Widget", Namespace: "shop", Name: "a"}
		missing := named("Gadget", "shop", "a")

		if value, err := r.Resolve(t.Context(), ref); err != nil || fullName(value) != "shop/a" {
			t.Errorf("Resolve = %v, %v: the kind is known to the next discovery", value, err)
		}
		for range 100 {
			if _, err := r.Resolve(t.Context(), missing); err == nil {
				t.Fatal("an unknown kind was resolved")
			}
		}
		if n := mapper.resets.Load(); n != 1 {
			t.Errorf("%d discoveries for a kind that does not exist, want 1", n)
		}
		time.Sleep(time.Minute)
		_, _ = r.Resolve(t.Context(), missing)
		if n := mapper.resets.Load(); n != 2 {
			t.Errorf("%d discoveries a minute later, want 2", n)
		}
	})
}

func TestDiscoveryDoesNotOutlastARequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		defer close(hang)
		r := cluster.New(newClient(), hanging{newMapper(configMap), hang}, cluster.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := r.Resolve(ctx, named("ConfigMap", "shop", "a"))
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error = %v, want that the deadline has passed", err)
		}
	})
}

func TestSelectionAsksForLabelsAndReadsAllPages(t *testing.T) {
	t.Parallel()
	client := newClient()
	var asked []string
	client.PrependReactor("list", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
		list, ok := action.(clienttesting.ListActionImpl)
		if !ok {
			return false, nil, nil
		}
		asked = append(asked, list.ListOptions.LabelSelector+" "+list.ListOptions.Continue)
		pages := map[string]*unstructured.Unstructured{
			"":  object("v1", "ConfigMap", "shop", "b", "web"),
			"2": object("v1", "ConfigMap", "shop", "a", "web"),
			"3": object("v1", "ConfigMap", "shop", "c", "web"),
		}
		page := &unstructured.UnstructuredList{Items: []unstructured.Unstructured{*pages[list.ListOptions.Continue]}}
		page.SetGroupVersionKind(configMap.GroupVersion().WithKind("ConfigMapList"))
		page.SetContinue(map[string]string{"": "2", "2": "3"}[list.ListOptions.Continue])
		return true, page, nil
	})
	r := cluster.New(client, newMapper(configMap), cluster.Options{})
	value, err := r.Resolve(t.Context(), &fact.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Selector: served{label("web")}})
	if err != nil || fullName(value) != "shop/a" {
		t.Errorf("Resolve = %s, %v, want shop/a", fullName(value), err)
	}
	if got := strings.Join(asked, ", "); got != "tier=web , tier=web 2, tier=web 3" {
		t.Errorf("asked for %q", got)
	}
}

// run runs r until the test ends.
func run(t *testing.T, r *cluster.Resolver) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() { _ = r.Run(ctx) }()
	synctest.Wait()
}

func newClient(objects ...runtime.Object) *fake.FakeDynamicClient {
	return fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		{Version: "v1", Resource: "configmaps"}:                     "ConfigMapList",
		{Version: "v1", Resource: "secrets"}:                        "SecretList",
		{Version: "v1", Resource: "nodes"}:                          "NodeList",
		{Group: "shop.example", Version: "v1", Resource: "widgets"}: "WidgetList",
	}, objects...)
}

func newMapper(kinds ...schema.GroupVersionKind) meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range kinds {
		scope := meta.RESTScopeNamespace
		if kind == node {
			scope = meta.RESTScopeRoot
		}
		mapper.Add(kind, scope)
	}
	return mapper
}

// A resettable mapper knows more once it is reset.
type resettable struct {
	meta.RESTMapper
	next   meta.RESTMapper
	resets atomic.Int32
}

func (m *resettable) Reset() {
	m.RESTMapper = m.next
	m.resets.Add(1)
}

// A hanging mapper waits.
type hanging struct {
	meta.RESTMapper
	until chan struct{}
}

func (m hanging) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	<-m.until
	return m.RESTMapper.RESTMapping(gk, versions...)
}

func object(apiVersion, kind, namespace, name, tier string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind,
		"metadata": map[string]any{
			"name": name, "labels": map[string]any{"tier": tier},
			"managedFields": []any{map[string]any{"manager": "kubectl"}},
		},
	}}
	if namespace != "" {
		o.SetNamespace(namespace)
	}
	return o
}

func named(kind, namespace, name string) *fact.Object {
	return &fact.Object{APIVersion: "v1", Kind: kind, Namespace: namespace, Name: name}
}

func selected(kind, namespace string) *fact.Object {
	return &fact.Object{APIVersion: "v1", Kind: kind, Namespace: namespace, Selector: label("web")}
}

// A label selects by the label tier, here; served selects by it in the API server too.
type label string

func (l label) Matches(tree map[string]any) bool {
	tier, _, _ := unstructured.NestedString(tree, "metadata", "labels", "tier")
	return tier == string(l)
}

func (l label) String() string { return "tier=" + string(l) }

type served struct{ label }

func (s served) LabelSelector() string { return s.String() }

func fullName(value any) string {
	tree, _ := value.(map[string]any)
	o := unstructured.Unstructured{Object: tree}
	return o.GetNamespace() + "/" + o.GetName()
}
