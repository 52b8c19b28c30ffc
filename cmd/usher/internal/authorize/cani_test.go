package authorize_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/authorize"
)

// An API server that has no policies in its API, lets jane read secrets by RBAC, and denies it by
// an authorizer of its own.
func apiServer(t *testing.T) (kubeconfig string) {
	t.Helper()
	answers := map[string]string{
		"/apis/rbac.authorization.k8s.io/v1/clusterroles": `{"kind": "ClusterRoleList", "items": [
			{"metadata": {"name": "read"}, "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}]}]}`,
		"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings": `{"kind": "ClusterRoleBindingList", "items": [
			{"metadata": {"name": "read"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "read"},
			"subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane"}]}]}`,
		"/apis/rbac.authorization.k8s.io/v1/roles":           `{"kind": "RoleList", "items": []}`,
		"/apis/rbac.authorization.k8s.io/v1/rolebindings":    `{"kind": "RoleBindingList", "items": []}`,
		"/apis/authorization.k8s.io/v1/subjectaccessreviews": `{"kind": "SubjectAccessReview", "status": {"allowed": false, "denied": true, "reason": "denied by policy no-secrets (cluster)"}}`,
	}
	return answering(t, answers, "")
}

// answering returns the kubeconfig of an API server with these answers. What is not among them and has the prefix is
// forbidden, unless that is empty, and the rest is not found.
func answering(t *testing.T, answers map[string]string, forbidden string) (kubeconfig string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer, ok := answers[r.URL.Path]
		switch {
		case ok:
		case forbidden != "" && strings.HasPrefix(r.URL.Path, forbidden):
			w.WriteHeader(http.StatusForbidden)
			answer = `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "message": "you cannot list this", "code": 403}`
		default:
			w.WriteHeader(http.StatusNotFound)
			answer = `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "message": "not found", "code": 404}`
		}
		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c", "namespace": "shop"}}],
		"clusters": [{"name": "c", "cluster": {"server": "` + server.URL + `"}}], "users": [{"name": "c", "user": {}}]}`
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// TestTheClusterAnswersDifferently asks about a denial by a policy in a file of the API server.
func TestTheClusterAnswersDifferently(t *testing.T) {
	t.Parallel()
	kubeconfig := apiServer(t)
	policies := filepath.Join(t.TempDir(), "policy.yaml")
	const policy = `{apiVersion: usher.dev/v1alpha1, kind: ClusterAuthorizationPolicy, metadata: {name: no-secrets},
  spec: {effect: Deny, subjects: [{users: [%s]}], rules: [{verbs: [get], apiGroups: [""], resources: [secrets]}]}}`
	deny := func(user string) string { return strings.Replace(policy, "%s", user, 1) }
	for _, row := range []struct {
		reason, policy string
		args           []string
		status         int
		first, last    string
	}{
		{
			"nobody named the policies of the files", "", nil, cli.ExitDisputed,
			"THE CLUSTER ANSWERS DIFFERENTLY: not allowed: denied by policy no-secrets (cluster)", `From what is known here: ALLOWED by rbac: RBAC: allowed by ClusterRoleBinding "read" of ClusterRole "read" to User "jane"`,
		},
		{
			"what if it were for somebody else", deny("joe"), []string{"-p", policies}, cli.ExitOK,
			"ALLOWED by rbac: ", "Note: the cluster, which may not have these policies and roles, says: not allowed: denied by policy no-secrets (cluster)",
		},
		{
			"the policies of the cluster", deny("jane"), []string{"-p", policies}, cli.ExitNegative,
			"DENIED by usher (deny): denied by policy no-secrets (cluster)", "DENIED by usher (deny): denied by policy no-secrets (cluster)",
		},
	} {
		if err := os.WriteFile(policies, []byte(row.policy), 0o600); err != nil {
			t.Fatal(err)
		}
		ask := func(more ...string) (status int, out string) {
			args := append([]string{"can-i", "get", "secrets/db", "-n", "pay", "--as", "jane", "--kubeconfig", kubeconfig}, row.args...)
			status, out, stderr := run(t, append(args, more...)...)
			if status == cli.ExitUnusable {
				t.Fatalf("%s: %s", row.reason, stderr)
			}
			return status, out
		}
		status, out := ask()
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if status != row.status || !strings.HasPrefix(lines[0], row.first) || lines[len(lines)-1] != row.last {
			t.Errorf("%s: exit status %d, not %d, and:\n%s", row.reason, status, row.status, out)
		}
		status, out = ask("-o", "json")
		var report struct{ WhatIf bool }
		if err := json.Unmarshal([]byte(out), &report); err != nil || status != row.status || report.WhatIf != (row.args != nil) {
			t.Errorf("%s: as JSON exit status %d, %v:\n%s", row.reason, status, err, out)
		}
	}
}

// tenantServer is an API server whose user may list the namespace shop only.
func tenantServer(t *testing.T) (kubeconfig string) {
	t.Helper()
	const rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/"
	return answering(t, map[string]string{
		rbac + "roles": `{"kind": "RoleList", "items": [
			{"metadata": {"name": "read", "namespace": "shop"}, "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}]}]}`,
		rbac + "rolebindings": `{"kind": "RoleBindingList", "items": [
			{"metadata": {"name": "read", "namespace": "shop"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "read"},
			"subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane"}]},
			{"metadata": {"name": "edit", "namespace": "shop"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
			"subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane"}]}]}`,
		"/apis/usher.dev/v1alpha1/namespaces/shop/authorizationpolicies":          `{"kind": "AuthorizationPolicyList", "apiVersion": "usher.dev/v1alpha1", "items": []}`,
		"/apis/authentication.k8s.io/v1/selfsubjectreviews":                       `{"kind": "SelfSubjectReview", "status": {"userInfo": {"username": "jane"}}}`,
		"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":                  `{"kind": "SelfSubjectAccessReview", "status": {"allowed": true}}`,
		"/apis/authorization.k8s.io/v1/namespaces/shop/localsubjectaccessreviews": `{"kind": "LocalSubjectAccessReview", "status": {"allowed": true, "reason": "by a test"}}`,
		"/api/v1/namespaces/shop":                                                 `{"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "shop"}}`,
		"/api/v1/namespaces":                                                      `{"kind": "NamespaceList", "apiVersion": "v1", "items": [{"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "shop"}}]}`,
	}, "/apis/")
}

// run runs a command of usher authz.
func run(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	status = cli.Execute(t.Context(), func(s cli.Streams) *cobra.Command {
		root := &cobra.Command{Use: "usher"}
		root.AddCommand(authorize.Command(s))
		return root
	}, cli.Streams{Out: &out, Err: &err}, append([]string{"authz"}, args...))
	return status, out.String(), err.String()
}

// TestTenantAsksWhoCan: subjects of roles that the user may not read are not left out in silence.
func TestTenantAsksWhoCan(t *testing.T) {
	t.Parallel()
	kubeconfig := tenantServer(t)
	const unlisted, unread = "incomplete: you may not list clusterauthorizationpolicies, clusterroles, clusterrolebindings: ",
		"incomplete: roles could not be read, subjects bound to them may be able to as well: ClusterRole edit\n"
	for _, row := range []struct {
		reason  string
		args    []string
		status  int
		out     string
		unread  bool
		unknown int
	}{
		{"somebody is found", []string{"get", "secrets/db", "-n", "shop"}, cli.ExitOK, "SUBJECT    VIA  ", true, 1},
		{"nobody is found", []string{"delete", "configmaps/keep", "-n", "shop"}, cli.ExitUnusable, "By what you may read, nobody may delete configmaps keep in namespace shop, ", true, 1},
		{"RoleBindings do not count", []string{"get", "nodes/a"}, cli.ExitUnusable, "By what you may read, nobody may ", false, 0},
	} {
		args := append([]string{"who-can", "--kubeconfig", kubeconfig}, row.args...)
		status, stdout, stderr := run(t, args...)
		if status != row.status || !strings.HasPrefix(stdout, row.out) || !strings.Contains(stdout, "\n"+unlisted) || strings.HasSuffix(stdout, "\n"+unread) != row.unread {
			t.Errorf("%s: exit status %d, not %d, and:\n%s%s", row.reason, status, row.status, stdout, stderr)
		}
		_, stdout, _ = run(t, append(args, "-o", "json")...)
		var report struct {
			Incomplete bool
			Unknown    []struct{ Kind, Name, Via string }
		}
		if err := json.Unmarshal([]byte(stdout), &report); err != nil || !report.Incomplete || len(report.Unknown) != row.unknown {
			t.Errorf("%s: as JSON %v:\n%s", row.reason, err, stdout)
		}
	}
	// Files are complete.
	if _, stdout, _ := run(t, "who-can", "get", "pods", "--rbac", "../../../../examples"); strings.Contains(stdout, "incomplete") {
		t.Errorf("from files:\n%s", stdout)
	}
}

// TestTenantAsks: a user who may list a namespace only is answered by what is in it, and told what is not.
func TestTenantAsks(t *testing.T) {
	t.Parallel()
	kubeconfig := tenantServer(t)
	for _, row := range []struct {
		reason   string
		args     []string
		status   int
		out, err string
	}{
		{"stages whose answer is not known", []string{"delete", "configmaps/keep", "-n", "shop", "--explain"}, cli.ExitOK, "ALLOWED (as the cluster answers)\nFrom what you may read: " +
			`NOT ALLOWED by anybody: RBAC: clusterrole "edit" could not be read` + "\ndelete configmaps keep in namespace shop by jane ()\n" +
			" 1 node            no opinion\n 2 usher (deny)    not known  you may not list clusterauthorizationpolicies\n" +
			` 3 rbac            not known  RBAC: clusterrole "edit" could not be read; you may not list clusterrolebindings` + "\n" +
			" 4 usher (allow)   not known  you may not list clusterauthorizationpolicies\n", ""},
		{"in the namespace", []string{"get", "secrets/db", "-n", "shop"}, cli.ExitOK, "ALLOWED by rbac", "warning: you may not list clusterauthorizationpolicies, clusterroles, clusterrolebindings: the answer is without them\n" +
			"warning: you may list authorizationpolicies, roles, rolebindings in namespace shop only: the answer is without those elsewhere\n"},
		{"by a role that cannot be read", []string{"delete", "configmaps/keep", "-n", "shop"}, cli.ExitOK, "ALLOWED (as the cluster answers)\nFrom what you may read: " +
			`NOT ALLOWED by anybody: RBAC: clusterrole "edit" could not be read` + "\nNote: admission policies may still refuse it: ", "you may not list clusterauthorizationpolicies, clusterroles, "},
		{"elsewhere", []string{"get", "secrets/db", "-n", "lab"}, cli.ExitOK, "ALLOWED (as the cluster answers)\nFrom what you may read: NOT ALLOWED by anybody", "authorizationpolicies, clusterroles, roles, clusterrolebindings, rolebindings: the answer is without them"},
		{"in a namespace that does not exist", []string{"get", "secrets/db", "-n", "shpo"}, cli.ExitOK, "ALLOWED (as the cluster answers)", "warning: -n: not found: did you mean shop?\nwarning: you may not list "},
		{"of somebody else in the namespace", []string{"delete", "configmaps/keep", "-n", "shop", "--as", "bob"}, cli.ExitOK, "ALLOWED: by a test (as the cluster answers)\n", ""},
		{"of somebody else, of whom the cluster does not answer", []string{"delete", "configmaps/keep", "-n", "lab", "--as", "bob"}, cli.ExitUnusable, "NOT KNOWN: not everything that decides could be read, and the cluster did not answer\n" +
			"From what you may read: NOT ALLOWED by anybody\n", "warning: ask the API server: "},
		{"in all namespaces", []string{"get", "secrets/db", "-A"}, cli.ExitUnusable, "", "you cannot list this; -n NAMESPACE asks about one namespace"},
		{"in the namespace of the kubeconfig", []string{"get", "secrets/db"}, cli.ExitOK, "ALLOWED by rbac", "note: asked about namespace shop, that of the kubeconfig: -n NAMESPACE is for another, -A for all\n"},
		{"of what has no namespace", []string{"get", "nodes/a", "--explain"}, cli.ExitOK, "ALLOWED (as the cluster answers)\nFrom what you may read: NOT ALLOWED by anybody\nget nodes a by jane", ""},
	} {
		args := append([]string{"can-i", "--kubeconfig", kubeconfig}, row.args...)
		status, stdout, stderr := run(t, args...)
		if status != row.status || !strings.HasPrefix(stdout, row.out) || !strings.Contains(stderr, row.err) {
			t.Errorf("%s: exit status %d, not %d, and:\n%s%s", row.reason, status, row.status, stdout, stderr)
		}
		if status == cli.ExitUnusable {
			continue
		}
		status, stdout, _ = run(t, append(args, "-o", "json")...)
		var report struct{ Allowed bool }
		if err := json.Unmarshal([]byte(stdout), &report); err != nil || status != row.status || report.Allowed != (status == cli.ExitOK) {
			t.Errorf("%s: as JSON exit status %d, %v:\n%s", row.reason, status, err, stdout)
		}
	}
}
