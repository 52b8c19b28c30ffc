package transport_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/transport"
)

// A step is what a server answers one request with, and what it has to look like.
type step struct {
	method, path string
	// query and body are parts of the request; contentType is all of it.
	query, body, contentType string
	code                     int
	answer                   string
}

const version7 = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"shop","resourceVersion":"7","uid":"u"},"data":{"old":"1"}}`

// serve answers requests step by step, and fails the test if they are others.
func serve(t *testing.T, steps ...step) string {
	t.Helper()
	var mu sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, _ := io.ReadAll(r.Body)
		if len(steps) == 0 {
			t.Errorf("unexpected %s %s %s", r.Method, r.URL, body)
			return
		}
		s := steps[0]
		steps = steps[1:]
		if r.Method != s.method || r.URL.Path != s.path || !strings.Contains(r.URL.RawQuery, s.query) || !strings.Contains(string(body), s.body) ||
			s.contentType != "" && r.Header.Get("Content-Type") != s.contentType {
			t.Errorf("got %s %s %s %s\nwant %s %s?%s %s %s", r.Method, r.URL, r.Header.Get("Content-Type"), body, s.method, s.path, s.query, s.contentType, s.body)
		}
		w.Header().Set("Content-Type", "application/json")
		if s.code != 0 {
			w.WriteHeader(s.code)
		}
		_, _ = io.WriteString(w, s.answer)
	}))
	t.Cleanup(func() {
		server.Close()
		if len(steps) > 0 {
			t.Errorf("%d requests did not come, the next is %s %s", len(steps), steps[0].method, steps[0].path)
		}
	})
	return server.URL
}

// wrapped is a client of a server that is decided about by d.
func wrapped(t *testing.T, server string, d usher.DeciderFunc, o transport.Options) *http.Client {
	t.Helper()
	o.Log = slog.New(slog.DiscardHandler)
	if o.User == nil {
		o.User = &usher.User{Name: "jane"}
	}
	config, err := transport.Wrap(&rest.Config{Host: server}, d, o)
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// do sends a request and returns the code and the message of the answer.
func do(t *testing.T, client *http.Client, method, url, contentType, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	var status metav1.Status
	_ = json.Unmarshal(text, &status)
	return response.StatusCode, status.Message
}

func allow(context.Context, *usher.Request) (usher.Decision, error) { return usher.Allowed(), nil }

// deny denies what it is asked about objects.
func deny(_ context.Context, r *usher.Request) (usher.Decision, error) {
	if r.Phase == usher.Validate {
		return usher.Denied("no"), nil
	}
	return usher.Allowed(), nil
}

// label adds a label in the mutating phase.
func label(_ context.Context, r *usher.Request) (usher.Decision, error) {
	tree, err := r.Object.Tree()
	if err != nil || r.Phase != usher.Mutate || r.Operation == usher.Delete || tree["metadata"].(map[string]any)["labels"] != nil {
		return usher.Allowed(), err
	}
	return usher.Patched(usher.PatchOp{Op: "add", Path: "/metadata/labels", Value: map[string]any{"team": "shop"}}), nil
}

// TestBodies decodes what clients may send; what is changed leaves as JSON.
func TestBodies(t *testing.T) {
	t.Parallel()
	object := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}, "data": map[string]any{"k": "v"}}
	cbor, err := direct.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	for contentType, body := range map[string]string{
		"":                                `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}`,
		"application/json; charset=utf-8": `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}`,
		"application/yaml":                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v}\n",
		"application/cbor":                string(cbor),
	} {
		want := `{"apiVersion":"v1","data":{"k":"v"},"kind":"ConfigMap","metadata":{"labels":{"team":"shop"},"name":"a","namespace":"shop"}}`
		server := serve(t,
			step{method: "POST", path: many, body: want, contentType: "application/json"},
			step{method: "POST", path: many, body: body, contentType: contentType})
		if code, message := do(t, wrapped(t, server, label, transport.Options{}), "POST", server+many, contentType, body); code != 200 {
			t.Errorf("%s: code %d: %s", contentType, code, message)
		}
		if code, message := do(t, wrapped(t, server, allow, transport.Options{}), "POST", server+many, contentType, body); code != 200 {
			t.Errorf("%s: code %d: %s", contentType, code, message)
		}
	}
}

// TestWithoutADecision has requests that cannot be decided.
func TestWithoutADecision(t *testing.T) {
	t.Parallel()
	good := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`
	broken := func(context.Context, *usher.Request) (usher.Decision, error) {
		return usher.Decision{}, errors.New("boom")
	}
	for _, test := range []struct {
		reason, method, path, contentType, body string
		decide                                  usher.DeciderFunc
		before                                  []step
		says                                    string
	}{
		{"the decider fails", "POST", many, "application/json", good, broken, nil, "no decision was reached: boom"},
		{"a type that is not known", "POST", many, "application/vnd.kubernetes.protobuf", "k8s\x00\x0a\x0d\x0a\x06x.io/a\x12\x03Odd", allow, nil, "Options.Scheme"},
		{"a type that is no type", "POST", many, "application/x-unknown", good, allow, nil, "Content-Type application/x-unknown is not known"},
		{"no kind", "POST", many, "application/json", `{}`, allow, nil, "does not say its apiVersion and kind"},
		{"no JSON", "POST", many, "application/json", `{`, allow, nil, "decode object"},
		{
			"the object may not be read", "PATCH", one, "application/merge-patch+json", `{}`, allow,
			[]step{{method: "GET", path: one, code: 403, answer: `{"message":"jane cannot get"}`}}, "jane cannot get",
		},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			server := serve(t, test.before...)
			code, message := do(t, wrapped(t, server, test.decide, transport.Options{}), test.method, server+test.path, test.contentType, test.body)
			if code != 500 || !strings.Contains(message, "no decision was reached") || !strings.Contains(message, test.says) {
				t.Errorf("code %d: %s, want 500 and %q", code, message, test.says)
			}
			ignoring := serve(t, append(slices.Clone(test.before), step{method: test.method, path: test.path, body: test.body, contentType: test.contentType})...)
			client := wrapped(t, ignoring, test.decide, transport.Options{FailurePolicy: usher.Ignore})
			if code, message := do(t, client, test.method, ignoring+test.path, test.contentType, test.body); code != 200 {
				t.Errorf("ignored: code %d: %s", code, message)
			}
		})
	}
}

func TestWhatIsNotDecidedIsNotTouched(t *testing.T) {
	t.Parallel()
	never := func(_ context.Context, r *usher.Request) (usher.Decision, error) {
		t.Errorf("asked about %s %s", r.Operation, r.Resource)
		return usher.Denied("no"), nil
	}
	for _, r := range [][2]string{
		{"GET", many}, {"GET", many + "?watch=true"}, {"GET", one}, {"HEAD", one}, {"OPTIONS", one},
		{"POST", "/healthz"}, {"POST", "/apis"}, {"POST", "/apis/apps/v1"}, {"POST", "/other/api/v1/pods"}, {"GET", "/api/v1/namespaces/shop/pods/a/log"},
	} {
		path, query, _ := strings.Cut(r[1], "?")
		server := serve(t, step{method: r[0], path: path, query: query})
		if code, _ := do(t, wrapped(t, server, never, transport.Options{}), r[0], server+r[1], "", ""); code != 200 {
			t.Errorf("%s %s: code %d", r[0], r[1], code)
		}
	}
	// Nothing is read for what no policy is about.
	nothing := transport.Options{Covers: func(*usher.Request) bool { return false }}
	server := serve(t, step{method: "PUT", path: one, body: version7})
	if code, _ := do(t, wrapped(t, server, never, nothing), "PUT", server+one, "application/json", version7); code != 200 {
		t.Errorf("code %d", code)
	}
}

func TestLargeBody(t *testing.T) {
	t.Parallel()
	client := wrapped(t, serve(t), allow, transport.Options{MaxBody: 100, FailurePolicy: usher.Ignore})
	code, message := do(t, client, "POST", serve(t)+many, "application/json", strings.Repeat(" ", 101))
	if code != http.StatusRequestEntityTooLarge || message != "Request entity too large: limit is 100" {
		t.Errorf("code %d: %s", code, message)
	}
}

// TestUser asks the server who the client is: once, and for each user that it impersonates.
func TestUser(t *testing.T) {
	t.Parallel()
	const who = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
	review := func(name string) string { return fmt.Sprintf(`{"status":{"userInfo":{"username":%q}}}`, name) }
	server := serve(t,
		step{method: "POST", path: who, answer: review("jane")}, step{method: "POST", path: many}, step{method: "POST", path: many},
		step{method: "POST", path: who, answer: review("joe")}, step{method: "POST", path: many},
		step{method: "POST", path: who, code: 403, answer: `{"message":"not yet"}`}, step{method: "POST", path: who, answer: review("")},
	)
	var seen []string
	config, err := transport.Wrap(&rest.Config{Host: server}, usher.DeciderFunc(func(_ context.Context, r *usher.Request) (usher.Decision, error) {
		seen = append(seen, r.User.Name)
		return usher.Allowed(), nil
	}), transport.Options{Log: slog.New(slog.DiscardHandler), Covers: func(r *usher.Request) bool { return r.Phase == usher.Validate }})
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[string]string{"jim": "not yet", "nobody": "set Options.User"}
	for _, as := range []string{"", "", "joe", "jim", "nobody"} {
		other := rest.CopyConfig(config)
		other.Impersonate.UserName = as
		client, err := rest.HTTPClientFor(other)
		if err != nil {
			t.Fatal(err)
		}
		code, message := do(t, client, "POST", server+many, "application/json", version7)
		if reason := reasons[as]; reason != "" && (code != 500 || !strings.Contains(message, reason)) || reason == "" && code != 200 {
			t.Errorf("%s: code %d: %s", as, code, message)
		}
	}
	if diff := cmp.Diff([]string{"jane", "jane", "joe"}, seen); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestConnections decides what is connected to, and changes it.
func TestConnections(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason, method, url string
		op                  usher.PatchOp
		want                map[string]any
		path, query         string
	}{
		{
			"exec", "POST", "/api/v1/namespaces/shop/pods/a/exec?command=sh&command=-c&stdin=true&tty=false&container=main",
			usher.PatchOp{Op: "replace", Path: "/command", Value: []any{"true"}},
			map[string]any{"apiVersion": "v1", "kind": "PodExecOptions", "command": []any{"sh", "-c"}, "stdin": true, "container": "main"},
			"/api/v1/namespaces/shop/pods/a/exec", "command=true&container=main&stdin=true",
		},
		{
			"port forward", "GET", "/api/v1/namespaces/shop/pods/a/portforward?ports=80&ports=443",
			usher.PatchOp{Op: "remove", Path: "/ports/0"},
			map[string]any{"apiVersion": "v1", "kind": "PodPortForwardOptions", "ports": []any{int64(80), int64(443)}},
			"/api/v1/namespaces/shop/pods/a/portforward", "ports=443",
		},
		{
			"proxy", "DELETE", "/api/v1/namespaces/shop/services/a/proxy/x/y?z=1",
			usher.PatchOp{Op: "replace", Path: "/path", Value: "/w"},
			map[string]any{"apiVersion": "v1", "kind": "ServiceProxyOptions", "path": "/x/y"},
			"/api/v1/namespaces/shop/services/a/proxy/w", "z=1",
		},
	} {
		server := serve(t, step{method: test.method, path: test.path, query: test.query})
		client := wrapped(t, server, func(_ context.Context, r *usher.Request) (usher.Decision, error) {
			if r.Phase != usher.Mutate {
				return usher.Allowed(), nil
			}
			tree, err := r.Object.Tree()
			if diff := cmp.Diff(test.want, tree); diff != "" || r.Operation != usher.Connect || r.Name != "a" || r.Namespace != "shop" {
				t.Errorf("%s: %s %s/%s, -want +got:\n%s", test.reason, r.Operation, r.Namespace, r.Name, diff)
			}
			return usher.Patched(test.op), err
		}, transport.Options{})
		if code, message := do(t, client, test.method, server+test.url, "", ""); code != 200 {
			t.Errorf("%s: code %d: %s", test.reason, code, message)
		}
	}
}

// TestWrapChecksItsOptions: what is wrong is said at once, and not with the first write.
func TestWrapChecksItsOptions(t *testing.T) {
	t.Parallel()
	for reason, wrap := range map[string]func() (*rest.Config, error){
		"no configuration": func() (*rest.Config, error) {
			return transport.Wrap(nil, usher.DeciderFunc(allow), transport.Options{})
		},
		"no decider": func() (*rest.Config, error) { return transport.Wrap(&rest.Config{}, nil, transport.Options{}) },
		"a failure policy that is none": func() (*rest.Config, error) {
			return transport.Wrap(&rest.Config{}, usher.DeciderFunc(allow), transport.Options{FailurePolicy: "ignore"})
		},
	} {
		if _, err := wrap(); err == nil {
			t.Errorf("%s: no error", reason)
		}
	}
}

// TestTypedError gives a typed client the error that it would have had from an API server.
func TestTypedError(t *testing.T) {
	t.Parallel()
	deny := func(context.Context, *usher.Request) (usher.Decision, error) {
		return usher.Decision{
			Verdict: usher.Deny, Code: 422, Reason: "Invalid", Message: "no", Warnings: []string{"beware"},
			Findings: []usher.Finding{{Policy: usher.PolicyRef{Kind: "P", Name: "p"}, Rule: "r", Outcome: usher.Rejected, Message: "no"}},
		}, nil
	}
	for _, contentType := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		said := &bytes.Buffer{}
		config, err := transport.Wrap(&rest.Config{
			Host: serve(t), ContentConfig: rest.ContentConfig{ContentType: contentType}, WarningHandler: rest.NewWarningWriter(said, rest.WarningWriterOptions{}),
		}, usher.DeciderFunc(deny), transport.Options{User: &usher.User{Name: "jane"}})
		if err != nil {
			t.Fatal(err)
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.CoreV1().ConfigMaps("shop").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
		var status *apierrors.StatusError
		if !errors.As(err, &status) {
			t.Fatalf("error %v", err)
		}
		want := metav1.Status{
			Status: "Failure", Code: 422, Reason: "Invalid", Message: `admission webhook "mutate.usher.dev" denied the request: no (P p)`,
			Details: &metav1.StatusDetails{Name: "a", Kind: "ConfigMap", Causes: []metav1.StatusCause{{Type: "PolicyRejected", Message: "no", Field: "P p r"}}},
		}
		got := status.ErrStatus
		got.TypeMeta = metav1.TypeMeta{}
		if diff := cmp.Diff(want, got); diff != "" || !strings.Contains(said.String(), "beware") {
			t.Errorf("%s: warned %q, -want +got:\n%s", contentType, said, diff)
		}
	}
}

func TestACancelledRequestIsNoDenial(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	client := wrapped(t, serve(t), func(ctx context.Context, _ *usher.Request) (usher.Decision, error) {
		cancel()
		<-ctx.Done()
		return usher.Decision{}, ctx.Err()
	}, transport.Options{})
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, serve(t)+many, strings.NewReader(version7))
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err == nil {
		_ = response.Body.Close()
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
}

// TestServerBehindAPath has an API server whose paths begin with something, as those behind
// a proxy do.
func TestServerBehindAPath(t *testing.T) {
	t.Parallel()
	const prefix = "/clusters/c1"
	const who = prefix + "/apis/authentication.k8s.io/v1/selfsubjectreviews"
	server := serve(t,
		step{method: "POST", path: who, answer: `{"status":{"userInfo":{"username":"jane"}}}`},
		step{method: "POST", path: prefix + many, body: `"team":"shop"`, answer: version7})
	config, err := transport.Wrap(&rest.Config{Host: server + prefix}, usher.DeciderFunc(label), transport.Options{})
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	if _, err = client.CoreV1().ConfigMaps("shop").Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
}
