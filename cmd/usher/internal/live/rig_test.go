package live_test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/cmd/usher/internal/live"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/cmd/usher/internal/replica"
	"github.com/usher-dev/usher/cmd/usher/internal/try"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/audit/result/resulttest"
	"github.com/usher-dev/usher/internal/auditapi"
	"github.com/usher-dev/usher/internal/console"
	"github.com/usher-dev/usher/internal/delegated"
	"github.com/usher-dev/usher/internal/delegated/delegatedtest"
	"github.com/usher-dev/usher/internal/observe/recent"
	"github.com/usher-dev/usher/internal/observe/recording"
	"github.com/usher-dev/usher/internal/serve/decisions"
)

// What the API of delegated uses logs on its own.
func TestMain(m *testing.M) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}

// A rig is a cluster with an API server and two replicas. The user admin may read everything, and ann the namespace shop.
type rig struct {
	t       *testing.T
	dir     string
	cluster *delegatedtest.Cluster
	api     *apiServer
	rings   []*recent.Ring
	servers []*httptest.Server
	audit   *resulttest.Reader
	// recordings are those of the second replica.
	recordings *recording.Store
	// streams is how many replicas serve now.
	streams atomic.Int64
}

func newRig(t *testing.T, objects ...string) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), cluster: delegatedtest.NewCluster(t), api: newAPIServer(t, objects), recordings: recording.New(1 << 20), audit: &resulttest.Reader{Pass: 1, States: []result.KindState{{Kind: result.Kind{Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Kind: "Pod", Namespaced: true}, Objects: 9}}}}
	for _, verb := range delegated.Verbs() {
		for _, resource := range delegated.Resources() {
			r.cluster.Grant("admin", verb, resource, "")
			r.cluster.Grant("ann", verb, resource, "shop")
		}
	}
	var bundle []byte
	for i := range 2 {
		r.rings = append(r.rings, &recent.Ring{})
		handlers := map[string]http.Handler{
			delegated.Decisions:          decisions.New(r.rings[i], "DecisionList"),
			delegated.CandidateDecisions: decisions.New(&recent.Ring{}, "CandidateDecisionList"),
			// The second one audits.
			delegated.AuditResults: auditapi.New(auditapi.Options{Reader: func() result.Reader {
				if i == 0 {
					return nil
				}
				return r.audit
			}}),
		}
		if i == 1 {
			handlers[delegated.Recordings] = r.recordings
		}
		api, err := delegated.New(delegated.Options{Client: r.cluster.Client, Audiences: []string{delegatedtest.Audience}, Log: slog.New(slog.DiscardHandler), Handlers: handlers})
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if q.URL.Query().Get("watch") != "" {
				r.streams.Add(1)
				defer r.streams.Add(-1)
			}
			api.ServeHTTP(w, q)
		}))
		server.EnableHTTP2 = true
		server.StartTLS()
		t.Cleanup(func() { r.rings[i].End(); server.CloseClientConnections(); server.Close() })
		r.servers = append(r.servers, server)
		bundle = append(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})...)
	}
	r.write("ca.crt", bundle)
	return r
}

func (r *rig) write(name string, content []byte) string {
	r.t.Helper()
	file := filepath.Join(r.dir, name)
	if err := os.WriteFile(file, content, 0o600); err != nil {
		r.t.Fatal(err)
	}
	return file
}

// A page is the console of a user in a browser.
type page struct {
	t      *testing.T
	server *httptest.Server
	client *http.Client
	// token is what proves to replicas who the user is, and secret what does to the API server.
	token, secret string
	// seen is all that was answered.
	mu   sync.Mutex
	seen bytes.Buffer
}

// open runs a console for a user.
func (r *rig) open(user string, change ...func(*live.Flags)) *page {
	r.t.Helper()
	p := &page{t: r.t, token: r.cluster.Token(user, delegatedtest.Audience), secret: "kube-" + user}
	flags := live.Flags{Replicas: replica.Flags{
		CAFile: filepath.Join(r.dir, "ca.crt"), TokenFile: r.write(user+".token", []byte(p.token)), Kubeconfig: r.write(user+".config", r.api.config(p.secret)), Namespace: "usher-system",
	}}
	for _, s := range r.servers {
		flags.Replicas.Servers = append(flags.Replicas.Servers, s.URL)
	}
	for _, f := range change {
		f(&flags)
	}
	attempts, err := try.NewAttempter(policies.Limits{}, nil, false)
	if err != nil {
		r.t.Fatal(err)
	}
	routes, err := flags.Routes(r.t.Context(), attempts)
	if err != nil {
		r.t.Fatal(err)
	}
	p.server = httptest.NewUnstartedServer(nil)
	address, err := url.Parse("http://" + p.server.Listener.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	port, err := strconv.Atoi(address.Port())
	if err != nil {
		r.t.Fatal(err)
	}
	served, err := console.New(console.Options{Port: port, Routes: routes, Version: "1"})
	if err != nil {
		r.t.Fatal(err)
	}
	p.server.Config.Handler = served
	p.server.Start()
	r.t.Cleanup(func() { p.server.CloseClientConnections(); p.server.Close() })
	jar, err := cookiejar.New(nil)
	if err != nil {
		r.t.Fatal(err)
	}
	p.client = &http.Client{Jar: jar}
	p.get(served.URL())
	return p
}

func (p *page) get(address string) *http.Response {
	p.t.Helper()
	request, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, address, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	response, err := p.client.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

// ask asks a route: with a body if there is one.
func ask[Out any](p *page, path string, in any, status int) (out Out) {
	p.t.Helper()
	var response *http.Response
	if in == nil {
		response = p.get(p.server.URL + "/api/v1/" + path)
	} else {
		body, err := json.Marshal(in)
		if err != nil {
			p.t.Fatal(err)
		}
		request, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.server.URL+"/api/v1/"+path, bytes.NewReader(body))
		if err != nil {
			p.t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		if response, err = p.client.Do(request); err != nil {
			p.t.Fatal(err)
		}
		defer response.Body.Close()
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	p.keep(text)
	if response.StatusCode != status {
		p.t.Errorf("%s %v: status %d, want %d: %s", path, in, response.StatusCode, status, text)
	}
	if err := json.Unmarshal(text, &out); err != nil {
		p.t.Errorf("%s: %v: %s", path, err, text)
	}
	return out
}

func (p *page) keep(text []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen.Write(text)
}

// An event is one of a stream.
type event struct{ kind, data string }

// follow returns what reads the events of a stream: false at its end.
func (p *page) follow(query string) (next func() (event, bool), leave func()) {
	p.t.Helper()
	response := p.get(p.server.URL + "/api/v1/live/decisions?" + query)
	if response.StatusCode != http.StatusOK {
		p.t.Fatalf("status %d", response.StatusCode)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	return func() (e event, ok bool) {
		for lines.Scan() {
			p.keep(lines.Bytes())
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "event":
				e.kind = value
			case "data":
				e.data = value
			case "":
				if e.kind != "" {
					return e, true
				}
			}
		}
		return e, false
	}, func() { _ = response.Body.Close() }
}

// An apiServer serves objects, and authorizes requests.
type apiServer struct {
	server *httptest.Server

	mu      sync.Mutex
	objects []map[string]any
	asked   []string
}

// kinds are the resources that it serves.
var kinds = map[string]struct {
	kind       string
	namespaced bool
}{
	"/v1/pods": {"Pod", true}, "/v1/configmaps": {"ConfigMap", true}, "/v1/namespaces": {"Namespace", false}, "/v1/secrets": {"Secret", true},
	"usher.dev/v1alpha1/clusterobjectpolicies": {"ClusterObjectPolicy", false}, "usher.dev/v1alpha1/objectpolicies": {"ObjectPolicy", true},
	"usher.dev/v1alpha1/clusterpolicyexemptions": {"ClusterPolicyExemption", false}, "usher.dev/v1alpha1/policyexemptions": {"PolicyExemption", true},
	"usher.dev/v1alpha1/policycandidates": {"PolicyCandidate", true}, "coordination.k8s.io/v1/leases": {"Lease", true},
	"admissionregistration.k8s.io/v1/validatingadmissionpolicies":       {"ValidatingAdmissionPolicy", false},
	"admissionregistration.k8s.io/v1/validatingadmissionpolicybindings": {"ValidatingAdmissionPolicyBinding", false},
}

func newAPIServer(t *testing.T, objects []string) *apiServer {
	t.Helper()
	a := &apiServer{}
	for _, text := range objects {
		var tree map[string]any
		if err := yaml.Unmarshal([]byte(text), &tree); err != nil {
			t.Fatal(err)
		}
		a.objects = append(a.objects, tree)
	}
	a.server = httptest.NewTLSServer(http.HandlerFunc(a.serve))
	t.Cleanup(a.server.Close)
	return a
}

func (a *apiServer) config(token string) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":%q,"insecure-skip-tls-verify":true}}],"users":[{"name":"u","user":{"token":%q}}],
		"contexts":[{"name":"mine","context":{"cluster":"c","user":"u","namespace":"shop"}}],"current-context":"mine"}`, a.server.URL, token)
}

func fail(w http.ResponseWriter, code int, reason, message string) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code, "message": message})
}

func (a *apiServer) serve(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, r.Method+" "+r.URL.Path)
	w.Header().Set("Content-Type", "application/json")
	user := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer kube-")
	if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews") {
		var review struct {
			Spec struct {
				ResourceAttributes struct{ Namespace string } `json:"resourceAttributes"`
			} `json:"spec"`
		}
		_ = json.NewDecoder(r.Body).Decode(&review)
		fmt.Fprintf(w, `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{},"status":{"allowed":%v}}`, may(user, review.Spec.ResourceAttributes.Namespace))
		return
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if parts[0] == "api" {
		parts = append([]string{"apis", ""}, parts[1:]...)
	}
	if len(parts) < 4 {
		a.discover(w, parts)
		return
	}
	group, version, rest, namespace := parts[1], parts[2], parts[3:], ""
	if rest[0] == "namespaces" && len(rest) > 2 {
		namespace, rest = rest[1], rest[2:]
	}
	of, ok := kinds[group+"/"+version+"/"+rest[0]]
	name := ""
	if len(rest) > 1 {
		name = rest[1]
	}
	switch {
	case r.Method != http.MethodGet:
		fail(w, http.StatusForbidden, "Forbidden", "nothing is written here")
	case !ok:
		fail(w, http.StatusNotFound, "NotFound", "the server could not find the requested resource")
	case !may(user, cmp.Or(namespace, map[bool]string{true: name}[of.kind == "Namespace"])):
		fail(w, http.StatusForbidden, "Forbidden", fmt.Sprintf("%s is forbidden: User %q cannot read it in %q", rest[0], user, namespace))
	default:
		a.answer(w, of.kind, strings.TrimPrefix(group+"/"+version, "/"), namespace, name)
	}
}

// may reports whether a user may read a namespace, or all of them if it is empty.
func may(user, namespace string) bool { return user == "admin" || user == "ann" && namespace == "shop" }

func (a *apiServer) answer(w http.ResponseWriter, kind, apiVersion, namespace, name string) {
	items := []map[string]any{}
	for _, object := range a.objects {
		metadata := object["metadata"].(map[string]any)
		if object["kind"] != kind || object["apiVersion"] != apiVersion || namespace != "" && metadata["namespace"] != namespace || name != "" && metadata["name"] != name {
			continue
		}
		items = append(items, object)
	}
	switch {
	case name == "":
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": kind + "List", "apiVersion": apiVersion, "metadata": map[string]any{}, "items": items})
	case len(items) == 0:
		fail(w, http.StatusNotFound, "NotFound", fmt.Sprintf("%s %q not found", strings.ToLower(kind), name))
	default:
		_ = json.NewEncoder(w).Encode(items[0])
	}
}

func (a *apiServer) discover(w http.ResponseWriter, parts []string) {
	switch {
	case len(parts) == 2 && parts[1] == "":
		fmt.Fprint(w, `{"kind":"APIVersions","versions":["v1"]}`)
	case len(parts) == 1:
		fmt.Fprint(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
	default:
		resources := []map[string]any{}
		for name, of := range kinds {
			if prefix := parts[1] + "/" + parts[2] + "/"; strings.HasPrefix(name, prefix) {
				resources = append(resources, map[string]any{"name": strings.TrimPrefix(name, prefix), "kind": of.kind, "namespaced": of.namespaced, "verbs": []string{"get", "list"}})
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "APIResourceList", "groupVersion": strings.TrimPrefix(parts[1]+"/"+parts[2], "/"), "resources": resources})
	}
}
