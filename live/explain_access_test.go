package live_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/live"
)

// Policies about who may read: one that denies, and one that nearly allows.
const access = `apiVersion: usher.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: hide-db}
spec:
  effect: Deny
  subjects: [{groups: [system:authenticated]}]
  rules: [{verbs: ["*"], apiGroups: [""], resources: [secrets], names: [db-root]}]
  unless: [{name: is-admin, cel: "'admins' in request.groups"}]
  message: ask the database team
---
apiVersion: usher.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: own-config}
spec:
  effect: Allow
  subjects: [{groups: [system:authenticated]}]
  rules: [{verbs: [list], apiGroups: [""], resources: [configmaps]}]
  selectors: {labels: [{key: owner, operator: In, values: [$(user)]}]}
`

// The same of a request to authorize, as usher authz can-i --explain prints it.
func ExampleLive_ExplainText_authorization() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	folder, err := os.MkdirTemp("", "policies")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(folder) }()
	decider, err := enforce(ctx, folder, access)
	if err != nil {
		fmt.Println(err)
		return
	}
	request := &usher.Request{
		Phase: usher.Authorize, Namespace: "shop", Access: &usher.Access{Verb: "list"},
		Resource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"},
		User:     usher.User{Name: "jane", Groups: []string{"devs", "system:authenticated"}},
	}
	decision, err := decider.Decide(ctx, request)
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := decider.ExplainText(ctx, request, decision)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(text)
	// Output:
	// authorize: deny: denied by policy hide-db (cluster): ask the database team
	//     Deny ClusterAuthorizationPolicy/hide-db (tier cluster) spec.rules[0]: decides, names [db-root] are part of an unnamed list
	//       is-admin: false
	//     nearly: Allow ClusterAuthorizationPolicy/own-config (tier cluster) spec.rules[0]: resource "secrets" is not configmaps
	//     would pass with: --field-selector metadata.name=<another name>
}

func TestExplainAccess(t *testing.T) {
	t.Parallel()
	decider, err := enforce(t.Context(), t.TempDir(), access)
	if err != nil {
		t.Fatal(err)
	}
	request := &usher.Request{
		Phase: usher.Authorize, Namespace: "shop", Access: &usher.Access{Verb: "list"},
		Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
		User:     usher.User{Name: "jane", Groups: []string{"system:authenticated"}},
	}
	decision, err := decider.Decide(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := decider.Explain(t.Context(), request, decision)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(encoded, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"phase": "authorize", "verdict": "no opinion", "passes": []any{"-l 'owner=jane'"},
		"rules": []any{map[string]any{
			"policy": "ClusterAuthorizationPolicy/own-config", "tier": "cluster", "effect": "Allow", "rule": "spec.rules[0]",
			"outcome": "unselected", "why": "selectors: owner=$(user)",
		}},
		"nearMatches": []any{map[string]any{
			"policy": "ClusterAuthorizationPolicy/hide-db", "tier": "cluster", "effect": "Deny", "rule": "spec.rules[0]",
			"why": `resource "configmaps" is not secrets`,
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	request = &usher.Request{
		Phase: usher.Authorize, Namespace: "shop", User: request.User, Resource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"},
		Access: &usher.Access{Verb: "list", Fields: []usher.Requirement{{Key: "metadata.name", Operator: "In", Values: []string{"web"}}}},
	}
	if decision, err = decider.Decide(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	text, err := decider.ExplainText(t.Context(), request, decision)
	if hint := `would pass with: the name "web" in the request, too`; err != nil || !strings.Contains(text, hint) || strings.Contains(text, "--field-selector") {
		t.Errorf("a field selector without the name: error %v, want %q in:\n%s", err, hint, text)
	}
	request.Name = "web"
	if decision, err = decider.Decide(t.Context(), request); err != nil || decision.Verdict != usher.NoOpinion {
		t.Errorf("with the name: %s, error %v", decision.Verdict, err)
	}
	for _, row := range []struct {
		reason   string
		decider  *live.Live
		request  *usher.Request
		decision usher.Decision
		err      string
	}{
		{"of another request", decider, request, usher.Denied("no"), "the policies in force now say no opinion, the decision deny"},
		{"no action", decider, &usher.Request{Phase: usher.Authorize}, usher.Decision{}, "access is missing"},
		{"not loaded", live.New(live.Options{}), request, decision, live.ErrNotLoaded.Error()},
	} {
		if _, err := row.decider.Explain(t.Context(), row.request, row.decision); err == nil || !strings.Contains(err.Error(), row.err) {
			t.Errorf("%s: error %v, want %q", row.reason, err, row.err)
		}
	}
}
