package doortest_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/apiserver"
	"github.com/usher-dev/usher/door/authorization"
	"github.com/usher-dev/usher/fact/cluster"
	"github.com/usher-dev/usher/internal/door/doortest"
	"github.com/usher-dev/usher/internal/policytest"
)

func accessTests(t *testing.T) []policytest.Test {
	t.Helper()
	tests, err := policytest.Tests("../../policytest/testdata/authz")
	if err != nil {
		t.Fatal(err)
	}
	return tests
}

func TestAccessThroughWebhook(t *testing.T) {
	t.Parallel()
	n := doortest.Access(t, accessTests(t), doortest.AccessOptions{}, func(t *testing.T, _ policytest.AccessSetup, d usher.Decider) doortest.AccessDoor {
		server := httptest.NewUnstartedServer(authorization.Authorize(d, authorization.Options{Log: slog.New(slog.DiscardHandler)}))
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.StartTLS()
		t.Cleanup(server.Close)
		return &accessWebhook{server}
	})
	sent(t, n, 60)
}

// An accessWebhook asks in SubjectAccessReviews over HTTPS.
type accessWebhook struct{ server *httptest.Server }

func (w *accessWebhook) Ask(t *testing.T, r *usher.Request) doortest.AccessAnswer {
	t.Helper()
	body, err := json.Marshal(cluster.SubjectAccessReview(r))
	if err != nil {
		t.Fatal(err)
	}
	response, err := w.server.Client().Post(w.server.URL, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var review authorizationv1.SubjectAccessReview
	if err := json.NewDecoder(response.Body).Decode(&review); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v", response.StatusCode, err)
	}
	answer := doortest.AccessAnswer{Reason: review.Status.Reason}
	switch {
	case review.Status.Allowed:
		answer.Verdict = usher.Allow
	case review.Status.Denied:
		answer.Verdict = usher.Deny
	}
	return answer
}

func TestAccessThroughAuthorizer(t *testing.T) {
	t.Parallel()
	options := doortest.AccessOptions{Unsent: func(r *usher.Request) string {
		for _, q := range append(append([]usher.Requirement{}, r.Access.Labels...), r.Access.Fields...) {
			if _, ok := operators[q.Operator]; !ok {
				return "a server parses selectors, and knows no operator " + q.Operator
			}
		}
		if len(r.Access.Fields) > 0 && !comparesOne(r.Access.Fields) {
			return "a field selector of a server compares with one value"
		}
		if !parses(r.Access.Labels) {
			return "a server refuses such a label selector"
		}
		return ""
	}}
	n := doortest.Access(t, accessTests(t), options, func(_ *testing.T, _ policytest.AccessSetup, d usher.Decider) doortest.AccessDoor {
		return accessAuthorizer{apiserver.NewAuthorizer(d, apiserver.AuthorizerOptions{Log: slog.New(slog.DiscardHandler)})}
	})
	sent(t, n, 60)
}

// An accessAuthorizer is a server that has the authorizer in it.
type accessAuthorizer struct{ authorizer *apiserver.Authorizer }

func (a accessAuthorizer) Ask(t *testing.T, r *usher.Request) doortest.AccessAnswer {
	t.Helper()
	record := authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: r.User.Name, UID: r.User.UID, Groups: r.User.Groups, Extra: r.User.Extra}, Verb: r.Access.Verb,
		Namespace: r.Namespace, APIGroup: r.Resource.Group, APIVersion: r.Resource.Version, Resource: r.Resource.Resource, Subresource: r.Subresource,
		Name: r.Name, ResourceRequest: !r.Access.NonResource, Path: r.Access.Path,
		LabelSelectorRequirements: labelRequirements(t, r.Access.Labels),
	}
	for _, q := range r.Access.Fields {
		record.FieldSelectorRequirements = append(record.FieldSelectorRequirements, fields.Requirement{
			Field: q.Key, Operator: map[string]selection.Operator{"In": selection.Equals, "NotIn": selection.NotEquals}[q.Operator], Value: q.Values[0],
		})
	}
	decision, reason, _ := a.authorizer.Authorize(t.Context(), record)
	answer := doortest.AccessAnswer{Reason: reason}
	switch decision {
	case authorizer.DecisionAllow:
		answer.Verdict = usher.Allow
	case authorizer.DecisionDeny:
		answer.Verdict = usher.Deny
	case authorizer.DecisionNoOpinion:
	}
	return answer
}

var operators = map[string]selection.Operator{
	"In": selection.In, "NotIn": selection.NotIn, "Exists": selection.Exists, "DoesNotExist": selection.DoesNotExist,
}

func labelRequirements(t *testing.T, all []usher.Requirement) labels.Requirements {
	t.Helper()
	var parsed labels.Requirements
	for _, q := range all {
		requirement, err := labels.NewRequirement(q.Key, operators[q.Operator], q.Values)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, *requirement)
	}
	return parsed
}

func parses(all []usher.Requirement) bool {
	for _, q := range all {
		if _, err := labels.NewRequirement(q.Key, operators[q.Operator], q.Values); err != nil {
			return false
		}
	}
	return true
}

func comparesOne(all []usher.Requirement) bool {
	for _, q := range all {
		if len(q.Values) != 1 || q.Operator != "In" && q.Operator != "NotIn" {
			return false
		}
	}
	return true
}
