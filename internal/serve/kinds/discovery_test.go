package kinds_test

import (
	"log/slog"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubefake "k8s.io/client-go/kubernetes/fake"

	"github.com/usher-dev/usher/internal/rule/authz"
	"github.com/usher-dev/usher/internal/serve/kinds"
)

func TestScopesAreThoseOfDiscovery(t *testing.T) {
	t.Parallel()
	kube := kubefake.NewClientset()
	kube.Resources = []*metav1.APIResourceList{
		{GroupVersion: "example.com/v1", APIResources: []metav1.APIResource{
			{Name: "widgets", Kind: "Widget", Namespaced: true}, {Name: "widgets/status", Kind: "Widget"}, {Name: "farms", Kind: "Farm"},
		}},
	}
	d := kinds.Discover(kube.Discovery(), slog.New(slog.DiscardHandler))
	d.Read()
	for resource, want := range map[string]authz.Scope{
		"widgets": authz.ScopeNamespace, "farms": authz.ScopeCluster, "others": authz.ScopeUnknown, "widgets/status": authz.ScopeUnknown,
	} {
		if got := d.Scope("example.com", resource); got != want {
			t.Errorf("%s: scope %d, want %d", resource, got, want)
		}
	}
}
