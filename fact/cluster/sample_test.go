package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/cluster"
)

// everything selects all objects.
type everything struct{}

func (everything) Matches(map[string]any) bool { return true }
func (everything) String() string              { return "" }

// sampleOf asks for config maps of a namespace, of which the data are kept.
func sampleOf(most int) fact.Ref {
	paths := &usher.Paths{}
	paths.Add("data")
	return &fact.Object{
		APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Selector: everything{}, All: true, Sample: &fact.Sample{Most: most, Paths: paths},
	}
}

// pages serves config maps in pages, and hangs before a page.
func pages(t *testing.T, number, each, hangs int, padding string) rest.Interface {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/namespaces/shop/configmaps" || r.URL.Query().Get("limit") == "" {
			t.Errorf("asked for %s", r.URL)
		}
		var offset, limit int
		for name, number := range map[string]*int{"continue": &offset, "limit": &limit} {
			if text := r.URL.Query().Get(name); text != "" {
				if _, err := fmt.Sscan(text, number); err != nil {
					t.Error(err)
				}
			}
		}
		if offset == hangs*each {
			<-r.Context().Done()
			return
		}
		list := map[string]any{"kind": "ConfigMapList", "apiVersion": "v1", "metadata": metav1.ListMeta{}}
		end := min(offset+min(each, limit), number*each)
		if left := int64(number*each - end); left > 0 {
			list["metadata"] = metav1.ListMeta{Continue: fmt.Sprint(end), RemainingItemCount: &left}
		}
		var items []any
		for i := offset; i < end; i++ {
			items = append(items, map[string]any{
				"metadata": map[string]any{"name": fmt.Sprintf("m-%d", i), "namespace": "shop", "labels": map[string]any{"left": "out"}},
				"data":     map[string]any{"kept": padding},
			})
		}
		list["items"] = items
		if err := json.NewEncoder(w).Encode(list); err != nil && r.Context().Err() == nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	client, err := rest.UnversionedRESTClientForConfigAndClient(
		&rest.Config{Host: server.URL, QPS: -1, ContentConfig: rest.ContentConfig{NegotiatedSerializer: scheme.Codecs.WithoutConversion()}}, server.Client(),
	)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestSample(t *testing.T) {
	t.Parallel()
	const never = -1
	for _, row := range []struct {
		reason              string
		number, each, hangs int
		padding             string
		most                int
		want                int
		total               int
		err                 string
	}{
		{"one page", 1, 3, never, "x", 10, 3, 3, ""},
		{"all pages", 3, 2, never, "x", 10, 6, 6, ""},
		{"no page more than is needed", 3, 2, 2, "x", 4, 4, 6, ""},
		{"what has been read when the time is up counts", 3, 2, 1, "x", 10, 2, 6, ""},
		{"nothing has been read", 3, 2, 0, "x", 10, 0, 0, "get v1 ConfigMap shop/()"},
		{"a page is too large for memory, fewer objects are not", 1, 26, never, strings.Repeat("x", 640<<10), 40, 26, 26, ""},
		{"25 are too large, 2 are not", 1, 27, never, strings.Repeat("x", 1<<20), 5, 5, 27, ""},
		{"two objects are too large", 1, 3, never, strings.Repeat("x", 9<<20), 10, 0, 0, "too large"},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			client := pages(t, row.number, row.each, row.hangs, row.padding)
			if row.hangs >= 0 && row.hangs < row.number && row.most > row.hangs*row.each {
				client = ending{client, &row.hangs, cancel}
			}
			value, err := cluster.New(newClient(), newMapper(configMap), cluster.Options{REST: client}).Resolve(ctx, sampleOf(row.most))
			if row.err != "" {
				if err == nil || !strings.Contains(err.Error(), row.err) {
					t.Errorf("got the error %v, want %q", err, row.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := value.(*fact.Sampled)
			if len(got.Objects) != row.want || got.Total != row.total {
				t.Errorf("got %d of %d, want %d of %d", len(got.Objects), got.Total, row.want, row.total)
			}
			tree, err := got.Objects[0].Tree()
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "m-0", "namespace": "shop"}, "data": map[string]any{"kept": row.padding},
			}
			if diff := cmp.Diff(want, tree); diff != "" {
				t.Errorf("what is kept, -want +got:\n%s", diff)
			}
		})
	}
}

// An ending client ends a context with the request after some.
type ending struct {
	rest.Interface

	left *int
	end  func()
}

func (e ending) Get() *rest.Request {
	if *e.left--; *e.left < 0 {
		e.end()
	}
	return e.Interface.Get()
}

// TestSampleWithoutBytes uses a client that decodes, and memory.
func TestSampleWithoutBytes(t *testing.T) {
	t.Parallel()
	r := cluster.New(newClient(object("v1", "ConfigMap", "shop", "a", ""), object("v1", "ConfigMap", "bank", "b", "")), newMapper(configMap), cluster.Options{})
	value, err := r.Resolve(t.Context(), sampleOf(5))
	if err != nil {
		t.Fatal(err)
	}
	if got := value.(*fact.Sampled); len(got.Objects) != 1 || got.Total != 1 {
		t.Errorf("got %d of %d objects", len(got.Objects), got.Total)
	}
	if watched := r.Watched(); len(watched) > 0 {
		t.Errorf("a sample has %v watched", watched)
	}
}
