package deploy_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// Who may connect to which port, and that every port that a pod listens on is there.
func TestNetworkPolicy(t *testing.T) {
	t.Parallel()
	const anybody = "anybody"
	for _, test := range []struct {
		reason string
		args   []string
		want   map[string]string
	}{
		{"by default, no address is shut out, since nobody knows those of API servers", nil, map[string]string{"webhooks": anybody, "metrics": anybody}},
		{"it is off", []string{"--set", "networkPolicy.enabled=false"}, nil},
		{
			"ports that flags open stay open", []string{"--set", "extraArgs={--authorization-address=0.0.0.0:8444,--rule-timeout=1s,--api-address=:9445,--port=9443,--metrics-bind-address=0}"},
			map[string]string{"webhooks": anybody, "8444": anybody, "9445": anybody, "9443": anybody, "metrics": anybody},
		},
		{"no metrics", []string{"--set", "networkPolicy.enabled=true,metrics.enabled=false"}, map[string]string{"webhooks": anybody}},
		{
			"API servers at some addresses", []string{"--set", "networkPolicy.enabled=true,networkPolicy.apiServerCIDRs={10.0.0.0/24,10.0.1.7/32}"},
			map[string]string{"webhooks": "10.0.0.0/24 10.0.1.7/32 ", "metrics": anybody},
		},
		{
			"everything", []string{"--values", everything},
			map[string]string{"api": "map[kubernetes.io/metadata.name:console] ", "webhooks": "10.0.0.0/8 map[kubernetes.io/metadata.name:monitoring] ", "8444": "10.0.0.0/8 ", "metrics": "map[kubernetes.io/metadata.name:monitoring] "},
		},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			objects := (&rendering{args: test.args}).objects(t)
			var got map[string]string
			for _, policy := range only[*networkingv1.NetworkPolicy](objects) {
				got = map[string]string{}
				for _, rule := range policy.Spec.Ingress {
					for _, port := range rule.Ports {
						got[port.Port.String()] += peersOf(rule.From)
					}
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("ports (-want +got):\n%s", diff)
			}
			for _, port := range one[*appsv1.Deployment](t, objects).Spec.Template.Spec.Containers[0].Ports {
				if _, ok := got[port.Name]; !ok && got != nil {
					t.Errorf("nobody may connect to port %s", port.Name)
				}
			}
		})
	}
}

// peersOf tells who is meant; no peers are everybody.
func peersOf(peers []networkingv1.NetworkPolicyPeer) string {
	text := ""
	for _, peer := range peers {
		if peer.IPBlock != nil {
			text += peer.IPBlock.CIDR + " "
		}
		if peer.NamespaceSelector != nil {
			text += fmt.Sprint(peer.NamespaceSelector.MatchLabels) + " "
		}
	}
	if text == "" {
		return "anybody"
	}
	return text
}
