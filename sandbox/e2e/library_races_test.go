package e2e

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// TestLibraryInstallBesideOthers has others write a policy between reading it and writing it. What they
// write stays, unless it is the status.
func TestLibraryInstallBesideOthers(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	namespace := r.Namespace(t)
	pack := "raced-" + namespace
	policy := parse(t, `
apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: %s-types}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE], resources: [tried]}]}
  validations: [{expression: "true", message: theirs}]
  bindings: [{name: everywhere, validationActions: [Warn]}]
`, pack)
	policies, err := r.of(policy)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.remove(policy) })
	add := func() error {
		_, err := policies.Create(testContext(t), policy, metav1.CreateOptions{FieldManager: "somebody"})
		return err
	}
	remove := func() error { return policies.Delete(testContext(t), policy.GetName(), metav1.DeleteOptions{}) }
	patch := func(text string, subresources ...string) func() error {
		return func() error {
			_, err := policies.Patch(testContext(t), policy.GetName(), types.MergePatchType, []byte(text), metav1.PatchOptions{FieldManager: "somebody"}, subresources...)
			return err
		}
	}
	first, second := ownPack(t, pack, namespace, "1.0.0", "first"), ownPack(t, pack, namespace, "1.1.0", "second")
	describe(t, filepath.Join(first, "types.yaml"))
	const created, changed = "somebody else has created a policy of this name just now", "somebody else has changed or deleted it just now"
	for _, row := range []struct {
		reason          string
		before, between func() error
		folder          string
		// says is a part of the error, empty if the policy is installed; message is that of the policy which
		// then exists, empty if there is none.
		says, message string
	}{
		{"it is created", nil, add, first, created, "theirs"},
		{"nothing", remove, nil, first, "", "first"},
		{"its spec changes", nil, patch(`{"spec": {"validations": [{"expression": "true", "message": "edited"}]}}`), second, changed, "edited"},
		{"its labels change", nil, patch(`{"metadata": {"labels": {"team": "web"}}}`), second, changed, "edited"},
		{"its status changes", nil, patch(`{"status": {"lastError": "none"}}`, "status"), second, "", "second"},
		{"it is another one", patch(`{"spec": {"validations": [{"expression": "true", "message": "edited"}]}}`), func() error { return errors.Join(remove(), add()) }, second, changed, "theirs"},
		{"it is deleted", patch(`{"metadata": {"labels": {"usher.dev/pack": "` + pack + `"}}}`), remove, second, changed, ""},
	} {
		if row.before != nil {
			if err := row.before(); err != nil {
				t.Fatalf("%s: %v", row.reason, err)
			}
		}
		stdout, stderr, code := run(t, "library", "install", pack, "--packs", row.folder, "--apply", "--kubeconfig", r.interposed(t, row.between))
		if (code == 0) != (row.says == "") || !strings.Contains(stderr, row.says) {
			t.Errorf("%s: exit status %d, expected %q:\n%s%s", row.reason, code, row.says, stdout, stderr)
		}
		found, err := policies.Get(testContext(t), policy.GetName(), metav1.GetOptions{})
		if row.message == "" && apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", row.reason, err)
		}
		if got := messageOf(t, found); got != row.message {
			t.Errorf("%s: the message of the policy is %q, expected %q", row.reason, got, row.message)
		}
		if row.says == "" {
			checkApplied(t, row.reason, found, row.folder == first)
		}
	}
}

// describe adds a field to the file of a policy.
func describe(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(text, "  description: only the first version has one\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
}

func messageOf(t *testing.T, policy *unstructured.Unstructured) string {
	t.Helper()
	validations, _, err := unstructured.NestedSlice(policy.Object, "spec", "validations")
	if err != nil || len(validations) != 1 {
		t.Fatalf("validations: %v, %v", validations, err)
	}
	validation, _ := validations[0].(map[string]any)
	message, _ := validation["message"].(string)
	return message
}

// checkApplied checks that a policy was applied, so that a later version removes what it does not have.
func checkApplied(t *testing.T, reason string, policy *unstructured.Unstructured, described bool) {
	t.Helper()
	var operations []string
	for _, m := range policy.GetManagedFields() {
		if m.Manager == "usher-library" {
			operations = append(operations, string(m.Operation))
		}
	}
	if !slices.Equal(operations, []string{"Apply"}) {
		t.Errorf("%s: the field manager has the operations %q", reason, operations)
	}
	if _, has, _ := unstructured.NestedString(policy.Object, "spec", "description"); has != described {
		t.Errorf("%s: the policy has a description: %t", reason, has)
	}
}

// interposed returns the kubeconfig of a server that forwards requests to the API server, and calls
// between before the first write.
func (r *rig) interposed(t *testing.T, between func() error) string {
	t.Helper()
	transport, err := rest.TransportFor(r.RESTConfig)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(r.RESTConfig.Host)
	if err != nil {
		t.Fatal(err)
	}
	forward := &httputil.ReverseProxy{Transport: transport, Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(target) }}
	var once sync.Once
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if request.Method != http.MethodGet && between != nil {
			once.Do(func() {
				if err := between(); err != nil {
					t.Error(err)
				}
			})
		}
		forward.ServeHTTP(w, request)
	}))
	t.Cleanup(server.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := "{apiVersion: v1, kind: Config, clusters: [{name: a, cluster: {server: '" + server.URL + "'}}], contexts: [{name: a, context: {cluster: a}}], current-context: a}"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
