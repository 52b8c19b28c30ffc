package decisionlog_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
)

func access(a usher.Access) *usher.Request {
	r := &usher.Request{
		UID: "u1", Phase: usher.Authorize, Access: &a,
		User: usher.User{Name: "jane", Groups: []string{"devs"}, Extra: map[string][]string{"b": {canary}, "a": {canary}}},
	}
	if !a.NonResource {
		r.Resource = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
		r.Subresource, r.Namespace, r.Name = "scale", "shop", "web"
	}
	return r
}

func TestAccess(t *testing.T) {
	t.Parallel()
	hide := usher.PolicyRef{Kind: "ClusterAuthorizationPolicy", Name: "hide"}
	trial := usher.PolicyRef{Kind: "ClusterAuthorizationPolicy", Name: "trial"}
	for _, row := range []struct {
		reason   string
		request  *usher.Request
		decision usher.Decision
		want     map[string]any
	}{
		{
			"a denial",
			access(usher.Access{
				Verb: "list", Labels: []usher.Requirement{{Key: "app", Operator: "In", Values: []string{"x", "y"}}, {Key: "team", Operator: "Exists"}},
				Fields: []usher.Requirement{{Key: "metadata.name", Operator: "In", Values: []string{"web"}}},
			}),
			usher.Decision{Verdict: usher.Deny, Findings: []usher.Finding{{Policy: hide, Outcome: usher.Rejected}, {Policy: trial, Outcome: usher.WouldDeny}}},
			map[string]any{
				"level": "INFO", "msg": "decision", "uid": "u1", "phase": "authorize", "user": "jane", "groups": []any{"devs"}, "extra": []any{"a", "b"},
				"verb": "list", "resource": "deployments.apps/scale", "namespace": "shop", "name": "web",
				"labels": "app In (x y), team Exists", "fields": "metadata.name In (web)",
				"verdict": "deny", "policies": []any{"ClusterAuthorizationPolicy hide"},
				"refused":   []any{map[string]any{"policy": "ClusterAuthorizationPolicy hide"}},
				"wouldDeny": []any{"ClusterAuthorizationPolicy trial"},
			},
		},
		{
			"what would have been one",
			access(usher.Access{Verb: "get", NonResource: true, Path: "/metrics"}),
			usher.Decision{Findings: []usher.Finding{{Policy: trial, Outcome: usher.WouldDeny}}},
			map[string]any{
				"level": "INFO", "msg": "decision", "uid": "u1", "phase": "authorize", "user": "jane", "groups": []any{"devs"}, "extra": []any{"a", "b"},
				"verb": "get", "path": "/metrics", "verdict": "no opinion", "wouldDeny": []any{"ClusterAuthorizationPolicy trial"},
			},
		},
		{
			"anything else",
			access(usher.Access{Verb: "get", NonResource: true, Path: "/metrics"}), usher.Allowed(),
			map[string]any{
				"level": "DEBUG", "msg": "decision", "uid": "u1", "phase": "authorize", "user": "jane", "groups": []any{"devs"}, "extra": []any{"a", "b"},
				"verb": "get", "path": "/metrics", "verdict": "allow",
			},
		},
	} {
		if diff := cmp.Diff([]map[string]any{row.want}, logged(t, row.request, row.decision, nil)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.reason, diff)
		}
	}
}
