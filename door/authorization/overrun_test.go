package authorization_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/authorization"
	engine "github.com/usher-dev/usher/internal/engine/authz"
	index "github.com/usher-dev/usher/internal/index/authz"
	"github.com/usher-dev/usher/internal/rule/authz"
)

type stuck struct{ end chan struct{} }

func (s stuck) Holds(context.Context, *authz.Query) (bool, error) { <-s.end; return true, nil }

// TestConditionsThatNeverEnd are answered for at the deadline, as the effect of their policies says.
func TestConditionsThatNeverEnd(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		effect authz.Effect
		want   string
	}{
		{authz.Deny, `"denied":true`},
		{authz.Allow, `"allowed":false`},
	} {
		end := make(chan struct{})
		t.Cleanup(func() { close(end) })
		every := authz.Set{Any: true}
		p := &authz.Policy{
			Ref: usher.PolicyRef{Kind: "ClusterAuthorizationPolicy", Name: "slow"}, Tier: authz.Cluster, Effect: row.effect, SkipErrors: row.effect == authz.Allow,
			Subjects: []authz.Subject{{Users: []authz.Pattern{{Star: true}}}},
			When:     []authz.Condition{{Name: "x", Source: "x", Predicate: stuck{end}}},
		}
		r := &authz.Rule{
			Policy: p, Name: "spec.rules[0]", Verbs: every, Groups: every, Versions: every, Names: every, Namespaces: every,
			Resources: []authz.Resource{{Every: true}},
		}
		e := engine.New(index.New([]*authz.Rule{r}), engine.Options{})
		soon := usher.DeciderFunc(func(ctx context.Context, r *usher.Request) (usher.Decision, error) {
			ctx, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
			defer cancel()
			return e.Decide(ctx, r)
		})
		body := `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"user":"jane","resourceAttributes":{"verb":"get","version":"v1","resource":"pods"}}}`
		request := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		request.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		authorization.Authorize(soon, authorization.Options{}).ServeHTTP(w, request)
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), row.want) {
			t.Errorf("%s: %d %s", row.effect, w.Code, w.Body)
		}
	}
}
