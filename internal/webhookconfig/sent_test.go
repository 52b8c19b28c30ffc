package webhookconfig_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/webhookconfig"
)

// TestSentFrom: the condition that policies make says from which namespaces requests are sent, of any kind.
func TestSentFrom(t *testing.T) {
	t.Parallel()
	const cluster, tenant = "ClusterObjectPolicy", "ObjectPolicy"
	var many []string
	for i := range 30 {
		many = append(many, objectPolicy(tenant, "p", fmt.Sprint("n", i), "pods", ""))
	}
	for _, row := range []struct {
		reason   string
		policies []string
		want     rule.Namespaces
	}{
		{"all", []string{objectPolicy(cluster, "a", "", "pods", "")}, rule.Namespaces{}},
		{"one is excluded", []string{objectPolicy(cluster, "a", "", "pods", "kube-system")}, rule.Namespaces{Names: []string{"kube-system"}}},
		{
			"kinds differ in what they exclude", []string{objectPolicy(cluster, "a", "", "pods", "kube-system, other"), objectPolicy(cluster, "b", "", "configmaps", "third, kube-system")},
			rule.Namespaces{Names: []string{"kube-system"}},
		},
		{"one kind excludes nothing", []string{objectPolicy(cluster, "a", "", "pods", "kube-system"), objectPolicy(cluster, "b", "", "configmaps", "")}, rule.Namespaces{}},
		{"a tenant", []string{objectPolicy(tenant, "a", "shop", "pods", "")}, rule.Namespaces{Names: []string{"shop"}, Only: true}},
		{"a tenant where others are excluded", []string{objectPolicy(cluster, "a", "", "pods", "kube-system, shop"), objectPolicy(tenant, "b", "shop", "configmaps", "")}, rule.Namespaces{Names: []string{"kube-system"}}},
		{"bindings", []string{objectPolicy(cluster, "a", "", "pods", "") + bindingsFor("shop", "other")}, rule.Namespaces{Names: []string{"other", "shop"}, Only: true}},
		{"tenants, and a kind that excludes", append(many, objectPolicy(cluster, "a", "", "configmaps", "kube-system, n7")), rule.Namespaces{Names: []string{"kube-system"}}},
	} {
		_, v, err := webhookconfig.New(nil, mapper(), webhookconfig.Options{}).Objects(rule.Cover(following(t, strings.Join(row.policies, "---\n")).Rules()), nil)
		if err != nil {
			t.Fatal(err)
		}
		got := webhookconfig.SentFrom(v.Webhooks[0].MatchConditions)
		if diff := cmp.Diff(fmt.Sprint(row.want), fmt.Sprint(got)); diff != "" {
			t.Errorf("%s: -want +got:\n%s\n%v", row.reason, diff, v.Webhooks[0].MatchConditions)
		}
	}
}

// TestSentFromOthers: what somebody else wrote says nothing.
func TestSentFromOthers(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "true", "(", "))", "'", "request.namespace in ['a']", "x || !(has(request.namespace) && request.namespace in ['a'])",
		"!(has(request.namespace) && request.namespace in ['a']) || (true)", "!(has(request.namespace) && request.namespace in ['\x1b'])",
		"(request.resource.group == ') && (!(has(request.namespace) && request.namespace in [x])')",
		strings.Repeat("(", 1<<20), strings.Repeat(" || ", 1<<18),
	} {
		if got := webhookconfig.SentFrom([]admissionv1.MatchCondition{{Name: "namespaces-with-policies", Expression: text}}); !got.All() {
			t.Errorf("%.80q: sent from %v", text, got)
		}
	}
}
