package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/usher-dev/usher/sandbox"
	"github.com/usher-dev/usher/sandbox/internal/port"
	"github.com/usher-dev/usher/sandbox/internal/usher"
)

// accessPolicies deny what RBAC allows, and allow what it does not. %s is a namespace.
const accessPolicies = `
apiVersion: usher.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: hide-db}
spec:
  effect: Deny
  subjects: [{groups: [devs]}]
  excludeSubjects: [{groups: [sre]}]
  rules: [{verbs: [get, list, watch], apiGroups: [""], resources: [secrets], names: [db-root], namespaces: [%[1]q]}]
  message: ask the database team
---
apiVersion: usher.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: own-config}
spec:
  effect: Allow
  subjects: [{groups: ["system:authenticated"]}]
  rules: [{verbs: [list, watch], apiGroups: [""], resources: [configmaps], namespaces: [%[1]q]}]
  selectors: {labels: [{key: owner, operator: In, values: ["$(user)"]}]}
---
apiVersion: usher.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: read-services}
spec:
  effect: Allow
  subjects: [{groups: [devs]}]
  rules: [{verbs: [get], apiGroups: [""], resources: [services], namespaces: [%[1]q]}]
`

// An authorized cluster asks an usher for authorization, over a network.
type authorized struct {
	*rig
	process   *usher.Process
	between   *network
	namespace string
	// address is where usher answers authorization webhooks, policies the folder of its policies.
	address, policies, config string
}

// accessNamespace is the namespace of these tests; its name is known before the cluster is.
const accessNamespace = "team-a"

// An arrangement says how a cluster asks usher. The zero value is two webhooks.
type arrangement struct {
	// legacy are the authorizers of a cluster that has one webhook, and asks in v1beta1.
	legacy string
	// serve and config are further flags of 'usher serve' and 'usher authz config'. POLICIES
	// stands for the folder of the policies.
	serve, config []string
}

// newAuthorized starts usher first and then a cluster that asks it, with what 'usher authz
// config' writes.
func newAuthorized(t *testing.T, how arrangement) *authorized {
	t.Helper()
	binary, err := usherBinary()
	if err != nil {
		t.Fatal(err)
	}
	free, err := port.Free()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	a := &authorized{rig: &rig{}, address: "127.0.0.1:" + free, policies: filepath.Join(dir, "policies"), config: filepath.Join(dir, "config"), namespace: accessNamespace}
	token := filepath.Join(dir, "token")
	if err := errors.Join(os.Mkdir(a.policies, 0o700),
		os.WriteFile(filepath.Join(a.policies, "policies.yaml"), []byte(fmt.Sprintf(accessPolicies, accessNamespace)), 0o600),
		os.WriteFile(token, []byte("between us"), 0o600)); err != nil {
		t.Fatal(err)
	}
	a.process = a.run(t, usher.Config{Binary: binary, Policies: []string{a.policies}, Args: append([]string{
		"--authorization-address", a.address, "--authorization-token-file", token,
	}, how.serve...)})
	if err := a.process.WaitReady(testContext(t)); err != nil {
		t.Fatal(err)
	}
	a.between = newNetwork(t, a.address)
	args := append([]string{
		"authz", "config", "--server", "https://" + a.between.address(), "--ca-file", a.process.CAFile(), "--token-file", token, "--out", a.config,
		// Machines that run tests can be slow, and what is not decided in time is not denied.
		"--timeout=3s",
	}, how.config...)
	for i := range args {
		args[i] = strings.Replace(args[i], "POLICIES", a.policies, 1)
	}
	if out, err := exec.Command(binary, args...).CombinedOutput(); err != nil {
		t.Fatalf("write configuration: %v: %s", err, out)
	}
	options := sandbox.Options{Exclusive: true, AuthorizationConfig: filepath.Join(a.config, "authorization.yaml")}
	if how.legacy != "" {
		options.AuthorizationConfig = ""
		options.APIServerArgs = []string{
			"--authorization-mode=" + how.legacy, "--authorization-webhook-config-file=" + filepath.Join(a.config, "webhook.kubeconfig"),
			"--authorization-webhook-cache-unauthorized-ttl=1s",
		}
	}
	process, between := a.process, a.between
	a.rig = newRig(t, options)
	a.process, a.between = process, between
	a.populate(t)
	return a
}

// populate makes what users ask for, and lets group devs read secrets.
func (a *authorized) populate(t *testing.T) {
	t.Helper()
	ctx := testContext(t)
	if _, err := a.kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"db-root", "other"} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := a.kube.CoreV1().Secrets(a.namespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	if _, err := a.kube.CoreV1().Services(a.namespace).Create(ctx, service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "read"}, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{""}, Resources: []string{"secrets", "endpoints"}},
	}}
	if _, err := a.kube.RbacV1().Roles(a.namespace).Create(ctx, role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "read"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "read"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "devs"}},
	}
	if _, err := a.kube.RbacV1().RoleBindings(a.namespace).Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// as is a client for a user with groups.
func (a *authorized) as(t *testing.T, user string, groups ...string) kubernetes.Interface {
	t.Helper()
	config := rest.CopyConfig(a.RESTConfig)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// getSecret reads a secret.
func (a *authorized) getSecret(ctx context.Context, client kubernetes.Interface, name string) error {
	_, err := client.CoreV1().Secrets(a.namespace).Get(ctx, name, metav1.GetOptions{})
	return err
}

// getService reads the service, which only a policy allows.
func (a *authorized) getService(ctx context.Context, client kubernetes.Interface) error {
	_, err := client.CoreV1().Services(a.namespace).Get(ctx, "web", metav1.GetOptions{})
	return err
}

// expectAllowed waits until RBAC's informers know the role, too.
func expectAllowed(t *testing.T, what string, ask func() error) {
	t.Helper()
	eventually(t, what, ask)
}

// expectForbidden expects a 403 with a text in it.
func expectForbidden(t *testing.T, what string, err error, text string) {
	t.Helper()
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: got %v, want a 403 with %q in it", what, err, text)
	}
}

const reason = "denied by policy hide-db (cluster): ask the database team"

// TestAuthorization asks an API server with the generated configuration as several users:
// denials come before RBAC, what policies allow behind it.
func TestAuthorization(t *testing.T) {
	t.Parallel()
	a := newAuthorized(t, arrangement{})
	ctx := testContext(t)
	jane, sre, joe := a.as(t, "jane", "devs"), a.as(t, "sam", "devs", "sre"), a.as(t, "joe")

	expectAllowed(t, "RBAC allows to read secrets", func() error { return a.getSecret(ctx, jane, "other") })
	expectForbidden(t, "the one that is hidden", a.getSecret(ctx, jane, "db-root"), reason)
	_, err := jane.CoreV1().Secrets(a.namespace).List(ctx, metav1.ListOptions{})
	expectForbidden(t, "a list with it", err, reason)
	_, err = jane.CoreV1().Secrets("").List(ctx, metav1.ListOptions{})
	expectForbidden(t, "a list of all namespaces", err, reason)
	if _, err := jane.CoreV1().Secrets(a.namespace).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=other"}); err != nil {
		t.Errorf("a list without it: %v", err)
	}
	if err := a.getSecret(ctx, sre, "db-root"); err != nil {
		t.Errorf("who is excluded from the denial: %v", err)
	}
	if err := a.getSecret(ctx, a.kube, "db-root"); err != nil {
		t.Errorf("the administrator: %v", err)
	}
	expectForbidden(t, "who has no rights", a.getSecret(ctx, joe, "other"), "cannot get resource")

	if err := a.getService(ctx, jane); err != nil {
		t.Errorf("what only a policy allows: %v", err)
	}
	expectForbidden(t, "what no policy allows", a.getService(ctx, joe), "cannot get resource")
	a.selectors(t, jane, joe)
	a.offline(t)
	text := a.metricsText(t)
	for _, want := range []string{
		`usher_decisions_total{door="authorization_deny",phase="authorize",verdict="deny"}`,
		`usher_decisions_total{door="authorization_allow",phase="authorize",verdict="allow"}`,
		`usher_access_requests_total{code="200",endpoint="/authorize/deny"}`,
		`usher_policy_denials_total{policy_kind="ClusterAuthorizationPolicy",policy_name="hide-db",policy_namespace=""}`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics have no %s", want)
		}
	}
	if failed := regexp.MustCompile(`usher_access_requests_total\{code="[345].*`).FindAllString(text, -1); len(failed) > 0 {
		t.Errorf("requests for authorization failed: %q", failed)
	}
}

// selectors lists and watches what belongs to a user.
func (a *authorized) selectors(t *testing.T, jane, joe kubernetes.Interface) {
	t.Helper()
	ctx := testContext(t)
	own := metav1.ListOptions{LabelSelector: "owner=jane"}
	if _, err := jane.CoreV1().ConfigMaps(a.namespace).List(ctx, own); err != nil {
		t.Errorf("list what is her own: %v", err)
	}
	_, err := jane.CoreV1().ConfigMaps(a.namespace).List(ctx, metav1.ListOptions{})
	expectForbidden(t, "list everything", err, "cannot list resource")
	_, err = jane.CoreV1().ConfigMaps(a.namespace).List(ctx, metav1.ListOptions{LabelSelector: "owner in (jane,joe)"})
	expectForbidden(t, "list what is somebody else's, too", err, "cannot list resource")
	_, err = joe.CoreV1().ConfigMaps(a.namespace).List(ctx, own)
	expectForbidden(t, "list what is hers as somebody else", err, "cannot list resource")

	watcher, err := jane.CoreV1().ConfigMaps(a.namespace).Watch(ctx, own)
	if err != nil {
		t.Fatalf("watch what is her own: %v", err)
	}
	defer watcher.Stop()
	for _, owner := range []string{"joe", "jane"} {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: owner, Labels: map[string]string{"owner": owner}}}
		if _, err := a.kube.CoreV1().ConfigMaps(a.namespace).Create(ctx, object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case event := <-watcher.ResultChan():
		if object, ok := event.Object.(*corev1.ConfigMap); !ok || object.Name != "jane" {
			t.Errorf("she sees %v", event.Object)
		}
	case <-ctx.Done():
		t.Error("she sees nothing")
	}
	_, err = jane.CoreV1().ConfigMaps(a.namespace).Watch(ctx, metav1.ListOptions{})
	expectForbidden(t, "watch everything", err, "cannot watch resource")
}

// offline compares what 'usher authz can-i' says with what the API server says.
func (a *authorized) offline(t *testing.T) {
	t.Helper()
	binary, err := usherBinary()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		question, want string
	}{
		{"list secrets --as jane --as-group devs", "DENIED by usher (deny): " + reason},
		{"get secrets/other --as jane --as-group devs", "ALLOWED by rbac: RBAC: allowed by RoleBinding \"read/team-a\" of Role \"read\" to Group \"devs\""},
		{"get services/web --as jane --as-group devs", "ALLOWED by usher (allow): allowed by policy read-services (cluster)"},
		{"list configmaps -l owner=jane --as jane", "ALLOWED by usher (allow)"},
		{"list configmaps --as jane", "NOT ALLOWED by anybody"},
	} {
		args := append([]string{"authz", "can-i", "-n", a.namespace, "-p", a.policies, "--kubeconfig", a.Kubeconfig}, strings.Fields(row.question)...)
		out, err := exec.Command(binary, args...).CombinedOutput()
		if code := exitCode(err); (code == 0) != strings.HasPrefix(row.want, "ALLOWED") || code > 1 {
			t.Errorf("%s: exit status %d: %s", row.question, code, out)
		}
		// It says what the cluster says where that differs.
		if text := string(out); !strings.Contains(text, row.want) || strings.Contains(strings.ToLower(text), "the cluster") {
			t.Errorf("%s:\n%s", row.question, out)
		}
	}
}

func exitCode(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	return -1
}

// metricsText is the page with usher's metrics.
func (a *authorized) metricsText(t *testing.T) string {
	t.Helper()
	response, err := http.Get(a.process.Metrics)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestAuthorizationLegacy asks through the flags for a single webhook, which is asked in v1beta1.
func TestAuthorizationLegacy(t *testing.T) {
	t.Parallel()
	a := newAuthorized(t, arrangement{legacy: "Webhook,RBAC", config: []string{"--legacy"}})
	ctx := testContext(t)
	jane, sre := a.as(t, "jane", "devs"), a.as(t, "sam", "devs", "sre")
	expectAllowed(t, "RBAC allows to read secrets", func() error { return a.getSecret(ctx, jane, "other") })
	// All of these depend on groups, which v1beta1 calls otherwise.
	expectForbidden(t, "the one that is hidden", a.getSecret(ctx, jane, "db-root"), reason)
	if err := a.getSecret(ctx, sre, "db-root"); err != nil {
		t.Errorf("who is excluded from the denial: %v", err)
	}
	if err := a.getService(ctx, jane); err != nil {
		t.Errorf("what only a policy allows: %v", err)
	}
	if text := a.metricsText(t); !strings.Contains(text, `usher_decisions_total{door="authorization",phase="authorize",verdict="deny"}`) {
		t.Error("the webhook for everything was not asked")
	}
}
