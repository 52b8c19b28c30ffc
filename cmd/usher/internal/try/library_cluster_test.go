package try_test

import (
	"strings"
	"testing"

	"github.com/usher-dev/usher/cmd/internal/cli"
)

// TestLibraryForTenants: who may list some of the kinds in their namespace tries policies on these, and learns which
// ones are left out. Who may list none of them has tried nothing.
func TestLibraryForTenants(t *testing.T) {
	t.Parallel()
	const shop = "/api/v1/namespaces/shop"
	answers := func(pods string) map[string]string {
		return map[string]string{
			"/api": `{"kind":"APIVersions","versions":["v1"]}`, "/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`,
			"/api/v1": `{"kind":"APIResourceList","groupVersion":"v1","resources":[
				{"name":"pods","kind":"Pod","namespaced":true,"verbs":["create","delete","get","list","update"]},
				{"name":"podtemplates","kind":"PodTemplate","namespaced":true,"verbs":["create","delete","get","list","update"]}]}`,
			shop:                           `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"shop"}}`,
			"/api/v1/namespaces":           `{"kind":"NamespaceList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"shop"}}]}`,
			"/api/v1/namespaces/shpo/pods": pods, "/api/v1/namespaces/shpo/podtemplates": `{"kind":"PodTemplateList","apiVersion":"v1","metadata":{},"items":[]}`,
			shop + "/pods": pods, shop + "/podtemplates": "", "/api/v1/pods": "", "/api/v1/podtemplates": "",
		}
	}
	const noPods = `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}`
	for _, row := range []struct {
		reason, pods, namespace string
		status                  int
		out, note               string
	}{
		{"left out", noPods, "shop", cli.ExitOK, "0 would be refused", "you may not list podtemplates: these are left out"},
		{"nothing is readable", "", "shop", cli.ExitNegative, "not tried: pods cannot be read: ", ""},
		{"a namespace that does not exist", noPods, "shpo", cli.ExitUnusable, "", `-n: namespaces "shpo" not found: did you mean shop?`},
		{"of all namespaces", noPods, "", cli.ExitNegative, "not tried: podtemplates cannot be read: ", ""},
	} {
		stdout, stderr, status := executed(t, []string{"try", "pod-security-baseline", "--from-cluster", "-n", row.namespace, "--kubeconfig", kubeconfig(t, answers(row.pods))})
		if status != row.status || !strings.Contains(stdout, row.out) || !strings.Contains(stderr, row.note) || strings.Contains(row.note, "left out") != strings.Contains(stderr, "these are left out") {
			t.Errorf("%s: status %d, want %d, %q and %q:\n%s%s", row.reason, status, row.status, row.out, row.note, stdout, stderr)
		}
	}
}
