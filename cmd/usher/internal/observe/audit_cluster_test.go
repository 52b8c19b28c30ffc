package observe_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/observe"
)

// TestAuditOfAClusterSaysWhyNothing: who may not read the policies, or misspells the namespace, learns
// that, and not that there is nothing to audit.
func TestAuditOfAClusterSaysWhyNothing(t *testing.T) {
	t.Parallel()
	const policy = `apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: owner}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations: [{expression: has(object.metadata.labels), message: labels are required}]
`
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		reason string
		// forbidden is the start of the paths that the user may not read.
		forbidden string
		args      []string
		want      string
	}{
		{"no right to policies", "/apis/", []string{"-n", "bank"},
			"no policies: the cluster has none that you may list, and -p names none: you may not list 9 kinds of policies, 2 of exemptions: 4 of admissionregistration.k8s.io, 3 of policy.kcloudlabs.io, 4 of usher.dev: name policies"},
		{"that a namespace may be audited", "/apis/", []string{"-n", ""}, "-p names none (without -n: -n default audits one namespace)"},
		{"what to do about it", "/apis/usher.dev", []string{"-n", "bank"},
			"clusterpolicyexemptions.usher.dev, objectpolicies.usher.dev, policyexemptions.usher.dev: name policies with -p, or have an administrator grant you the verb list on these kinds (docs/explain.md#rights has the ClusterRole)"},
		{"no policies", "", []string{"-n", "bank"}, "no policies: the cluster has none that you may list, and -p names none"},
		{"no policies, in no namespace", "", nil, `-n: namespaces "shp" not found`},
		{"a namespace that does not exist", "", []string{"-p", file}, `-n: namespaces "shp" not found`},
		{"no right to ask", "/api/v1/namespaces/shp", []string{"-p", file}, "you may not list pods"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			s := cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}
			newRoot := func(s cli.Streams) *cobra.Command {
				root := &cobra.Command{Use: "usher"}
				root.AddCommand(observe.Audit(s))
				return root
			}
			args := append([]string{"audit", "--from-cluster", "-n", "shp", "--kubeconfig", emptyCluster(t, c.forbidden)}, c.args...)
			if status := cli.Execute(t.Context(), newRoot, s, args); status == 0 || !strings.Contains(out.String()+errs.String(), c.want) {
				t.Errorf("status %d, want %q in\n%s%s", status, c.want, &out, &errs)
			}
		})
	}
}

// TestAuditOfATenant: kinds of policies that are not those of the namespace are left out, in each format, and
// are no results: the exit status is that of what the tenant may read. Without a namespace they are errors.
func TestAuditOfATenant(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	const policy = `{"apiVersion":"usher.dev/v1alpha1","kind":"ObjectPolicy","metadata":{"name":"owner","namespace":"shp"},"spec":{
		"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["pods"]}]},
		"validations":[{"expression":"has(object.metadata.labels)"}]}}`
	if err := os.WriteFile(file, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	pod := `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"shp","labels":{}}}]}`
	for _, c := range []struct {
		args   []string
		status int
		out    string
	}{
		{[]string{"-n", "shp"}, cli.ExitOK, "left out: 1 kind of policies that you may not list, which may say something else: clusterobjectpolicies.usher.dev"},
		{[]string{"-n", "shp", "-o", "json"}, cli.ExitOK, `"leftOut": [
    "clusterobjectpolicies.usher.dev"
  ]`},
		{[]string{"-n", "shp", "-o", "markdown"}, cli.ExitOK, "Left out: 1 kind"},
		{[]string{"-n", "shp", "-o", "sarif"}, cli.ExitOK, "left out: 1 kind"},
		{[]string{"-n", "shp", "-o", "junit"}, cli.ExitOK, "usher audit: left out"},
		{nil, cli.ExitNegative, "not read: you may not list clusterobjectpolicies.usher.dev: what policies say of them is not known, and counts as an error"},
		{[]string{"-o", "json"}, cli.ExitNegative, `"message": "clusterobjectpolicies.usher.dev cannot be read: clusterobjectpolicies is forbidden"`},
	} {
		var out, errs bytes.Buffer
		s := cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}
		newRoot := func(s cli.Streams) *cobra.Command {
			root := &cobra.Command{Use: "usher"}
			root.AddCommand(observe.Audit(s))
			return root
		}
		config := clusterWith(t, "/apis/usher.dev/v1alpha1/clusterobjectpolicies", pod)
		status := cli.Execute(t.Context(), newRoot, s, append([]string{"audit", "--from-cluster", "-p", file, "--kubeconfig", config}, c.args...))
		if text := strings.Join(strings.Fields(out.String()), " "); status != c.status || !strings.Contains(text, strings.Join(strings.Fields(c.out), " ")) {
			t.Errorf("%v: status %d, want %d and %q:\n%s%s", c.args, status, c.status, c.out, &out, &errs)
		}
		if strings.Contains(errs.String(), "you may not list") {
			t.Errorf("%v: the standard error repeats what the report says: %s", c.args, &errs)
		}
	}
}

// TestAuditSkipsWhatIsNotSent: nothing is a failure that API servers do not send to Usher; what they enforce themselves is.
func TestAuditSkipsWhatIsNotSent(t *testing.T) {
	t.Parallel()
	const match = `matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}, validations: [{expression: "false", message: never}]`
	file := filepath.Join(t.TempDir(), "policies.yaml")
	if err := os.WriteFile(file, []byte(`
{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: owner}, spec: {`+match+`}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: theirs}, spec: {`+match+`}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: theirs}, spec: {policyName: theirs, validationActions: [Deny]}}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	const pod = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"%s"}}`
	pods := fmt.Sprintf(`{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[`+pod+`,`+pod+`]}`, "shp", "usher-system")
	var out, errs bytes.Buffer
	newRoot := func(s cli.Streams) *cobra.Command {
		root := &cobra.Command{Use: "usher"}
		root.AddCommand(observe.Audit(s))
		return root
	}
	s := cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}
	cli.Execute(t.Context(), newRoot, s, []string{"audit", "--from-cluster", "-p", file, "--kubeconfig", clusterWith(t, "", pods)})
	for _, want := range []string{
		"skip medium API servers do not send it to Usher: the registration leaves out the namespace of Usher (ClusterObjectPolicy owner)",
		"3 fail, 1 skip",
	} {
		if text := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s%s", want, &out, &errs)
		}
	}
}

// emptyCluster returns the kubeconfig of an API server that has pods, and not a single object. It
// forbids GETs of paths that begin with forbidden, but for discovery.
func emptyCluster(t *testing.T, forbidden string) string {
	t.Helper()
	return clusterWith(t, forbidden, `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}`)
}

// clusterWith is [emptyCluster] with pods.
func clusterWith(t *testing.T, forbidden, pods string) string {
	t.Helper()
	known := map[string]string{
		"/api":                        `{"kind":"APIVersions","versions":["v1"]}`,
		"/apis":                       `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`,
		"/api/v1":                     `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","kind":"Pod","namespaced":true,"verbs":["list"]}]}`,
		"/api/v1/namespaces/shp/pods": pods, "/api/v1/pods": pods, "/api/v1/namespaces/bank": `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"bank"}}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		switch answer, ok := known[r.URL.Path]; {
		case forbidden != "" && strings.HasPrefix(r.URL.Path, forbidden):
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"%s is forbidden"}`, name)
		case ok:
			fmt.Fprint(w, answer)
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"namespaces \"%s\" not found"}`, name)
		}
	}))
	t.Cleanup(server.Close)
	config := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":%q}}],"contexts":[{"name":"c","context":{"cluster":"c"}}],"current-context":"c"}`, server.URL)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
