package try_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/usher-dev/usher/cmd/internal/cli"
)

// TestObjectsOfFilesLackDefaults: users who ask about a cluster learn that an object is not as its API
// server would have it, unless it is.
func TestObjectsOfFilesLackDefaults(t *testing.T) {
	t.Parallel()
	const policy = `apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: owner}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [pods]}]
  validations: [{expression: "object != null && object.spec.restartPolicy == 'Always'", message: restart}]
`
	written := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"shop"},"spec":{"restartPolicy":"Never","containers":[]}}`
	stored := strings.Replace(written, `"name":"p"`, `"name":"p","uid":"e2d1"`, 1)
	review := fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","kind":{"version":"v1","kind":"Pod"},`+
		`"resource":{"version":"v1","resource":"pods"},"name":"p","namespace":"shop","operation":"CREATE","userInfo":{},"object":%s}}`, written)
	exempt := []string{"--reason", "r", "--owner", "o"}
	for _, c := range []struct {
		reason  string
		command string
		cluster bool
		object  string
		more    []string
		want    bool
	}{
		{"as a user wrote it", "decide", true, written, nil, true},
		{"of explain", "explain", true, written, nil, true},
		{"of exempt", "exempt", true, written, exempt, true},
		{"beside output for machines", "explain", true, written, []string{"-o", "json"}, true},
		{"as it is stored", "explain", true, stored, nil, false},
		{"as the API server sent it", "explain", true, review, nil, false},
		{"of an object that goes", "explain", true, written, []string{"--operation", "DELETE"}, false},
		{"without a cluster, users try policies", "explain", false, written, nil, false},
	} {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for name, text := range map[string]string{"policy.yaml": policy, "pod.yaml": c.object} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			args := append([]string{c.command, "-p", filepath.Join(dir, "policy.yaml"), "-f", filepath.Join(dir, "pod.yaml")}, c.more...)
			if c.cluster {
				args = append(args, "--from-cluster", "--kubeconfig", emptyCluster(t))
			}
			stderr, status := execute(t, args)
			const text = "pod.yaml is judged as written, without the defaults that API servers set"
			if got := strings.Count(stderr, text); status == cli.ExitUnusable || got > 1 || got == 1 != c.want || strings.Count(stderr, "\n") != got {
				t.Errorf("status %d, said %d times, want %t:\n%s", status, got, c.want, stderr)
			}
		})
	}
}

// TestObjectsOfClusters are named as for kubectl, by all commands that decide.
func TestObjectsOfClusters(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	const policy = `apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: restarts}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations: [{expression: "object.spec.restartPolicy == 'Always' || has(object.status)", message: restart}]
`
	if err := os.WriteFile(file, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"decide", "pod/stored"}, cli.ExitNegative, ""},
		{[]string{"explain", "po", "stored"}, cli.ExitNegative, ""},
		{[]string{"exempt", "pod/stored", "--reason", "r", "--owner", "o"}, cli.ExitOK, ""},
		{[]string{"explain", "pod/other"}, cli.ExitUnusable, `--from-cluster: namespace shop: pods "other" not found: if it was refused, name its file with -f`},
		{[]string{"explain", "pod/other", "-n", "shp"}, cli.ExitUnusable, `--from-cluster: namespaces "shp" not found`},
		{[]string{"decide", "pdo/stored"}, cli.ExitUnusable, `no matches for /, Resource=pdo`},
	} {
		args := append([]string{c.args[0], "-n", "shop", "-p", file}, c.args[1:]...)
		args = append(args, "--from-cluster", "--kubeconfig", emptyCluster(t))
		if stderr, status := execute(t, args); status != c.status || !strings.Contains(stderr, c.says) || c.says == "" && stderr != "" {
			t.Errorf("%v: status %d, %s", c.args, status, stderr)
		}
	}
}

// tenantPolicy is one of the namespace shop.
const tenantPolicy = `{"apiVersion":"usher.dev/v1alpha1","kind":"ObjectPolicy","metadata":{"name":"named","namespace":"shop"},"spec":{
		"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["*"],"resources":["configmaps"]}]},
		"validations":[{"expression":"oldObject != null || object.metadata.name != 'closed'","message":"closed"}]}}`

// tenantCluster returns the kubeconfig of an API server whose user may list ObjectPolicies in the namespace shop alone.
func tenantCluster(t *testing.T) string {
	t.Helper()
	const group = "/apis/usher.dev/v1alpha1/"
	return kubeconfig(t, map[string]string{
		"/api": `{"kind":"APIVersions","versions":["v1"]}`, "/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`,
		"/api/v1":                       `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"namespaces","kind":"Namespace","verbs":["get"]}]}`,
		selfReview:                      jane,
		"/api/v1/namespaces/default":    `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"default"}}`,
		"/api/v1/namespaces/shop":       `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"shop","labels":{"kubernetes.io/metadata.name":"shop"}}}`,
		group + "clusterobjectpolicies": "", group + "objectpolicies": "", group + "policyexemptions": "", group + "namespaces/shop/policyexemptions": "",
		group + "namespaces/shop/objectpolicies": `{"apiVersion":"usher.dev/v1alpha1","kind":"ObjectPolicyList","metadata":{},"items":[` + tenantPolicy + `]}`,
	})
}

// TestTenants: who may list policies in one namespace asks about these, and learns what is left out.
func TestTenants(t *testing.T) {
	t.Parallel()
	config := tenantCluster(t)
	const leftOut = "warning: you may not list clusterobjectpolicies.usher.dev, policyexemptions.usher.dev: these are left out\n"
	const mayRefuse = "note: policies that you may not list may refuse it: the answer of the API server names them or, where pods are refused, the Events of their owner: 'kubectl get events -n shop', "
	for _, c := range []struct {
		reason, command, name, namespace string
		status                           int
		want                             []string
	}{
		{"explain", "explain", "closed", "shop", 1, []string{leftOut}},
		{"decide", "decide", "closed", "shop", 1, []string{leftOut}},
		{"exempt", "exempt", "closed", "shop", 0, []string{leftOut, mayRefuse}},
		{"nothing refuses it here", "exempt", "open", "shop", 1, []string{"open: no policy that you may read refuses it; 1 kind of policies could not be read", "policies that Usher reads from files are not seen here: name these files with -p"}},
		{"the namespace is that of the object", "decide", "closed", "", 1, []string{leftOut}},
		{"that of the object is it", "decide", "closed", "default", 1, []string{leftOut}},
		{"another policy may refuse it", "decide", "open", "shop", 0, []string{leftOut, mayRefuse}},
		{"it may be explained", "explain", "open", "shop", 0, []string{leftOut, mayRefuse}},
	} {
		file := filepath.Join(t.TempDir(), "object.yaml")
		if err := os.WriteFile(file, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":"shop"}}`, c.name), 0o600); err != nil {
			t.Fatal(err)
		}
		args := []string{c.command, "-f", file, "--from-cluster", "--kubeconfig", config}
		if c.namespace != "" {
			args = append(args, "-n", c.namespace)
		}
		if c.command == "exempt" {
			args = append(args, "--reason", "r", "--owner", "o", "--namespaced")
		}
		stderr, status := execute(t, args)
		if c.status == 1 && c.command != "exempt" && strings.Contains(stderr, mayRefuse) {
			t.Errorf("%s: it is refused by a policy that is known, and yet:\n%s", c.reason, stderr)
		}
		for _, want := range c.want {
			if status != c.status || !strings.Contains(stderr, want) || strings.Count(stderr, "these are left out") > 1 || strings.Contains(stderr, "needs no exemption") {
				t.Errorf("%s: status %d, want %d and %q:\n%s", c.reason, status, c.status, want, stderr)
			}
		}
	}
}

// TestTenantsWithoutPolicies: who may list no policies learns that there is no such object, or how to see what refuses it.
func TestTenantsWithoutPolicies(t *testing.T) {
	t.Parallel()
	forbidden := shop()
	for _, kind := range []string{"clusterobjectpolicies", "objectpolicies", "namespaces/shop/objectpolicies"} {
		forbidden["/apis/usher.dev/v1alpha1/"+kind] = ""
	}
	const none = "no policies: the cluster has none that you may list, and -p names none"
	file := filepath.Join(t.TempDir(), "web.yaml")
	if err := os.WriteFile(file, []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		reason, object, namespace string
		config                    map[string]string
		want, never               string
	}{
		{"stored", "pod/stored", "shop", forbidden, "note: policies that you may not list may refuse it: the answer of the API server names them or, where pods are refused, the Events of their owner: " +
			"'kubectl get events -n shop', 'usher watch -n shop' (needs the Role usher-connect, or --server). Send that to the people who administer the cluster, who can exempt it: " +
			"'usher exempt --from-cluster pod/stored -n shop --reason REASON --owner OWNER'", "not found"},
		{"its end", "pod/stored", "shop", forbidden, none + ": you may not list clusterobjectpolicies.usher.dev, objectpolicies.usher.dev: name policies with -p", "not found"},
		{"misspelled", "pod/stord", "shop", forbidden, "--from-cluster: namespace shop: ", none},
		{"in no namespace", "pod/stored", "shp", forbidden, `--from-cluster: namespaces "shp" not found`, none},
		{"a file", file, "", forbidden, "'kubectl get events -n shop', 'usher watch -n shop' (needs the Role usher-connect, or --server). Send that to the people who administer the cluster, who can exempt it: " +
			"'usher exempt --from-cluster -f " + file + " -n shop --reason REASON --owner OWNER'", "-n default"},
		{"nothing is forbidden", "pod/stored", "shop", shop(), none, "kubectl get events"},
	} {
		for _, command := range []string{"decide", "explain", "exempt"} {
			args := []string{command, c.object, "--from-cluster", "--kubeconfig", kubeconfig(t, c.config)}
			if c.namespace != "" {
				args = append(args, "-n", c.namespace)
			}
			if command == "exempt" {
				args = append(args, "--reason", "r", "--owner", "o")
			}
			stderr, status := execute(t, args)
			if status != cli.ExitUnusable || !strings.Contains(stderr, c.want) || strings.Contains(stderr, c.never) {
				t.Errorf("%s %s: status %d, want %q and not %q:\n%s", command, c.reason, status, c.want, c.never, stderr)
			}
		}
	}
}

// TestAllowedByWhatIsRead: where kinds of policies could not be read, no verdict is a plain "allowed".
func TestAllowedByWhatIsRead(t *testing.T) {
	t.Parallel()
	config := tenantCluster(t)
	file := filepath.Join(t.TempDir(), "object.yaml")
	if err := os.WriteFile(file, []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"open"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"decide", "explain"} {
		for output, want := range map[string]string{
			"text": "ConfigMap shop/open: allowed by the policies that you may read\n",
			"json": `"leftOut":["clusterobjectpolicies.usher.dev"]`,
		} {
			out, stderr, status := executed(t, []string{command, file, "-n", "shop", "--from-cluster", "--kubeconfig", config, "-o", output})
			if output == "json" {
				out = strings.Join(strings.Fields(out), "")
			} else if !strings.Contains(out, "hint: no policy that you may read refuses it; 1 kind of policies could not be read") {
				t.Errorf("%s: no hint:\n%s", command, out)
			}
			if status != cli.ExitOK || !strings.Contains(out, want) {
				t.Errorf("%s -o %s: status %d, want %q:\n%s%s", command, output, status, want, out, stderr)
			}
		}
	}
}

// TestDeniedPods: a workload whose pods are denied is no object that nothing refuses: what exempts it is told.
func TestDeniedPods(t *testing.T) {
	t.Parallel()
	dir, config := t.TempDir(), tenantCluster(t)
	for _, row := range []struct{ podTemplates, name, command, reason string }{
		{"", "evil", "deployment/evil -n shop", "its pods are denied"},
		{"podTemplates: Warn, ", "evil", "deployment/evil -n shop", "a warning"},
		{"", "$(id); it's\x1b[2J", `'deployment/$(id); it'\''s\x1b[2J' -n shop`, "a name that shells would run"},
	} {
		files := map[string]string{
			"policy.yaml": `{apiVersion: usher.dev/v1alpha1, kind: ObjectPolicy, metadata: {name: registries, namespace: shop}, spec: {` + row.podTemplates + `
				matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]},
				validations: [{expression: "false", message: "no pods"}]}}`,
			"evil.yaml": `{apiVersion: apps/v1, kind: Deployment, metadata: {name: ` + strconv.Quote(row.name) + `, namespace: shop}, spec: {selector: {matchLabels: {app: x}},
				template: {metadata: {labels: {app: x}}, spec: {containers: [{name: a, image: a}]}}}}`,
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		out, stderr, _ := executed(t, []string{"decide", "-p", filepath.Join(dir, "policy.yaml"), "-f", filepath.Join(dir, "evil.yaml"), "-n", "shop", "--from-cluster", "--kubeconfig", config})
		want := "hint: its pods are refused by ObjectPolicy shop/registries: usher exempt --from-cluster " + row.command + " --reason WHY --owner WHO exempts them\n"
		if !strings.Contains(out, want) || strings.Contains(out, "no policy that you may read refuses it") {
			t.Errorf("%s: want %q:\n%s%s", row.reason, want, out, stderr)
		}
	}
}

// TestNamespaceOfRequests: objects of namespaced kinds that name no namespace are in that of the kubeconfig, and
// without a cluster there is a note if a policy would be for them in its namespace.
func TestNamespaceOfRequests(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "kubeconfig")
	text, err := os.ReadFile(tenantCluster(t))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		config:                            strings.Replace(string(text), `{"cluster":"c"}`, `{"cluster":"c","namespace":"shop"}`, 1),
		filepath.Join(dir, "policy.yaml"): tenantPolicy,
		filepath.Join(dir, "map.yaml"):    `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"closed"}}`,
		filepath.Join(dir, "other.yaml"):  `{"apiVersion":"v1","kind":"Service","metadata":{"name":"closed"}}`,
		filepath.Join(dir, "pv.yaml"):     `{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"closed"}}`,
	}
	for file, text := range files {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const note = "note: CREATE v1 ConfigMap closed names no namespace, so that it is judged as one of namespace default: -n shop says where it is\n"
	own := []string{"-p", filepath.Join(dir, "policy.yaml")}
	inCluster := []string{"--from-cluster", "--kubeconfig", config}
	for _, c := range []struct {
		reason, file string
		more         []string
		status       int
		stderr, out  string
	}{
		{"that of the kubeconfig", "map.yaml", inCluster, cli.ExitNegative, "", "ConfigMap shop/closed: denied"},
		{"that of -n", "map.yaml", append(own[:2:2], "-n", "shop"), cli.ExitNegative, "", "ConfigMap shop/closed: denied"},
		{"another one of -n", "map.yaml", append(own[:2:2], "-n", "other"), cli.ExitOK, "", "ConfigMap other/closed: allowed\n"},
		{"none", "map.yaml", own, cli.ExitOK, note, "ConfigMap default/closed: allowed\n"},
		{"none, and the policy is for other kinds", "other.yaml", own, cli.ExitOK, "", "Service default/closed: allowed\n"},
		{"a cluster-scoped kind", "pv.yaml", append(own[:2:2], "-n", "shop"), cli.ExitOK, "", "PersistentVolume closed: allowed\n"},
	} {
		out, stderr, status := executed(t, append([]string{"decide", filepath.Join(dir, c.file)}, c.more...))
		if status != c.status || strings.Contains(stderr, note) != (c.stderr != "") || !strings.Contains(out, c.out) {
			t.Errorf("%s: status %d, want %d, %q and %q:\n%s%s", c.reason, status, c.status, c.out, c.stderr, out, stderr)
		}
	}
}

// TestLeftOutNamespaces are the one of Usher, and others that the registration in the cluster leaves out by name.
func TestLeftOutNamespaces(t *testing.T) {
	t.Parallel()
	const at = "/apis/admissionregistration.k8s.io/v1/"
	elsewhere := shop()
	elsewhere[at+"validatingwebhookconfigurations/usher"] = `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","metadata":{"name":"usher","labels":{"app.kubernetes.io/managed-by":"usher"}},"webhooks":[
		{"name":"validate-policies.usher.dev"},{"name":"validate.usher.dev","namespaceSelector":{"matchLabels":{"env":"prod"},"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"NotIn","values":["policy"]}]}}]}`
	file := filepath.Join(t.TempDir(), "policy.yaml")
	const cluster = `{"apiVersion":"usher.dev/v1alpha1","kind":"ClusterObjectPolicy","metadata":{"name":"none"},"spec":{
		"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["*"],"resources":["pods"]}]},"validations":[{"expression":"false"}]}}`
	if err := os.WriteFile(file, []byte(cluster), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		cluster   map[string]string
		namespace string
		unsent    bool
	}{{shop(), "usher-system", true}, {shop(), "policy", false}, {elsewhere, "policy", true}, {elsewhere, "usher-system", false}} {
		c.cluster["/api/v1/namespaces/"+c.namespace+"/pods/stored"] = strings.Replace(c.cluster["/api/v1/namespaces/shop/pods/stored"], `"shop"`, `"`+c.namespace+`"`, 1)
		for _, command := range []string{"decide", "explain"} {
			out, stderr, status := executed(t, []string{command, "pod/stored", "-p", file, "-n", c.namespace, "--from-cluster", "--kubeconfig", kubeconfig(t, c.cluster)})
			if status != cli.ExitNegative || strings.Contains(out, "not sent to Usher, whose policies would deny it") != c.unsent {
				t.Errorf("%s -n %s: status %d, not sent: want %t:\n%s%s", command, c.namespace, status, c.unsent, out, stderr)
			}
		}
	}
}

func execute(t *testing.T, args []string) (stderr string, status int) {
	t.Helper()
	_, stderr, status = executed(t, args)
	return stderr, status
}

func executed(t *testing.T, args []string) (stdout, stderr string, status int) {
	t.Helper()
	var out, errs bytes.Buffer
	s := cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}
	status = cli.Execute(t.Context(), newRoot, s, args)
	return out.String(), errs.String(), status
}

// emptyCluster returns the kubeconfig of an API server that has the namespace shop and nothing else.
func emptyCluster(t *testing.T) string {
	t.Helper()
	return kubeconfig(t, shop())
}

// shop are the answers of an API server that has the namespace shop, and a pod in it.
func shop() map[string]string {
	return map[string]string{
		"/api":                                `{"kind":"APIVersions","versions":["v1"]}`,
		"/apis":                               `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`,
		"/api/v1":                             `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"namespaces","kind":"Namespace","verbs":["get"]},{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","shortNames":["po"],"verbs":["get"]}]}`,
		selfReview:                            jane,
		"/api/v1/namespaces/shop/pods/stored": `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"stored","namespace":"shop","uid":"e2d1"},"spec":{"restartPolicy":"Never","containers":[]},"status":{"phase":"Running"}}`,
		"/api/v1/namespaces/default":          `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"default"}}`,
		"/api/v1/namespaces/shop":             `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"shop","labels":{"kubernetes.io/metadata.name":"shop"}}}`,
	}
}

// kubeconfig returns that of an API server with these answers, an empty one of which is 403; all others
// are 404.
func kubeconfig(t *testing.T, known map[string]string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch answer, ok := known[r.URL.Path]; {
		case ok && answer == "":
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)
			return
		case ok:
			fmt.Fprint(w, answer)
			return
		}
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"%s \"%s\" not found"}`, path.Base(path.Dir(r.URL.Path)), path.Base(r.URL.Path))
	}))
	t.Cleanup(server.Close)
	config := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":%q}}],"contexts":[{"name":"c","context":{"cluster":"c"}}],"current-context":"c"}`, server.URL)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
