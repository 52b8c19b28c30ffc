package lockout_test

import (
	"slices"
	"strings"
	"testing"
)

// TestInfrastructure: the samples of add-ons are tried in the namespaces that are named, with their ServiceAccounts, and
// others where they are.
func TestInfrastructure(t *testing.T) {
	t.Parallel()
	before := check(t, installed, objectPolicy("{"+everything+"}"))
	o := installed
	o.Infrastructure = []string{"cilium", "longhorn"}
	samples := []string{"pod-network", "storage-drivers", "cluster-dns", "certificates"}
	moved := map[string]int{}
	for _, f := range check(t, o, objectPolicy("{"+everything+"}")) {
		moved[f.Namespace]++
		for _, sample := range samples {
			if f.Namespace == sample || strings.Contains(f.User, ":"+sample+":") {
				t.Errorf("%s is in the namespace of a sample", f)
			}
		}
	}
	sent := 0
	for i := range before {
		if slices.Contains(samples, before[i].Namespace) {
			sent++
		}
	}
	if sent < 20 || moved["cilium"] != sent || moved["longhorn"] != sent || moved["kube-system"] == 0 {
		t.Errorf("%d requests in namespaces of samples became %v", sent, moved)
	}
}
