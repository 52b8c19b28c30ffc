package admission_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubeadmission "k8s.io/apiserver/pkg/admission"
	webhookconfig "k8s.io/apiserver/pkg/admission/plugin/webhook/config"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"

	"github.com/usher-dev/usher/internal/cert"
	"github.com/usher-dev/usher/internal/webhookconfig/admission"
	"github.com/usher-dev/usher/internal/webhookconfig/credential"
	"github.com/usher-dev/usher/webhook"
)

const timeout = 20 * time.Second

// save writes files to a folder and returns the path of the first one.
func save(t *testing.T, dir string, files []credential.File) string {
	t.Helper()
	for _, file := range files {
		write(t, filepath.Join(dir, file.Name), file.Content)
	}
	return filepath.Join(dir, files[0].Name)
}

func write(t *testing.T, path string, content []byte) string {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// kubeconfigs has the code of API servers read a configuration, and returns the kubeconfig
// that each plugin reads.
func kubeconfigs(t *testing.T, file string) map[string]string {
	t.Helper()
	scheme := runtime.NewScheme()
	install.Install(scheme)
	names := []string{"MutatingAdmissionWebhook", "ValidatingAdmissionWebhook", "PodSecurity"}
	provider, err := kubeadmission.ReadAdmissionConfiguration(names, file, scheme)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, name := range names[:2] {
		reader, err := provider.ConfigFor(name)
		if err != nil {
			t.Fatal(err)
		}
		c, err := webhookconfig.LoadConfig(reader)
		if err != nil {
			t.Fatal(err)
		}
		found[name] = c.KubeConfigFile
	}
	return found
}

func TestAPIServersReadWhatIsWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	base := `apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: ValidatingAdmissionWebhook
  configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration}
- name: PodSecurity
  configuration: {apiVersion: pod-security.admission.config.k8s.io/v1, kind: PodSecurityConfiguration, defaults: {enforce: baseline}}
`
	for _, row := range []struct {
		reason string
		base   []byte
	}{{"alone", nil}, {"added to what is there", []byte(base)}} {
		files, err := admission.Generate(admission.Options{
			Dir: dir, Client: credential.Credential{TokenFile: "token"}, Base: row.base,
		})
		if err != nil {
			t.Fatal(err)
		}
		file := save(t, dir, files)
		want := filepath.Join(dir, "admission.kubeconfig")
		if d := cmp.Diff(map[string]string{"MutatingAdmissionWebhook": want, "ValidatingAdmissionWebhook": want}, kubeconfigs(t, file)); d != "" {
			t.Errorf("%s: kubeconfigs (-want +got):\n%s", row.reason, d)
		}
		if kept := bytes.Contains(files[0].Content, []byte("enforce: baseline")); kept != (row.base != nil) {
			t.Errorf("%s: %s", row.reason, files[0].Content)
		}
		write(t, filepath.Join(dir, "token"), []byte("secret"))
		problems, err := admission.Lint(file, nil)
		if err != nil || len(problems) > 0 {
			t.Errorf("%s: lint: %v, %v", row.reason, problems, err)
		}
	}
}

func TestGenerateRefuses(t *testing.T) {
	t.Parallel()
	token := credential.Credential{TokenFile: "token"}
	base := func(plugin string) []byte {
		return []byte("apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- " + plugin + "\n")
	}
	for _, row := range []struct {
		options admission.Options
		want    string
		reason  string
	}{
		{admission.Options{}, "nothing to show", "no credential"},
		{admission.Options{Client: credential.Credential{CertFile: "a"}}, "they come together", "half a credential"},
		{admission.Options{Client: token, Dir: "etc"}, "begins with /", "a relative folder"},
		{admission.Options{Client: token, Servers: []string{"http://usher"}}, "over https only", "plain HTTP"},
		{admission.Options{Client: token, Servers: []string{"https://"}}, "not a URL", "a URL without host"},
		{admission.Options{Client: token, Servers: []string{"usher/validate"}}, "not a host", "a path"},
		{admission.Options{Client: token, Servers: []string{""}}, "not a host", "an empty name"},
		{admission.Options{Client: token, Servers: []string{"usher:https"}}, `"https" is not a port`, "a port by name"},
		{admission.Options{Client: token, Servers: []string{"usher:0"}}, `"0" is not a port`, "port 0"},
		{admission.Options{Client: token, Servers: []string{"::1"}}, "needs brackets and a port", "IPv6 without brackets"},
		{admission.Options{Client: token, Servers: []string{"https://[::1]"}}, "needs brackets and a port", "IPv6 without port"},
		{admission.Options{Client: token, Servers: []string{"usher.*.svc"}}, "not a host", "a star within"},
		{admission.Options{Client: token, Base: []byte("kind: Pod")}, "kind Pod is not AdmissionConfiguration", "another kind"},
		{admission.Options{Client: token, Base: []byte("{")}, "read configuration", "no YAML"},
		{admission.Options{Client: token, Base: []byte("kind: AdmissionConfiguration\nplugins: 3")}, "not a list", "plugins of another type"},
		{admission.Options{Client: token, Base: base("{name: PodSecurity, path: pss.yaml}")}, "write it absolute", "a relative path"},
		{admission.Options{Client: token, Base: base("{name: MutatingAdmissionWebhook, path: /x}")}, "configuration of its own in /x", "a file of its own"},
		{admission.Options{Client: token, Base: base("{name: MutatingAdmissionWebhook, configuration: {kubeConfigFile: /other}}")}, "reads /other already", "other credentials"},
		{admission.Options{Client: token, Base: base("{name: MutatingAdmissionWebhook, configuration: {staticManifestsDir: /m}}")}, "by hand", "manifests"},
	} {
		if _, err := admission.Generate(row.options); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: got %v, want %s", row.reason, err, row.want)
		}
	}
}

// TestWebhooksAreShownTheirCredential calls a webhook as API servers do, with their code: by
// Service, by host and port, and as one of many.
func TestWebhooksAreShownTheirCredential(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	clients := newAuthority(t)
	clients.issue(t, "kube-apiserver", filepath.Join(dir, "client.crt"), filepath.Join(dir, "client.key"))
	tokens := write(t, filepath.Join(dir, "tokens"), []byte("one\ntwo\n"))
	write(t, filepath.Join(dir, "token"), []byte("two\n"))
	certificate := credential.Credential{CertFile: "client.crt", KeyFile: "client.key"}
	token := credential.Credential{TokenFile: "token"}
	strict := serve(t, webhook.Options{ClientCAFile: write(t, filepath.Join(dir, "ca.crt"), clients.pem), ClientNames: []string{"kube-apiserver"}})
	closed := serve(t, webhook.Options{TokenFile: tokens})
	for _, row := range []struct {
		reason string
		// server is what config is told, webhook how the webhook configuration names it:
		// a Service, or its URL if empty.
		server, webhook string
		port            int32
		want            bool
	}{
		{"a Service", "usher.usher-system.svc", "usher", 443, true},
		{"a Service, with the port", "usher.usher-system.svc:443", "usher", 443, true},
		{"a Service at another port", "usher.usher-system.svc:8443", "usher", 8443, true},
		{"a Service at a port that was not said", "usher.usher-system.svc", "usher", 8443, false},
		{"another Service", "usher.usher-system.svc", "other", 443, false},
		{"all of a namespace", "*.usher-system.svc", "other", 443, true},
		{"a host and port", "HOST", "", 0, true},
		{"a URL", "https://HOST/validate", "", 0, true},
		{"another host", "example.com", "", 0, false},
		{"everything, by Service", "*", "other", 443, true},
		{"everything, by URL", "*", "", 0, true},
	} {
		for _, target := range []struct {
			*server
			shown credential.Credential
		}{{strict, certificate}, {closed, token}} {
			server := strings.Replace(row.server, "HOST", target.host, 1)
			files, err := admission.Generate(admission.Options{Servers: []string{server}, Dir: dir, Client: target.shown})
			if err != nil {
				t.Fatal(err)
			}
			own := t.TempDir()
			save(t, own, files)
			hook := webhookutil.ClientConfig{Name: "x", CABundle: target.ca, URL: "https://" + target.host + "/validate"}
			if row.webhook != "" {
				hook.URL, hook.Service = "", &webhookutil.ClientConfigService{Name: row.webhook, Namespace: "usher-system", Path: "/validate", Port: row.port}
			}
			code, err := target.call(t, filepath.Join(own, "admission.kubeconfig"), hook)
			want := http.StatusUnauthorized
			if row.want {
				want = http.StatusOK
			}
			if code != want {
				t.Errorf("%s, %+v: got %d, %v, want %d", row.reason, target.shown, code, err, want)
			}
		}
	}
}

// A server is a webhook that some may call.
type server struct {
	host string
	ca   []byte
}

func serve(t *testing.T, o webhook.Options) *server {
	t.Helper()
	dir := t.TempDir()
	issued, err := cert.Issue(dir, []string{"usher.usher-system.svc", "other.usher-system.svc", "127.0.0.1"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	o.Address, o.CertFile, o.KeyFile, o.Log = "127.0.0.1:0", issued.CertFile, issued.KeyFile, slog.New(slog.DiscardHandler)
	s, err := webhook.New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return &server{host: strings.TrimPrefix(s.URL(), "https://"), ca: issued.CA}
}

// call returns the status of the answer.
func (s *server) call(t *testing.T, kubeconfig string, hook webhookutil.ClientConfig) (int, error) {
	t.Helper()
	manager, err := webhookutil.NewClientManager([]schema.GroupVersion{{Version: "v1"}})
	if err != nil {
		t.Fatal(err)
	}
	resolver, err := webhookutil.NewDefaultAuthenticationInfoResolver(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	manager.SetAuthenticationInfoResolver(resolver)
	manager.SetServiceResolver(services(s.host))
	client, err := manager.HookClient(hook)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	defer client.Client.CloseIdleConnections()
	code := 0
	result := client.Post().Body([]byte("{}")).Do(ctx)
	result.StatusCode(&code)
	return code, result.Error()
}

// services resolves every Service to one host.
type services string

func (s services) ResolveEndpoint(string, string, int32) (*url.URL, error) {
	return &url.URL{Scheme: "https", Host: string(s)}, nil
}

type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "clients"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	template.Raw = der
	return &authority{template, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

func (a *authority) issue(t *testing.T, name, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, a.certificate, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	write(t, keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
}

func TestLint(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	token := write(t, filepath.Join(dir, "token"), []byte("secret"))
	users := func(lines string) string {
		return write(t, filepath.Join(t.TempDir(), "kubeconfig"), []byte("apiVersion: v1\nkind: Config\nusers:\n"+lines))
	}
	named := users("- {name: usher.usher-system.svc, user: {tokenFile: " + token + "}}\n")
	everybody := users("- {name: '*', user: {tokenFile: " + token + "}}\n")
	useless := users("- {name: usher, user: {tokenFile: " + token + "}}\n")
	gone := users("- {name: usher.usher-system.svc, user: {tokenFile: /nowhere/token}}\n")
	goneCert := users("- {name: usher.usher-system.svc, user: {client-certificate: /nowhere/c, client-key: /nowhere/k}}\n")
	broken := write(t, filepath.Join(dir, "broken"), []byte("{"))
	plugin := func(name, kubeconfig string) string {
		return "- {name: " + name + ", configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, kubeConfigFile: " + kubeconfig + "}}\n"
	}
	both := func(kubeconfig string) string {
		return plugin("MutatingAdmissionWebhook", kubeconfig) + plugin("ValidatingAdmissionWebhook", kubeconfig)
	}
	inFile := write(t, filepath.Join(dir, "webhooks.yaml"), []byte("{apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, kubeConfigFile: rel}"))
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"
	for _, row := range []struct {
		reason, text string
		servers      []string
		want         []string
	}{
		{"it is good", head + both(named), nil, nil},
		{"everybody gets the token", head + both(everybody), []string{"usher.usher-system.svc", "*", "*.example.com", "https://example.com:8443/x"}, []string{"every webhook of the cluster gets the token"}},
		{"no user is called so", head + both(useless), nil, []string{`API servers show nothing to usher.usher-system.svc; add a user with the name "usher.usher-system.svc"`}},
		{"the port is another one", head + both(named), []string{"usher.usher-system.svc:8443"}, []string{`add a user with the name "usher.usher-system.svc:8443"`}},
		{"the token is gone", head + both(gone), nil, []string{"calls of usher.usher-system.svc fail: open /nowhere/token"}},
		{"the certificate is gone", head + both(goneCert), nil, []string{"fail: open /nowhere/c", "fail: open /nowhere/k"}},
		{"the kubeconfig is broken", head + both(broken), nil, []string{"API servers refuse to start"}},
		{"the kubeconfig is on another host", head + both("/elsewhere/kubeconfig"), nil, nil},
		{"one plugin is missing", head + plugin("ValidatingAdmissionWebhook", named), nil, []string{"MutatingAdmissionWebhook is missing"}},
		{"the path is relative", head + both("kubeconfig"), nil, []string{"kubeconfig does not begin with /", "kubeconfig does not begin with /"}},
		{"no kubeconfig", head + both("''"), nil, []string{"missing", "missing"}},
		{"no configuration", head + "- {name: MutatingAdmissionWebhook}\n- {name: ValidatingAdmissionWebhook, path: nowhere}\n", nil, []string{"missing: API servers show nothing"}},
		{"in a file of its own", head + "- {name: MutatingAdmissionWebhook, path: " + inFile + "}\n- {name: ValidatingAdmissionWebhook, path: webhooks.yaml}\n", nil, []string{"rel does not", "rel does not"}},
		{"an old version", strings.Replace(head, "/v1\n", "/v1alpha1\n", 1) + both(named), nil, []string{"v1alpha1 is an old version"}},
		{"another file", "apiVersion: v1\nkind: Pod\n", nil, []string{`unknown version "v1"`, `"Pod" is not AdmissionConfiguration`, "MutatingAdmissionWebhook is missing", "ValidatingAdmissionWebhook is missing"}},
		{"no YAML", "{", nil, []string{"API servers refuse to start with it"}},
	} {
		file := write(t, filepath.Join(dir, "admission.yaml"), []byte(row.text))
		problems, err := admission.Lint(file, row.servers)
		if err != nil {
			t.Errorf("%s: %v", row.reason, err)
		}
		var got []string
		for _, p := range problems {
			got = append(got, p.String())
		}
		if !slices.EqualFunc(row.want, got, func(want, got string) bool { return strings.Contains(got, want) }) {
			t.Errorf("%s: got %q, want %q", row.reason, got, row.want)
		}
	}
	if _, err := admission.Lint(filepath.Join(dir, "gone"), nil); err == nil {
		t.Error("a file that does not exist is no error")
	}
	if _, err := admission.Lint(filepath.Join(dir, "admission.yaml"), []string{"a/b"}); err == nil {
		t.Error("a server that is none is no error")
	}
}
