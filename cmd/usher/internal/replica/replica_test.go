package replica_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/usher-dev/usher/cmd/usher/internal/replica"
)

// A cluster is an API server with pods, which forwards connections to them.
type cluster struct {
	t      *testing.T
	server *httptest.Server
	user   string

	mu sync.Mutex
	// pods are by name; those with an address serve the API there.
	pods      []corev1.Pod
	addresses map[string]string
	tokens    int
	// denied is the resource of requests that are denied.
	denied string
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, addresses: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/namespaces/{namespace}/pods", func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
		for _, pod := range c.pods {
			if pod.Namespace == r.PathValue("namespace") && r.URL.Query().Get("labelSelector") == "app.kubernetes.io/name=usher" {
				list.Items = append(list.Items, pod)
			}
		}
		answer(w, list)
	})
	mux.HandleFunc("/api/v1/namespaces/{namespace}/pods/{name}/portforward", c.forward)
	mux.HandleFunc("POST /api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", func(w http.ResponseWriter, r *http.Request) {
		request := authenticationv1.TokenRequest{}
		body, err := io.ReadAll(r.Body)
		if err == nil {
			_, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, &request)
		}
		if err != nil || !cmp.Equal(request.Spec.Audiences, []string{"usher.dev"}) {
			t.Errorf("a token is requested for %v: %v", request.Spec.Audiences, err)
		}
		if r.PathValue("name") == "anne" {
			refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, `serviceaccounts "anne" not found`)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.tokens++
		request.Status.Token = fmt.Sprintf("token-of-%s-%s", r.PathValue("namespace"), r.PathValue("name"))
		request.Status.ExpirationTimestamp = metav1.NewTime(time.Now().Add(time.Hour))
		request.TypeMeta = metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenRequest"}
		answer(w, request)
	})
	mux.HandleFunc("POST /apis/authentication.k8s.io/v1/selfsubjectreviews", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, authenticationv1.SelfSubjectReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "SelfSubjectReview"},
			Status:   authenticationv1.SelfSubjectReviewStatus{UserInfo: authenticationv1.UserInfo{Username: c.user}},
		})
	})
	c.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.denied == "" || !strings.HasSuffix(r.URL.Path, c.denied) {
			mux.ServeHTTP(w, r)
			return
		}
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, `pods is forbidden: User "ann" has no right`)
	}))
	t.Cleanup(func() { c.server.CloseClientConnections(); c.server.Close() })
	return c
}

func refuse(w http.ResponseWriter, code int32, reason metav1.StatusReason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(code))
	answer(w, metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message,
	})
}

func answer(w http.ResponseWriter, object any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(object)
}

// forward does what a node does, by SPDY.
func (c *cluster) forward(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		http.Error(w, "no WebSockets here", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	address := c.addresses[r.PathValue("name")]
	c.mu.Unlock()
	streams := make(chan httpstream.Stream, 2)
	if _, err := httpstream.Handshake(r, w, []string{"portforward.k8s.io"}); err != nil {
		c.t.Error(err)
		return
	}
	tunnel := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error { streams <- s; return nil })
	if tunnel == nil {
		return
	}
	defer func() { _ = tunnel.Close() }()
	failures, data := <-streams, <-streams
	upstream, err := net.Dial("tcp", address)
	if err != nil {
		_, _ = io.WriteString(failures, "the node says: "+err.Error())
		_ = failures.Close()
		<-tunnel.CloseChan()
		return
	}
	defer func() { _ = upstream.Close() }()
	go func() { _, _ = io.Copy(upstream, data); _ = upstream.Close() }()
	go func() { _, _ = io.Copy(data, upstream); _ = data.Close() }()
	<-tunnel.CloseChan()
}

// kubeconfig writes one for the cluster.
func (c *cluster) kubeconfig(user string) string {
	c.t.Helper()
	file := filepath.Join(c.t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}], users: [{name: u, user: {%s}}]}`, c.server.URL, user)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return file
}

// add adds a pod that answers with its name and the credentials that it gets.
func (c *cluster) add(name string, ready bool, change func(*corev1.Pod)) *httptest.Server {
	c.t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/usher/v1/decisions" {
			w.WriteHeader(http.StatusForbidden)
			answer(w, metav1.Status{Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "you may not"})
			return
		}
		certificate := ""
		if len(r.TLS.PeerCertificates) > 0 {
			certificate = "a certificate"
		}
		_, _ = fmt.Fprintf(w, "%s: %s %s%s", name, r.URL.RequestURI(), r.Header.Get("Authorization"), certificate)
	}))
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS13}
	server.StartTLS()
	c.t.Cleanup(server.Close)
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "usher-system"}}
	pod.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "webhooks", ContainerPort: 8443}, {Name: "api", ContainerPort: 8445}}}}
	if ready {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	if change != nil {
		change(&pod)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pods = append(c.pods, pod)
	c.addresses[name] = server.Listener.Addr().String()
	return server
}

func ask(t *testing.T, r *replica.Replica, path string) (string, error) {
	t.Helper()
	response, err := r.Get(t.Context(), path, url.Values{"last": {"1"}}, http.Header{"Last-Event-Id": {"x"}})
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body), nil
}

// TestPods: ready pods are reached through the API server, with credentials for them alone.
func TestPods(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.user = "system:serviceaccount:ci:robot"
	c.add("usher-b", true, nil)
	c.add("usher-a", true, nil)
	c.add("usher-unready", false, nil)
	c.add("usher-ending", true, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()} })
	flags := replica.Flags{Kubeconfig: c.kubeconfig("token: for-the-api-server"), Namespace: "usher-system"}
	set, err := flags.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all, err := set.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range all {
		text, err := ask(t, r, replica.Path("shop", "decisions"))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, text)
	}
	const request = ": /usher/v1/namespaces/shop/decisions?last=1 Bearer token-of-ci-robot"
	if diff := cmp.Diff([]string{"usher-a" + request, "usher-b" + request}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if c.tokens != 1 {
		t.Errorf("%d tokens were requested, want 1", c.tokens)
	}
	_, err = ask(t, all[0], replica.Path("", "decisions"))
	if !apierrors.IsForbidden(err) || err.Error() != "you may not" {
		t.Errorf("a denied request: %v", err)
	}
	if hint := replica.Hint(err, "watch", "decisions", ""); !strings.Contains(hint, "-n") {
		t.Errorf("the hint is %q", hint)
	}
	untrusted := fmt.Errorf("get: %w", &tls.CertificateVerificationError{Err: errors.New("x509: unknown authority")})
	if hint := replica.Hint(untrusted, "watch", "decisions", ""); !strings.Contains(hint, "--ca-file") {
		t.Errorf("the hint for a CA that is not known is %q", hint)
	}
	c.mu.Lock()
	c.addresses["usher-a"] = "127.0.0.1:1"
	c.mu.Unlock()
	again, err := set.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ask(t, again[0], "/x"); err == nil || !strings.Contains(err.Error(), "usher-a") {
		t.Errorf("a pod whose port is closed: %v", err)
	}
}

// TestServers: replicas at URLs are verified, and get a token from a file.
func TestServers(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	server := c.add("usher-a", true, nil)
	dir := t.TempDir()
	ca, token := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "token")
	for file, text := range map[string][]byte{ca: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), token: []byte("secret\n")} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	connect := func(flags replica.Flags) (string, error) {
		set, err := flags.Connect(t.Context())
		if err != nil {
			return "", err
		}
		all, err := set.Find(t.Context())
		if err != nil {
			return "", err
		}
		return ask(t, all[0], "/x")
	}
	got, err := connect(replica.Flags{Servers: []string{server.URL + "/"}, CAFile: ca, TokenFile: token})
	if err != nil || got != "usher-a: /x?last=1 Bearer secret" {
		t.Errorf("with a token: %s, %v", got, err)
	}
	key := certificate(t, dir)
	got, err = connect(replica.Flags{Servers: []string{server.URL}, CAFile: ca, Kubeconfig: c.kubeconfig(key + ", token: for-the-api-server")})
	if err != nil || got != "usher-a: /x?last=1 a certificate" {
		t.Errorf("with a certificate: %s, %v", got, err)
	}
	// A kubeconfig that names the server is sufficient.
	named := func(server string) string {
		file := c.kubeconfig(key)
		text, err := os.ReadFile(file)
		relative, noPath := filepath.Rel(filepath.Dir(file), ca)
		if err = errors.Join(err, noPath); err != nil {
			t.Fatal(err)
		}
		extension := fmt.Sprintf("extensions: [{name: usher.dev, extension: {server: %q, certificate-authority: %q}}], insecure-skip", server, relative)
		if err := os.WriteFile(file, bytes.Replace(text, []byte("insecure-skip"), []byte(extension), 1), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	if got, err = connect(replica.Flags{Kubeconfig: named(server.URL)}); err != nil || got != "usher-a: /x?last=1 a certificate" {
		t.Errorf("of the kubeconfig: %s, %v", got, err)
	}
	if got, err = connect(replica.Flags{Kubeconfig: named("https://127.0.0.1:1"), Servers: []string{server.URL}, CAFile: ca}); err != nil || got != "usher-a: /x?last=1 a certificate" {
		t.Errorf("the flag, not the kubeconfig: %s, %v", got, err)
	}
	if _, err = connect(replica.Flags{Kubeconfig: named("127.0.0.1")}); err == nil || !strings.Contains(err.Error(), "of the kubeconfig: server 127.0.0.1: expected https") {
		t.Errorf("a wrong server: %v", err)
	}
	// Who acts as somebody else is not asked for by their own certificate.
	acting := replica.Flags{Servers: []string{server.URL}, CAFile: ca, Kubeconfig: c.kubeconfig(key + ", as: 'system:serviceaccount:shop:robot'")}
	c.user = "system:serviceaccount:shop:robot"
	if got, err = connect(acting); err != nil || got != "usher-a: /x?last=1 Bearer token-of-shop-robot" {
		t.Errorf("as a ServiceAccount: %s, %v", got, err)
	}
	c.user = "jane"
	if got, err = connect(acting); err == nil || !strings.Contains(err.Error(), "the kubeconfig has you act as jane") {
		t.Errorf("as another user: %s, %v", got, err)
	}
	if _, err := connect(replica.Flags{Servers: []string{server.URL}, TokenFile: token}); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a server that nothing vouches for: %v", err)
	}
}

// certificate makes a client certificate, and returns the fields of a kubeconfig for it.
func certificate(t *testing.T, dir string) string {
	t.Helper()
	made := httptest.NewTLSServer(nil)
	defer made.Close()
	pair := made.TLS.Certificates[0]
	key, err := x509Key(pair)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile := filepath.Join(dir, "client.crt"), filepath.Join(dir, "client.key")
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, keyFile: {Type: "PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return fmt.Sprintf("client-certificate: %s, client-key: %s", certFile, keyFile)
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.user = "ann"
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("a b"), 0o600); err != nil {
		t.Fatal(err)
	}
	config := c.kubeconfig("token: x")
	silent := newCluster(t)
	silent.add("usher-a", true, func(p *corev1.Pod) { p.Spec.Containers[0].Ports = p.Spec.Containers[0].Ports[:1] })
	for _, row := range []struct {
		reason string
		flags  replica.Flags
		want   string
	}{
		{"no https", replica.Flags{Servers: []string{"http://x"}}, "expected https://HOST:PORT"},
		{"a path", replica.Flags{Servers: []string{"https://x/usher"}}, "expected https://HOST:PORT"},
		{"no such CA", replica.Flags{Servers: []string{"https://x"}, TokenFile: token, CAFile: "/none"}, "--ca-file"},
		{"a CA without certificates", replica.Flags{Servers: []string{"https://x"}, TokenFile: token, CAFile: token}, "no certificates in it"},
		{"two tokens", replica.Flags{Servers: []string{"https://127.0.0.1:1"}, TokenFile: token}, "expected one token"},
		{"no such token", replica.Flags{Servers: []string{"https://127.0.0.1:1"}, TokenFile: "/none"}, "--token-file"},
		{"both", replica.Flags{TokenFile: token, ServiceAccount: "a/b"}, "exclude each other"},
		{"a user with a token for the API server", replica.Flags{Kubeconfig: config}, "use --service-account NAMESPACE/NAME"},
		{"a ServiceAccount without namespace", replica.Flags{Kubeconfig: config, ServiceAccount: "robot"}, "expected NAMESPACE/NAME"},
		{"no kubeconfig", replica.Flags{Kubeconfig: "/none"}, "find cluster"},
		{"no pods", replica.Flags{Kubeconfig: config, ServiceAccount: "a/b", Namespace: "usher-system"}, "no pod of Usher is ready"},
		{"no API", replica.Flags{Kubeconfig: silent.kubeconfig("token: x"), ServiceAccount: "a/b", Namespace: "usher-system"}, "api.enabled=true"},
	} {
		set, err := row.flags.Connect(t.Context())
		if err == nil {
			var all []*replica.Replica
			if all, err = set.Find(t.Context()); err == nil {
				_, err = ask(t, all[0], "/x")
			}
		}
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", row.reason, err, row.want)
		}
	}
}

func x509Key(pair tls.Certificate) ([]byte, error) {
	return x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
}
