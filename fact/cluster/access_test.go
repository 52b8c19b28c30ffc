package cluster_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact/cluster"
)

// reviewed decides r by an API server that answers with status, and returns what that was asked.
func reviewed(ctx context.Context, r *usher.Request, status authorizationv1.SubjectAccessReviewStatus, err error) (usher.Decision, authorizationv1.SubjectAccessReviewSpec, error) {
	client := kubefake.NewClientset()
	var asked authorizationv1.SubjectAccessReviewSpec
	client.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create, _ := action.(clienttesting.CreateAction)
		review, _ := create.GetObject().(*authorizationv1.SubjectAccessReview)
		asked = review.Spec
		return true, &authorizationv1.SubjectAccessReview{Status: status}, err
	})
	d, err := cluster.Authorizer(client.AuthorizationV1().SubjectAccessReviews()).Decide(ctx, r)
	return d, asked, err
}

func TestAuthorizerAsks(t *testing.T) {
	t.Parallel()
	user := usher.User{Name: "jane", UID: "7", Groups: []string{"devs"}, Extra: map[string][]string{"team": {"shop"}}}
	spec := func(change func(*authorizationv1.SubjectAccessReviewSpec)) authorizationv1.SubjectAccessReviewSpec {
		s := authorizationv1.SubjectAccessReviewSpec{
			User: "jane", UID: "7", Groups: []string{"devs"}, Extra: map[string]authorizationv1.ExtraValue{"team": {"shop"}},
		}
		change(&s)
		return s
	}
	for _, test := range []struct {
		reason string
		r      usher.Request
		want   authorizationv1.SubjectAccessReviewSpec
	}{
		{
			"a path", usher.Request{Access: &usher.Access{Verb: "get", Path: "/metrics", NonResource: true}},
			spec(func(s *authorizationv1.SubjectAccessReviewSpec) {
				s.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"}
			}),
		},
		{
			"a resource, with selectors",
			usher.Request{
				Resource: schema.GroupVersionResource{Group: "apps", Version: "*", Resource: "deployments"}, Subresource: "scale",
				Namespace: "shop", Name: "web", Access: &usher.Access{
					Verb:   "update",
					Labels: []usher.Requirement{{Key: "a", Operator: "NotIn", Values: []string{"b", "c"}}},
					Fields: []usher.Requirement{{Key: "metadata.name", Operator: "In", Values: []string{"web"}}},
				},
			},
			spec(func(s *authorizationv1.SubjectAccessReviewSpec) {
				s.ResourceAttributes = &authorizationv1.ResourceAttributes{
					Verb: "update", Group: "apps", Version: "*", Resource: "deployments", Subresource: "scale", Namespace: "shop", Name: "web",
					LabelSelector: &authorizationv1.LabelSelectorAttributes{Requirements: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "NotIn", Values: []string{"b", "c"}}}},
					FieldSelector: &authorizationv1.FieldSelectorAttributes{Requirements: []metav1.FieldSelectorRequirement{{Key: "metadata.name", Operator: "In", Values: []string{"web"}}}},
				}
			}),
		},
	} {
		test.r.User = user
		_, asked, err := reviewed(t.Context(), &test.r, authorizationv1.SubjectAccessReviewStatus{}, nil)
		if err != nil {
			t.Errorf("%s: %v", test.reason, err)
		}
		if diff := cmp.Diff(test.want, asked); diff != "" {
			t.Errorf("%s: -want +got:\n%s", test.reason, diff)
		}
	}
}

func TestAuthorizerAnswers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason string
		status authorizationv1.SubjectAccessReviewStatus
		fails  error
		want   usher.Verdict
		err    string
	}{
		{"allowed", authorizationv1.SubjectAccessReviewStatus{Allowed: true, Reason: "a role"}, nil, usher.Allow, ""},
		{"denied", authorizationv1.SubjectAccessReviewStatus{Denied: true, Reason: "a role"}, nil, usher.Deny, ""},
		{"neither", authorizationv1.SubjectAccessReviewStatus{Reason: "a role"}, nil, usher.NoOpinion, ""},
		{"both: the careful answer", authorizationv1.SubjectAccessReviewStatus{Allowed: true, Denied: true, Reason: "a role"}, nil, usher.Deny, ""},
		{
			"an authorizer failed, another allows",
			authorizationv1.SubjectAccessReviewStatus{Allowed: true, Reason: "a role", EvaluationError: "role not found"}, nil, usher.Allow, "role not found",
		},
		{"an authorizer failed", authorizationv1.SubjectAccessReviewStatus{Reason: "a role", EvaluationError: "role not found"}, nil, usher.NoOpinion, "role not found"},
		{"the server does not answer", authorizationv1.SubjectAccessReviewStatus{Allowed: true}, errors.New("connection refused"), usher.NoOpinion, "review access of jane: connection refused"},
	} {
		r := &usher.Request{User: usher.User{Name: "jane"}, Access: &usher.Access{Verb: "get", NonResource: true}}
		d, _, err := reviewed(t.Context(), r, test.status, test.fails)
		if d.Verdict != test.want || test.fails == nil && d.Message != "a role" {
			t.Errorf("%s: %+v, want %q", test.reason, d, test.want)
		}
		if (err != nil) != (test.err != "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: error %v, want %q", test.reason, err, test.err)
		}
	}
}
