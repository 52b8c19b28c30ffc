package doortest_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/transport"
	"github.com/usher-dev/usher/internal/door/doortest"
)

func TestCorpusThroughTransport(t *testing.T) {
	t.Parallel()
	options := doortest.CaseOptions{
		// A client sends no kind with a subresource, and gets its name from the path.
		Rewritten: true,
		DeniedBy:  func(phase usher.Phase) string { return `admission webhook "` + string(phase) + `.usher.dev"` },
		Unsent: func(r *usher.Request) string {
			if r.Operation == usher.Connect && r.Subresource == "" {
				return "nobody connects to anything but a subresource"
			}
			return ""
		},
	}
	n := doortest.Cases(t, loadCorpus(t), options, func(_ *testing.T, d usher.Decider) doortest.Door { return clientDoor{d} })
	sent(t, n, 1000)
}

// A clientDoor is a client, and a server that has the old object of each request.
type clientDoor struct{ decider usher.Decider }

func (d clientDoor) Send(t *testing.T, r *usher.Request) doortest.Answer {
	t.Helper()
	server := newKeeper(t, r)
	user := r.User
	config, err := transport.Wrap(&rest.Config{Host: server.URL}, d.decider, transport.Options{
		Covers: func(q *usher.Request) bool { return q.Phase == r.Phase },
		User:   &user,
		Log:    slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(server.request(t, r))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer := doortest.Answer{Verdict: usher.Allow}
	warnings, _ := utilnet.ParseWarningHeaders(response.Header["Warning"])
	for _, w := range warnings {
		answer.Warnings = append(answer.Warnings, w.Text)
	}
	if response.StatusCode >= http.StatusBadRequest {
		var status metav1.Status
		if err := json.NewDecoder(response.Body).Decode(&status); err != nil {
			t.Fatal(err)
		}
		deny(&answer, &status)
		return answer
	}
	if r.Operation != usher.Delete {
		answer.Object = treeOf(t, usher.RawObject(server.written(r)))
		fillNamespace(answer.Object, r)
	}
	return answer
}

// fillNamespace does what a server does with an object that is sent to a namespace.
func fillNamespace(object map[string]any, r *usher.Request) {
	metadata, ok := object["metadata"].(map[string]any)
	if ok && metadata["namespace"] == nil && r.Namespace != "" && r.Resource.Resource != "namespaces" {
		metadata["namespace"] = r.Namespace
	}
}

// A keeper is a server that has one object, and keeps what is written.
type keeper struct {
	*httptest.Server

	mu    sync.Mutex
	body  []byte
	query url.Values
}

func newKeeper(t *testing.T, r *usher.Request) *keeper {
	t.Helper()
	old, err := r.OldObject.Raw()
	if err != nil {
		t.Fatal(err)
	}
	k := &keeper{}
	k.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if request.Method == http.MethodGet && r.Operation != usher.Connect {
			_, _ = w.Write(old)
			return
		}
		body, _ := io.ReadAll(request.Body)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.body, k.query = body, request.URL.Query()
		_, _ = w.Write([]byte("{}"))
	}))
	t.Cleanup(k.Close)
	return k
}

// written is the object that came.
func (k *keeper) written(r *usher.Request) []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.Operation != usher.Connect {
		return k.body
	}
	options := map[string]any{"apiVersion": "v1", "kind": r.Kind.Kind}
	for name, values := range k.query {
		switch {
		case name == "command":
			options[name] = values
		case values[0] == "true":
			options[name] = true
		default:
			options[name] = values[0]
		}
	}
	encoded, _ := json.Marshal(options)
	return encoded
}

// request is what a client sends for r.
func (k *keeper) request(t *testing.T, r *usher.Request) *http.Request {
	t.Helper()
	method := map[usher.Operation]string{
		usher.Create: http.MethodPost, usher.Update: http.MethodPut, usher.Delete: http.MethodDelete, usher.Connect: http.MethodGet,
	}[r.Operation]
	path := k.URL + "/apis/" + r.Resource.Group + "/" + r.Resource.Version
	if r.Resource.Group == "" {
		path = k.URL + "/api/" + r.Resource.Version
	}
	if r.Namespace != "" && r.Resource.Resource != "namespaces" {
		path += "/namespaces/" + r.Namespace
	}
	path += "/" + r.Resource.Resource
	if r.Operation != usher.Create || r.Subresource != "" {
		path += "/" + cmp.Or(r.Name, "some")
	}
	if r.Subresource != "" {
		path += "/" + r.Subresource
	}
	query := url.Values{}
	if r.DryRun {
		query.Set("dryRun", "All")
	}
	var body io.Reader
	raw, err := r.Object.Raw()
	if err != nil {
		t.Fatal(err)
	}
	switch r.Operation {
	case usher.Connect:
		for name, value := range treeOf(t, r.Object) {
			if name != "apiVersion" && name != "kind" && name != "metadata" {
				addQuery(query, name, value)
			}
		}
	case usher.Create, usher.Update:
		body = bytes.NewReader(raw)
	case usher.Delete:
		options, err := r.Options.Raw()
		if err != nil {
			t.Fatal(err)
		}
		body = bytes.NewReader(options)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, strings.TrimSuffix(path+"?"+query.Encode(), "?"), body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	return request
}

func addQuery(query url.Values, name string, value any) {
	if list, ok := value.([]any); ok {
		for _, item := range list {
			query.Add(name, fmt.Sprint(item))
		}
		return
	}
	query.Set(name, fmt.Sprint(value))
}
