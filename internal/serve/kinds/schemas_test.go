package kinds_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/serve/kinds"
)

var widget = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}

// widgets serve a kind whose schema changes, without a network: time is that of the test.
type widgets struct {
	field           atomic.Pointer[string]
	lists, readings atomic.Int32
	// late is the field that the document still has after the list has changed; nil if it is up to date.
	late atomic.Pointer[string]
	down atomic.Bool
}

func (w *widgets) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	const at = "/openapi/v3/apis/example.com/v1"
	field := *w.field.Load()
	var body any
	switch {
	case w.down.Load():
		http.Error(out, "no answer", http.StatusServiceUnavailable)
		return
	case r.URL.Path == "/api":
		body = metav1.APIVersions{}
	case r.URL.Path == "/apis":
		v := metav1.GroupVersionForDiscovery{GroupVersion: "example.com/v1", Version: "v1"}
		body = metav1.APIGroupList{Groups: []metav1.APIGroup{{Name: "example.com", Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v}}}
	case r.URL.Path == "/apis/example.com/v1":
		body = metav1.APIResourceList{GroupVersion: "example.com/v1", APIResources: []metav1.APIResource{{Name: "widgets", Kind: "Widget", Namespaced: true, Verbs: metav1.Verbs{"create"}}}}
	case r.URL.Path == "/openapi/v3":
		w.lists.Add(1)
		body = map[string]any{"paths": map[string]any{"apis/example.com/v1": map[string]any{"serverRelativeURL": at + "?hash=" + field}}}
	case r.URL.Path == at:
		w.readings.Add(1)
		if late := w.late.Load(); late != nil {
			field = *late
		}
		properties := map[string]any{field: map[string]any{"type": "string"}}
		body = map[string]any{"components": map[string]any{"schemas": map[string]any{"com.example.v1.Widget": map[string]any{
			"type": "object", "properties": map[string]any{"spec": map[string]any{"type": "object", "properties": properties}},
			"x-kubernetes-group-version-kind": []any{map[string]any{"group": "example.com", "version": "v1", "kind": "Widget"}},
		}}}}
	default:
		http.NotFound(out, r)
		return
	}
	out.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(out).Encode(body)
}

// RoundTrip implements [http.RoundTripper].
func (w *widgets) RoundTrip(r *http.Request) (*http.Response, error) {
	recorded := httptest.NewRecorder()
	w.ServeHTTP(recorded, r)
	return recorded.Result(), nil
}

// TestSchemasThatChange: the schema of a kind is read again when its CRD changes, also if its version and the
// kinds stay the same, and is not read while it stays as it is.
func TestSchemasThatChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		served := &widgets{}
		owner, owners, third := "owner", "owners", "third"
		served.field.Store(&owner)
		client, err := discovery.NewDiscoveryClientForConfigAndClient(&rest.Config{Host: "http://cluster.example"}, &http.Client{Transport: served})
		if err != nil {
			t.Fatal(err)
		}
		d := kinds.Discover(client, slog.New(slog.DiscardHandler))
		d.Read()
		schemas := kinds.NewSchemas(d, slog.New(slog.DiscardHandler))
		recorded := kind.New(nil, map[string]json.RawMessage{}, false)
		has := func(want string) {
			t.Helper()
			set := schemas.Find(t.Context(), recorded, []schema.GroupVersionKind{widget})
			of := set.Resolve(set.Schema(widget))
			var fields []string
			if of != nil {
				for name := range of.Properties["spec"].Properties {
					fields = append(fields, name)
				}
			}
			if got := strings.Join(fields, ","); got != want {
				t.Errorf("fields %q, want %q", got, want)
			}
		}
		has("owner")
		time.Sleep(time.Minute)
		has("owner")
		before := fmt.Sprint(served.lists.Load(), served.readings.Load())
		for range 100 {
			has("owner")
		}
		if now := fmt.Sprint(served.lists.Load(), served.readings.Load()); now != before {
			t.Errorf("lists and documents read: %s, want %s: policies may be written often", now, before)
		}
		read := served.readings.Load()
		time.Sleep(kinds.Relist)
		has("owner")
		if served.readings.Load() != read {
			t.Error("a document that has not changed is read again")
		}
		served.field.Store(&owners)
		time.Sleep(kinds.Relist)
		has("owners")
		// The list has changed before the document has.
		served.late.Store(&owners)
		served.field.Store(&third)
		time.Sleep(kinds.Relist)
		has("owners")
		served.late.Store(nil)
		time.Sleep(kinds.Relist)
		has("third")
		served.down.Store(true)
		time.Sleep(kinds.Relist)
		has("third")
	})
}
