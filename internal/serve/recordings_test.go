package serve_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usher-dev/usher/internal/delegated"
	"github.com/usher-dev/usher/internal/delegated/delegatedtest"
	"github.com/usher-dev/usher/internal/serve"
)

// TestRecordings: refused requests are recorded if the server is configured to, for users who may read them.
func TestRecordings(t *testing.T) {
	t.Parallel()
	for _, most := range []int64{0, 1 << 20} {
		users := delegatedtest.NewCluster(t)
		f := newFakeCluster()
		f.config.Clients.Reviews = users.Client
		f.apply(t, overrides, label("one"))
		policies := t.TempDir()
		write(t, filepath.Join(policies, "pods.yaml"), noPods+"---\n"+noPodsBinding)
		h := f.join(t, serve.Config{Policies: []string{policies}, API: &serve.API{Address: "127.0.0.1:0", Audiences: []string{delegatedtest.Audience}, Recordings: most}})
		h.eventually("pods are refused", func() bool { return strings.Contains(h.verdict(f.path(t, "validate")), "no pods") })
		users.Grant("alice", "list", delegated.Recordings, "")
		ask := func(user string) string {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.server.APIURL()+delegated.Recordings, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+users.Token(user, delegatedtest.Audience))
			body, _ := h.answer(h.client.Do(r))
			return body
		}
		want := `does not serve recordings`
		if most > 0 {
			want = `"kind":"Pod"`
		}
		if got := ask("alice"); !strings.Contains(got, want) {
			t.Errorf("with %d bytes: %s", most, got)
		}
		if got := ask("bob"); strings.Contains(got, `"items"`) {
			t.Errorf("another user reads %s", got)
		}
	}
}
