package apiserver_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/apiserver"
)

// TestAskThereAndBack: a request that is asked of an authorizer whose decider sees it again is
// the same one.
func TestAskThereAndBack(t *testing.T) {
	t.Parallel()
	who := usher.User{Name: "jane", UID: "7", Groups: []string{"devs"}, Extra: map[string][]string{"team": {"shop"}}}
	for _, test := range []struct {
		reason string
		asked  usher.Request
	}{
		{"a path", usher.Request{Access: &usher.Access{Verb: "get", Path: "/metrics", NonResource: true}}},
		{"an empty path", usher.Request{Access: &usher.Access{Verb: "get", NonResource: true}}},
		{"a subresource", usher.Request{
			Resource: schema.GroupVersionResource{Group: "apps", Version: "*", Resource: "deployments"}, Subresource: "scale",
			Namespace: "shop", Name: "web", Access: &usher.Access{Verb: "update"},
		}},
		{"selectors", usher.Request{
			Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"},
			Access: &usher.Access{
				Verb: "list",
				Labels: []usher.Requirement{
					{Key: "e", Operator: "In", Values: []string{"f", "g"}}, {Key: "c", Operator: "NotIn", Values: []string{"d"}},
					{Key: "h", Operator: "Exists"}, {Key: "i", Operator: "DoesNotExist"},
				},
				Fields: []usher.Requirement{
					{Key: "metadata.name", Operator: "In", Values: []string{"web"}}, {Key: "spec.nodeName", Operator: "NotIn", Values: []string{"n"}},
				},
			},
		}},
	} {
		test.asked.Phase, test.asked.User = usher.Authorize, who
		var seen *usher.Request
		z := apiserver.NewAuthorizer(usher.DeciderFunc(func(_ context.Context, r *usher.Request) (usher.Decision, error) {
			seen = r
			return usher.Decision{Verdict: usher.Deny, Message: "not you"}, nil
		}), silently(apiserver.AuthorizerOptions{}))
		d, err := apiserver.Ask(z).Decide(t.Context(), &test.asked)
		if err != nil || d.Verdict != usher.Deny || d.Message != "not you" {
			t.Errorf("%s: %+v, %v", test.reason, d, err)
		}
		test.asked.UID = seen.UID
		if diff := cmp.Diff(&test.asked, seen, cmp.Comparer(func(a, b *usher.Object) bool { return a == b }), sortedRequirements()); diff != "" {
			t.Errorf("%s: -want +got:\n%s", test.reason, diff)
		}
	}
}

func TestAskAnswers(t *testing.T) {
	t.Parallel()
	broken := errors.New("boom")
	for _, test := range []struct {
		reason   string
		decision authorizer.Decision
		err      error
		want     usher.Verdict
	}{
		{"allowed", authorizer.DecisionAllow, nil, usher.Allow},
		{"denied", authorizer.DecisionDeny, nil, usher.Deny},
		{"no opinion", authorizer.DecisionNoOpinion, nil, usher.NoOpinion},
		{"an error without an opinion", authorizer.DecisionNoOpinion, broken, usher.NoOpinion},
		{"an error does not undo the decision", authorizer.DecisionAllow, broken, usher.Allow},
		{"a decision that does not exist is none", authorizer.Decision(9), nil, usher.NoOpinion},
	} {
		z := authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
			return test.decision, "because", test.err
		})
		d, err := apiserver.Ask(z).Decide(t.Context(), &usher.Request{Phase: usher.Authorize, Access: &usher.Access{Verb: "get"}})
		if d.Verdict != test.want || d.Message != "because" || !errors.Is(err, test.err) {
			t.Errorf("%s: %+v, %v", test.reason, d, err)
		}
	}
}

// TestAskAboutAWrongSelector: a clause that cannot be expressed is left out, and the authorizer
// is told so.
func TestAskAboutAWrongSelector(t *testing.T) {
	t.Parallel()
	z := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		clauses, err := a.GetLabelSelector()
		if len(clauses) != 1 || err == nil {
			t.Errorf("%v, %v: want the clause that is one, and an error", clauses, err)
		}
		return authorizer.DecisionNoOpinion, "", nil
	})
	_, err := apiserver.Ask(z).Decide(t.Context(), &usher.Request{Phase: usher.Authorize, Access: &usher.Access{
		Verb: "list", Labels: []usher.Requirement{{Key: "a", Operator: "Exists"}, {Key: "b", Operator: "Like", Values: []string{"c"}}},
	}})
	if err != nil {
		t.Error(err)
	}
}
