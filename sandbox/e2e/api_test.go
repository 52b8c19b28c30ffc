package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/usher-dev/usher/sandbox"
	"github.com/usher-dev/usher/sandbox/internal/usher"
)

// An apiRig has an usher that serves its own API, with the rights that the chart gives it.
type apiRig struct {
	*rig
	url     string
	process *usher.Process
}

func newAPIRig(t *testing.T) *apiRig {
	t.Helper()
	r := &apiRig{rig: newRig(t, sandbox.Options{Exclusive: true})}
	r.ensureNamespace(t, usher.Namespace)
	for _, object := range documents(t, chart(t, "--set", "api.enabled=true")) {
		if kind := object.GetKind(); !strings.Contains(kind, "Role") && kind != "ServiceAccount" || object.GetAnnotations()["helm.sh/hook"] != "" {
			continue
		}
		if _, err := r.apply(testContext(t), object); err != nil {
			t.Fatal(err)
		}
	}
	address := "127.0.0.1:" + freePort(t)
	r.url = "https://" + address + "/usher/v1/"
	r.process = r.launch(t, r.kubeconfigOf(t, usher.Namespace, "usher"), "--manage-webhook-configurations=false", "--api-address", address)
	if err := r.process.WaitReady(testContext(t)); err != nil {
		t.Fatal(err)
	}
	return r
}

// token returns one of a ServiceAccount.
func (r *apiRig) token(t *testing.T, namespace, name string, audiences ...string) string {
	t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
	made, err := r.kube.CoreV1().ServiceAccounts(namespace).CreateToken(testContext(t), name, request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made.Status.Token
}

// kubeconfigOf writes one with which a ServiceAccount reaches the API server.
func (r *apiRig) kubeconfigOf(t *testing.T, namespace, name string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(r.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for user := range config.AuthInfos {
		config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: r.token(t, namespace, name)}
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// get asks the API, and returns the status and what it says.
func (r *apiRig) get(t *testing.T, client *http.Client, path, token string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(testContext(t), http.MethodGet, r.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	var compact bytes.Buffer
	_ = json.Compact(&compact, bytes.TrimSpace(body))
	return response.StatusCode, compact.String()
}

// bind gives a ServiceAccount the rights of a ClusterRole in its namespace.
func (r *apiRig) bind(t *testing.T, namespace, name, role string) {
	t.Helper()
	_, err := r.kube.RbacV1().RoleBindings(namespace).Create(testContext(t), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// TestAPIAsksTheCluster has ServiceAccounts and holders of client certificates use the API of a
// server that has the rights of the chart: what they may do is what RBAC says.
func TestAPIAsksTheCluster(t *testing.T) {
	t.Parallel()
	r := newAPIRig(t)
	namespace, another := r.Namespace(t), r.Namespace(t)
	eventually(t, "there is a ServiceAccount", func() error {
		_, err := r.kube.CoreV1().ServiceAccounts(namespace).Get(testContext(t), "default", metav1.GetOptions{})
		return err
	})
	client, err := r.process.Client()
	if err != nil {
		t.Fatal(err)
	}
	token := r.token(t, namespace, "default", "usher.dev")
	const all = `["get","list","watch"]`
	access := func(where, audits, decisions, recordings string) string {
		return fmt.Sprintf(`{"user":"system:serviceaccount:%s:default"%s,"resources":[{"group":"usher.dev","name":"decisions","served":true,"verbs":%s},`+
			`{"group":"usher.dev","name":"candidatedecisions","served":true,"verbs":%s},{"group":"usher.dev","name":"auditresults","served":true,"verbs":%s},{"group":"usher.dev","name":"recordings","served":false,"verbs":%s}]}`,
			namespace, where, decisions, decisions, audits, recordings)
	}
	inside := fmt.Sprintf(`,"namespace":%q`, namespace)
	expect := func(what, path, token string, code int, says string) {
		t.Helper()
		eventually(t, what, func() error {
			if got, text := r.get(t, client, path, token); got != code || !strings.Contains(text, says) {
				return fmt.Errorf("%s: status %d, want %d and %s: %s", path, got, code, says, text)
			}
			return nil
		})
	}
	expect("no credentials", "", "", http.StatusUnauthorized, "no credentials")
	expect("a token for the API server", "", r.token(t, namespace, "default"), http.StatusUnauthorized, "audience")
	expect("no rights", "namespaces/"+namespace, token, http.StatusOK, access(inside, "[]", "[]", "[]"))
	expect("no right", "namespaces/"+namespace+"/decisions", token, http.StatusForbidden, "cannot list resource")
	r.bind(t, namespace, "default", "view")
	expect("view", "namespaces/"+namespace, token, http.StatusOK, access(inside, all, "[]", "[]"))
	r.bind(t, namespace, "default", "edit")
	expect("edit", "namespaces/"+namespace, token, http.StatusOK, access(inside, all, all, "[]"))
	r.bind(t, namespace, "default", "admin")
	expect("admin", "namespaces/"+namespace, token, http.StatusOK, access(inside, all, all, all))
	expect("the right in the namespace", "namespaces/"+namespace+"/decisions", token, http.StatusOK, `"kind":"DecisionList"`)
	expect("another namespace", "namespaces/"+another+"/decisions", token, http.StatusForbidden, another)
	expect("the whole cluster", "decisions", token, http.StatusForbidden, "at the cluster scope")
	expect("rights in the whole cluster", "", token, http.StatusOK, access("", "[]", "[]", "[]"))

	config, err := rest.TLSConfigFor(r.RESTConfig)
	if err != nil {
		t.Fatal(err)
	}
	certified, err := r.process.Client()
	if err != nil {
		t.Fatal(err)
	}
	certified.Transport.(*http.Transport).TLSClientConfig.Certificates = config.Certificates
	certified.Transport.(*http.Transport).TLSClientConfig.GetClientCertificate = config.GetClientCertificate
	eventually(t, "an administrator's certificate is known", func() error {
		if code, text := r.get(t, certified, "recordings", ""); code != http.StatusNotFound {
			return fmt.Errorf("status %d, want 404 from behind authorization: %s", code, text)
		}
		return nil
	})
	for _, binding := range []string{"view", "edit", "admin"} {
		if err := r.kube.RbacV1().RoleBindings(namespace).Delete(testContext(t), binding, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	expect("the right is taken away", "namespaces/"+namespace+"/decisions", token, http.StatusForbidden, "cannot list")
	if n := metric(t, r.process, `usher_refused_callers_total{door="api",reason="no_credentials"}`); n == 0 {
		t.Error("callers without credentials are not counted")
	}
	if n := metric(t, r.process, `usher_api_requests_total{code="403",resource="decisions",verb="list"}`); n == 0 {
		t.Error("requests are not counted")
	}
}
