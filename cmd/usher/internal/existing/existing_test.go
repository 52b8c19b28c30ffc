package existing_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/usher-dev/usher/cmd/usher/internal/existing"
)

// TestPagesOfAList reads lists in pages from a server, some of which expire.
func TestPagesOfAList(t *testing.T) {
	t.Parallel()
	page := func(next, name string) string {
		return `{"apiVersion": "v1", "kind": "ConfigMapList", "metadata": {"continue": "` + next + `"}, "items": [{"metadata": {"name": "` + name + `"}}]}`
	}
	gone := func(next string) string {
		return `{"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old", "metadata": {"continue": "` + next + `"}}`
	}
	for _, row := range []struct {
		reason string
		// answers are those to requests, by their tokens.
		answers map[string]string
		want    []string
		expired bool
	}{
		{"one page", map[string]string{"": page("", "a")}, []string{"a"}, false},
		{"more pages", map[string]string{"": page("1", "a"), "1": page("2", "b"), "2": page("", "c")}, []string{"a", "b", "c"}, false},
		{"a list that expires is read on", map[string]string{"": page("1", "a"), "1": gone("now"), "now": page("2", "b"), "2": page("", "c")}, []string{"a", "b", "c"}, false},
		{"as often as pages are read in between", map[string]string{"": page("1", "a"), "1": gone("2"), "2": page("3", "b"), "3": gone("4"), "4": page("", "c")}, []string{"a", "b", "c"}, false},
		{"nothing to read on with", map[string]string{"": page("1", "a"), "1": gone("")}, []string{"a"}, true},
		{"a server that never goes on", map[string]string{"": page("1", "a"), "1": gone("2"), "2": gone("1")}, []string{"a"}, true},
		{"expired at once", map[string]string{"": gone("1"), "1": gone("1")}, nil, true},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Query().Get("limit") != "500" {
					http.Error(w, "no limit", http.StatusBadRequest)
					return
				}
				answer := row.answers[r.URL.Query().Get("continue")]
				w.Header().Set("Content-Type", "application/json")
				if strings.Contains(answer, `"Failure"`) {
					w.WriteHeader(http.StatusGone)
				}
				_, _ = w.Write([]byte(answer))
			}))
			t.Cleanup(server.Close)
			client, err := dynamic.NewForConfig(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			err = existing.Pages(t.Context(), client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}), func(page *unstructured.UnstructuredList) error {
				for i := range page.Items {
					got = append(got, page.Items[i].GetName())
				}
				return nil
			})
			if apierrors.IsResourceExpired(err) != row.expired || err != nil && !row.expired {
				t.Errorf("error %v, want one of a list that has expired: %t", err, row.expired)
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
		})
	}
}
