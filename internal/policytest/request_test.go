package policytest_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/policytest"
)

func TestRequestsAreSentWhereAPIServersSendThem(t *testing.T) {
	t.Parallel()
	object := func(apiVersion, kind string) map[string]any {
		return map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": "a"}}
	}
	for _, row := range []struct {
		reason  string
		request policytest.Request
		// want is the group, version, resource, subresource and namespace.
		want []string
	}{
		{"the plural of the kind", policytest.Request{Object: object("networking.k8s.io/v1", "NetworkPolicy")}, []string{"networking.k8s.io", "v1", "networkpolicies", "", ""}},
		{"another resource", policytest.Request{Object: object("v1", "Sheep"), Resource: "sheep"}, []string{"", "v1", "sheep", "", ""}},
		{"a Scale of built-in kinds", policytest.Request{Object: object("autoscaling/v1", "Scale"), Resource: "deployments.apps", Subresource: "scale"}, []string{"apps", "v1", "deployments", "scale", ""}},
		{
			"a Scale of other kinds", policytest.Request{Object: object("autoscaling/v1", "Scale"), Resource: "tabs.v1beta1.example.com", Subresource: "scale"},
			[]string{"example.com", "v1beta1", "tabs", "scale", ""},
		},
		{"the group of the object", policytest.Request{Object: object("example.com/v2", "Tab"), Resource: "tabs.example.com"}, []string{"example.com", "v2", "tabs", "", ""}},
		{"a group that begins like no version", policytest.Request{Object: object("autoscaling/v1", "Scale"), Resource: "tabs.stable.example.com"}, []string{"stable.example.com", "v1", "tabs", "", ""}},
		{"the eviction of a pod", policytest.Request{Object: object("policy/v1", "Eviction")}, []string{"", "v1", "pods", "eviction", ""}},
		{"a token of a service account", policytest.Request{Object: object("authentication.k8s.io/v1", "TokenRequest")}, []string{"", "v1", "serviceaccounts", "token", ""}},
		{"a kind of another group with such a name", policytest.Request{Object: object("example.com/v1", "Eviction")}, []string{"example.com", "v1", "evictions", "", ""}},
		{"a namespace is in itself", policytest.Request{Object: object("v1", "Namespace")}, []string{"", "v1", "namespaces", "", "a"}},
		{"the namespace of the object is not looked at", policytest.Request{Object: map[string]any{
			"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "a", "namespace": "b"},
		}}, []string{"", "v1", "pods", "", ""}},
	} {
		row.request.Operation = usher.Create
		r, err := row.request.For(usher.Validate)
		if err != nil {
			t.Fatalf("%s: %v", row.reason, err)
		}
		got := []string{r.Resource.Group, r.Resource.Version, r.Resource.Resource, r.Subresource, r.Namespace}
		if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", row.reason, diff)
		}
	}
}

func TestRequestsHaveOptionsAsOfAClient(t *testing.T) {
	t.Parallel()
	pod := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "a"}}
	own := map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions", "fieldManager": "me"}
	for _, row := range []struct {
		reason  string
		request policytest.Request
		want    map[string]any
	}{
		{"of a creation", policytest.Request{Operation: usher.Create, Object: pod}, map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"}},
		{"of a dry run", policytest.Request{Operation: usher.Update, Object: pod, DryRun: true}, map[string]any{
			"apiVersion": "meta.k8s.io/v1", "kind": "UpdateOptions", "dryRun": []any{"All"},
		}},
		{"of a deletion", policytest.Request{Operation: usher.Delete, OldObject: pod}, map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "DeleteOptions"}},
		{"of a connection", policytest.Request{Operation: usher.Connect, Object: pod}, nil},
		{"as the case has them", policytest.Request{Operation: usher.Create, Object: pod, DryRun: true, Options: own}, own},
	} {
		r, err := row.request.For(usher.Validate)
		if err != nil {
			t.Fatalf("%s: %v", row.reason, err)
		}
		got, err := r.Options.Tree()
		if err != nil {
			t.Fatalf("%s: %v", row.reason, err)
		}
		if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", row.reason, diff)
		}
	}
}

func TestRequestsAreConverted(t *testing.T) {
	t.Parallel()
	hpa := map[string]any{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": map[string]any{"name": "a"}}
	kind := metav1.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "HorizontalPodAutoscaler"}
	resource := metav1.GroupVersionResource{Group: "autoscaling", Version: "v1", Resource: "horizontalpodautoscalers"}
	r, err := (&policytest.Request{Operation: usher.Create, Object: hpa, RequestKind: &kind, RequestResource: &resource}).For(usher.Validate)
	if err != nil {
		t.Fatal(err)
	}
	if r.Kind.Version != "v2" || metav1.GroupVersionKind(r.Requested) != kind || metav1.GroupVersionResource(r.RequestedResource) != resource {
		t.Errorf("the request is %v, requested as %v and %v", r.Kind, r.Requested, r.RequestedResource)
	}
}
