package main

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/live"
)

func TestMain(m *testing.M) {
	live.Main()
	os.Exit(m.Run())
}

// policy needs the namespace of the object, which is a fact.
const policy = `{"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterObjectPolicy", "metadata": {"name": "team"}, "spec": {
	"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
		"namespaceSelector": {"matchLabels": {"env": "prod"}}},
	"validations": [{"expression": "'team' in object.metadata.?labels.orValue({})", "message": "label team is required"}]}}`

func TestEngine(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	ctx, stop := context.WithCancel(t.Context())
	e, ended := newEngine(apiServer(t), mapper(), registry), make(chan error, 1)
	go func() { ended <- e.run(ctx) }()

	for _, c := range []struct {
		reason, object, denied string
	}{
		{"the policy selects the namespace", `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "cart", "namespace": "shop"}}`, "label team is required"},
		{"it has what is required", `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "cart", "namespace": "shop", "labels": {"team": "a"}}}`, ""},
		{"another namespace", `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "cart", "namespace": "play"}}`, ""},
	} {
		result, err := e.create(ctx, decoded(t, c.object), usher.User{Name: "jane"})
		if err != nil {
			t.Fatalf("%s: %v", c.reason, err)
		}
		got := ""
		if denial := result.Denial(); denial != nil {
			got = denial.Message
		}
		if got != c.denied {
			t.Errorf("%s: denied %q, want %q", c.reason, got, c.denied)
		}
	}
	if _, err := e.create(ctx, decoded(t, `{"apiVersion": "v1", "kind": "Pot", "metadata": {"name": "cart"}}`), usher.User{}); err == nil {
		t.Error("a kind that the cluster does not have has a resource")
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	denied := 0.0
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == "usher_policy_denials_total" {
				denied += m.GetCounter().GetValue()
			}
		}
	}
	if denied != 1 {
		t.Errorf("the metrics have %v denials, want 1", denied)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("run ends with %v", err)
	}
}

// A server that refuses to list policies is tried again; who waits learns why.
func TestWaitSaysWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	client := apiServer(t)
	client.PrependReactor("list", "clusterobjectpolicies", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Group: "usher.dev", Resource: "clusterobjectpolicies"}, "", errors.New("no rule"))
	})
	e := newEngine(client, mapper(), prometheus.NewRegistry())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.run(ctx) }()
	for e.source.Unread() == nil {
		time.Sleep(time.Millisecond)
	}
	given, up := context.WithCancel(ctx)
	up()
	_, err := e.create(given, decoded(t, `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "cart"}}`), usher.User{Name: "jane"})
	if !errors.Is(err, live.ErrNotLoaded) || !apierrors.IsForbidden(err) {
		t.Errorf("error %v, want that policies may not be listed", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("run ends with %v", err)
	}
}

// apiServer is a fake one with the policy and two namespaces.
func apiServer(t *testing.T) *fake.FakeDynamicClient {
	t.Helper()
	lists := map[schema.GroupVersionResource]string{{Version: "v1", Resource: "namespaces"}: "NamespaceList"}
	for _, kind := range api.Kinds() {
		lists[kind.GroupVersionResource()] = kind.Kind + "List"
	}
	return fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, decoded(t, policy),
		decoded(t, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"env": "prod"}}}`),
		decoded(t, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "play"}}`))
}

func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, meta.RESTScopeNamespace)
	m.Add(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, meta.RESTScopeRoot)
	return m
}

func decoded(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return object
}
