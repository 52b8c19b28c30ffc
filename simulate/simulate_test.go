package simulate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/simulate"
)

// TestMain keeps what the API server's code logs out of the output; that is set for a
// whole process.
func TestMain(m *testing.M) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}

// base is a webhook that everything speaks for; tests change it.
const base = `
apiVersion: admissionregistration.k8s.io/v1
kind: KIND
metadata: {name: c}
webhooks:
- name: mutate.usher.dev
  clientConfig: {service: {namespace: tools, name: hook, path: /x}}
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  sideEffects: None
  admissionReviewVersions: [v1]
`

func TestWhyAWebhookIsNotCalled(t *testing.T) {
	t.Parallel()
	tests := []struct {
		reason, old, with, want string
	}{
		{"operation", "operations: [CREATE]", "operations: [UPDATE, DELETE]", `rules[0]: operations ["UPDATE" "DELETE"] lacks "CREATE"`},
		{"group", `apiGroups: [""]`, "apiGroups: [apps]", `rules[0]: apiGroups ["apps"] lacks ""`},
		{"version", "apiVersions: [v1]", "apiVersions: [v2]", `rules[0]: apiVersions ["v2"] lacks "v1"`},
		{"resource", "resources: [configmaps]", "resources: [pods, pods/*]", `rules[0]: resources ["pods" "pods/*"] lacks "configmaps"`},
		{"scope", "resources: [configmaps]", "resources: [configmaps], scope: Cluster", "rules[0]: scope is Cluster"},
		{"no rules", "rules: [{operations: [CREATE], apiGroups: [\"\"], apiVersions: [v1], resources: [configmaps]}]", "rules: []", "it has no rules, and so matches nothing"},
		{
			"the closest of several rules", "rules: [", "rules: [{operations: [CREATE], apiGroups: [apps], apiVersions: [v1], resources: [deployments]}, ",
			"",
		},
		{"namespace", "  sideEffects", "  namespaceSelector: {matchLabels: {env: prod}}\n  sideEffects", `namespaceSelector "env=prod" does not match namespace shop with labels "env=test,kubernetes.io/metadata.name=shop"`},
		{"object", "  sideEffects", "  objectSelector: {matchLabels: {a: b}}\n  sideEffects", `objectSelector "a=b" does not match labels "app=web" of the object`},
		{"condition", "  sideEffects", "  matchConditions: [{name: fine, expression: 'true'}, {name: other, expression: \"object.metadata.name == 'x'\"}]\n  sideEffects", "matchConditions[other] is false"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			for _, kind := range []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"} {
				text := strings.Replace(strings.Replace(base, "KIND", kind, 1), tt.old, tt.with, 1)
				if text == strings.Replace(base, "KIND", kind, 1) {
					t.Fatalf("%q is not in the configuration", tt.old)
				}
				trace := run(t, simulate.Options{Local: allowing}, create(), text)
				step := find(t, trace, "c/mutate.usher.dev")
				if tt.want == "" {
					if !step.Called || step.Why != "rules[1]" {
						t.Errorf("%s: called %v by %q, want by rules[1]", kind, step.Called, step.Why)
					}
					continue
				}
				if step.Called || step.Outcome != simulate.Skipped || step.Why != tt.want {
					t.Errorf("%s: %s, called %v, because:\n%s\nwant:\n%s", kind, step.Outcome, step.Called, step.Why, tt.want)
				}
			}
		})
	}
}

// TestUnaskedPolicies: policies to which no webhook configuration sends anything must not look as if they allowed.
func TestUnaskedPolicies(t *testing.T) {
	t.Parallel()
	usual := simulate.AnsweredBy(usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) { return usher.Denied("no"), nil }))
	for name, unasked := range map[string]bool{"": true, "mutate.other.dev": true, "mutate.usher.dev": false} {
		var objects []map[string]any
		if name != "" {
			objects = make([]map[string]any, 1)
			if err := yaml.Unmarshal([]byte(strings.NewReplacer("KIND", "MutatingWebhookConfiguration", "mutate.usher.dev", name).Replace(base)), &objects[0]); err != nil {
				t.Fatal(err)
			}
		}
		cluster, err := simulate.FromObjects(objects)
		if err != nil {
			t.Fatal(err)
		}
		s, err := simulate.New(t.Context(), cluster, simulate.Options{Local: usual})
		if err == nil {
			s.Close()
		}
		if said := err != nil && strings.Contains(err.Error(), "add the webhook configurations of Usher"); said != unasked || err != nil != unasked {
			t.Errorf("webhook %q: %v", name, err)
		}
	}
}

func TestServicesAreWhereOptionsSay(t *testing.T) {
	t.Parallel()
	var path atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path.Store(r.URL.String())
		allow(w, r)
	}))
	t.Cleanup(server.Close)
	text := strings.Replace(base, "KIND", "ValidatingWebhookConfiguration", 1)
	for name, want := range map[string]bool{"tools/hook": true, "tools/hook:443": true, "tools/hook:8443": false, "other/hook": false} {
		path.Store("")
		trace := run(t, simulate.Options{Services: map[string]string{name: server.URL + "/prefix"}}, create(), text)
		if trace.Admitted != want || (path.Load() == "/prefix/x?timeout=10s") != want {
			t.Errorf("%s: admitted %v, called at %q; want %v", name, trace.Admitted, path.Load(), want)
		}
	}
}

func TestRecordedAnswersAreReplayed(t *testing.T) {
	t.Parallel()
	text := strings.Replace(base, "KIND", "MutatingWebhookConfiguration", 1)
	recording := &simulate.Recording{}
	first := run(t, simulate.Options{Local: labelling, Record: recording}, create(), text)
	var file bytes.Buffer
	if err := recording.Write(&file); err != nil {
		t.Fatal(err)
	}
	read, err := simulate.ReadRecording(&file)
	if err != nil {
		t.Fatal(err)
	}
	again := run(t, simulate.Options{Replay: read}, create(), text)
	if diff := cmp.Diff(first.Result, again.Result); diff != "" || !again.Admitted {
		t.Errorf("admitted %v, -recorded +replayed:\n%s", again.Admitted, diff)
	}
	other := create()
	other.Object["data"] = map[string]any{"other": "x"}
	if trace := run(t, simulate.Options{Replay: read}, other, text); trace.Admitted {
		t.Error("what was not recorded is answered")
	}
}

func TestLateAnswersEndAsPoliciesSay(t *testing.T) {
	t.Parallel()
	text := strings.Replace(base, "KIND", "ValidatingWebhookConfiguration", 1)
	hangs := func(string, string) http.Handler {
		return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	}
	trace := run(t, simulate.Options{Local: hangs, Timeout: 50 * time.Millisecond}, create(), text)
	if trace.Admitted || trace.Error.Code != http.StatusGatewayTimeout {
		t.Errorf("admitted %v with %v, want a timeout", trace.Admitted, trace.Error)
	}
}

func TestRequestsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	s := simulator(t, simulate.Options{}, "")
	for want, r := range map[string]simulate.Request{
		"is none of":         {Operation: "PATCH", Object: create().Object},
		"needs an object":    {Operation: usher.Create},
		"does not know":      {Operation: usher.Create, Object: map[string]any{"apiVersion": "a.b/v1", "kind": "C"}},
		"no subresource":     {Operation: usher.Create, Object: create().Object, Subresource: "exec"},
		"say which resource": {Operation: usher.Update, Object: map[string]any{"apiVersion": "autoscaling/v1", "kind": "Scale"}, Subresource: "scale"},
		"does not have":      {Operation: usher.Update, Object: create().Object},
	} {
		if _, err := s.Run(t.Context(), r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want one that says %q", err, want)
		}
	}
}

func TestLiveClustersAreOnlyRead(t *testing.T) {
	t.Parallel()
	var written atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			written.Add(1)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1"})
	}))
	t.Cleanup(server.Close)
	cluster, err := simulate.FromServer(t.Context(), &rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		request, err := http.NewRequestWithContext(t.Context(), method, server.URL+"/api/v1/namespaces", nil)
		if err != nil {
			t.Fatal(err)
		}
		if response, err := client.Do(request); err == nil {
			_ = response.Body.Close()
			t.Errorf("%s is sent", method)
		}
	}
	if written.Load() != 0 {
		t.Errorf("the server got %d writes", written.Load())
	}
}

// TestMissingRights: an error names the rights that are missing, before anything waits for what may not be read.
func TestMissingRights(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "webhookconfigurations") || strings.HasSuffix(r.URL.Path, "customresourcedefinitions") {
			w.WriteHeader(http.StatusForbidden)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1"})
	}))
	t.Cleanup(server.Close)
	_, err := simulate.FromServer(t.Context(), &rest.Config{Host: server.URL})
	for _, want := range []string{
		"you may not list customresourcedefinitions.apiextensions.k8s.io, mutatingwebhookconfigurations.admissionregistration.k8s.io, validatingwebhookconfigurations.admissionregistration.k8s.io, which",
		"'kubectl auth can-i list customresourcedefinitions.apiextensions.k8s.io'",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// TestFirstRefusal: of several webhooks that refuse, the error is that of the first one, whichever is the fastest.
func TestFirstRefusal(t *testing.T) {
	t.Parallel()
	hooks := "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: c}, webhooks: ["
	for _, name := range []string{"allows", "slow", "fast"} {
		hooks += fmt.Sprintf(`{name: %s.usher.dev, clientConfig: {url: 'https://a.example'}, sideEffects: None, admissionReviewVersions: [v1], rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]}, `, name)
	}
	hooks += "]}"
	for _, broken := range []bool{false, true} {
		answered := make(chan struct{})
		o := simulate.Options{Local: func(_, webhook string) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch webhook {
				case "allows.usher.dev":
					allow(w, r)
					return
				case "slow.usher.dev":
					<-answered
					if broken {
						http.Error(w, "broken", http.StatusInternalServerError)
						return
					}
				default:
					defer close(answered)
				}
				decide(w, r, usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) { return usher.Denied("no"), nil }))
			})
		}}
		trace := run(t, o, create(), hooks)
		want := `admission webhook "slow.usher.dev" denied the request: no`
		if broken {
			want = `failed calling webhook "slow.usher.dev": failed to call webhook: `
		}
		if trace.Error == nil || !strings.Contains(trace.Error.Message, want) {
			t.Errorf("error %+v, want %q", trace.Error, want)
		}
		for name, outcome := range map[string]simulate.Outcome{"c/allows.usher.dev": simulate.Passed, "c/fast.usher.dev": simulate.Denied} {
			if s := find(t, trace, name); s.Outcome != outcome {
				t.Errorf("%s: %+v", name, s)
			}
		}
	}
}

// create is a request for a ConfigMap.
// Reviews are answered and not stored, so that they need no name and get nothing that stored
// objects get.
func TestReviewsNeedNoName(t *testing.T) {
	t.Parallel()
	for _, review := range []struct{ apiVersion, kind, namespace string }{
		{"authentication.k8s.io/v1", "TokenReview", ""},
		{"authentication.k8s.io/v1", "SelfSubjectReview", ""},
		{"authorization.k8s.io/v1", "SubjectAccessReview", ""},
		{"authorization.k8s.io/v1", "SelfSubjectAccessReview", ""},
		{"authorization.k8s.io/v1", "SelfSubjectRulesReview", ""},
		{"authorization.k8s.io/v1", "LocalSubjectAccessReview", "shop"},
	} {
		object := map[string]any{"apiVersion": review.apiVersion, "kind": review.kind, "spec": map[string]any{}}
		trace := run(t, simulate.Options{}, simulate.Request{Operation: usher.Create, Namespace: review.namespace, Object: object}, "")
		metadata, _ := trace.Result["metadata"].(map[string]any)
		if !trace.Admitted || metadata["uid"] != nil || metadata["name"] != nil {
			t.Errorf("%s: %+v becomes %v", review.kind, trace.Error, trace.Result)
		}
	}
	object := map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}
	if trace := run(t, simulate.Options{}, simulate.Request{Operation: usher.Create, Namespace: "shop", Object: object}, ""); trace.Admitted {
		t.Error("a ConfigMap without a name is admitted")
	}
}

func create() simulate.Request {
	return simulate.Request{Operation: usher.Create, Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "a", "namespace": "shop", "labels": map[string]any{"app": "web"}},
	}}
}

const shop = `{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {env: test}}}`

func simulator(t *testing.T, o simulate.Options, documents string) *simulate.Simulator {
	t.Helper()
	var objects []map[string]any
	for _, document := range []string{shop, documents} {
		var tree map[string]any
		if err := yaml.Unmarshal([]byte(document), &tree); err != nil {
			t.Fatal(err)
		}
		if tree != nil {
			objects = append(objects, tree)
		}
	}
	cluster, err := simulate.FromObjects(objects)
	if err != nil {
		t.Fatal(err)
	}
	s, err := simulate.New(t.Context(), cluster, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func run(t *testing.T, o simulate.Options, r simulate.Request, documents string) *simulate.Trace {
	t.Helper()
	trace, err := simulator(t, o, documents).Run(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

func find(t *testing.T, trace *simulate.Trace, name string) simulate.Step {
	t.Helper()
	for _, step := range trace.Steps {
		if step.Name == name {
			return step
		}
	}
	t.Fatalf("no step %s: %+v", name, trace.Steps)
	return simulate.Step{}
}

func allowing(string, string) http.Handler { return http.HandlerFunc(allow) }

func allow(w http.ResponseWriter, r *http.Request) {
	decide(w, r, usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) { return usher.Allowed(), nil }))
}

func labelling(string, string) http.Handler {
	return simulate.AnsweredBy(usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) {
		return usher.Patched(usher.PatchOp{Op: "add", Path: "/metadata/labels/seen", Value: "1"}), nil
	}))("", "mutate.usher.dev")
}

func decide(w http.ResponseWriter, r *http.Request, d usher.Decider) {
	simulate.AnsweredBy(d)("", "validate.usher.dev").ServeHTTP(w, r)
}
