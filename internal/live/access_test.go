package live_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/live"
)

// access is a policy about pods with a condition, for everybody.
func access(name, effect, cel string, more ...string) api.Policy {
	p, err := api.Decode(fmt.Appendf(nil, `{
		"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterAuthorizationPolicy",
		"metadata": {"name": %q, "uid": "u-%[1]s", "generation": 1, "annotations": {%s}},
		"spec": {"effect": %q, "subjects": [{"groups": ["devs"]}], "when": [{"cel": %q}],
			"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]%s}
	}`, name, append(more, "", "")[1], effect, cel, append(more, "")[0]))
	if err != nil {
		panic(err)
	}
	return p
}

func (h *harness) wantAccess(want usher.Verdict, message string) {
	h.t.Helper()
	d, err := h.live.Decide(h.t.Context(), &usher.Request{
		Phase: usher.Authorize, User: usher.User{Name: "jane", Groups: []string{"devs"}},
		Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Name: "web", Namespace: "shop",
		Access: &usher.Access{Verb: "get"},
	})
	if err != nil || d.Verdict != want || !strings.Contains(d.Message, message) {
		h.t.Errorf("access: %q %q, %v, want %q %q", d.Verdict, d.Message, err, want, message)
	}
}

func TestBothKindsOfPoliciesAreOneSnapshot(t *testing.T) {
	t.Parallel()
	a := newScript()
	h := start(t, a)
	a.update(set(label("a", "x", "1"), access("read", "Allow", "true")))
	status := h.next()
	if status.Policies["ClusterAuthorizationPolicy"] != 1 || status.Policies["ClusterOverridePolicy"] != 1 {
		t.Errorf("policies: %v", status.Policies)
	}
	h.wantPatch(`[{"op":"add","path":"/metadata/labels/x","value":"1"}]`)
	h.wantAccess(usher.Allow, "allowed by policy read (cluster)")
	if rules := h.live.Access().Rules(); len(rules) != 1 || status.Rules != 2 {
		t.Errorf("%d access rules, %d rules in all", len(rules), status.Rules)
	}

	a.update(set(label("a", "x", "1"), access("read", "Allow", "request.nothing"), access("no", "Deny", "true")))
	h.next()
	h.wantAccess(usher.Deny, "denied by policy no (cluster)")

	a.update(set(label("a", "x", "1"), access("read", "Allow", "request.nothing"), access("new", "Deny", "request.nothing")))
	if status = h.next(); len(status.OnLastGood) != 1 || len(status.NotEnforced) != 1 {
		t.Errorf("on last good %v, not enforced %v", status.OnLastGood, status.NotEnforced)
	}
	h.wantAccess(usher.Allow, "allowed by policy read (cluster)")

	a.update(set(label("a", "x", "1")))
	h.next()
	h.wantAccess(usher.NoOpinion, "")
}

// To confirm a policy is to write an annotation.
func TestConfirmIsAChange(t *testing.T) {
	t.Parallel()
	a := newScript()
	h := start(t, a)
	const within = `, "confirmWithin": "10m"`
	since := fmt.Sprintf(`"usher.dev/since": %q`, time.Now().Add(-time.Hour).Format(time.RFC3339))
	a.update(set(access("no", "Deny", "true", within, since)))
	h.next()
	h.wantAccess(usher.NoOpinion, "")
	a.update(set(access("no", "Deny", "true", within, since+`, "usher.dev/confirmed": "1"`)))
	h.next()
	h.wantAccess(usher.Deny, "denied by policy no")
}

func TestPolicyWritesAreGuarded(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.next()
	d, err := h.live.Decide(t.Context(), &usher.Request{
		Phase: usher.Validate, Operation: usher.Create,
		Kind: schema.GroupVersionKind{Group: "usher.dev", Version: "v1alpha1", Kind: "ClusterAuthorizationPolicy"},
		Object: usher.RawObject([]byte(`{"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterAuthorizationPolicy", "metadata": {"name": "no"},
			"spec": {"effect": "Deny", "subjects": [{"users": ["*"]}], "rules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]}}`)),
	})
	if err != nil || d.Verdict != usher.Deny || !strings.Contains(d.Message, "without which the cluster cannot be operated") {
		t.Errorf("%s %q, %v", d.Verdict, d.Message, err)
	}
}

// TestUnservedPolicies: where nobody can ask for authorization, who writes an authorization policy is warned, and its
// state says so.
func TestUnservedPolicies(t *testing.T) {
	t.Parallel()
	for _, why := range []string{"", "no flag"} {
		source := newScript()
		h := startWith(t, live.Options{Unserved: why}, source)
		source.update(set(access("no", "Deny", "false", "", ""), label("a", "team", "x")))
		h.next()
		for _, p := range h.live.Policies() {
			want := why
			if p.Admission {
				want = ""
			}
			if p.Unserved != want {
				t.Errorf("%s with %q: unserved %q, want %q", p.Policy, why, p.Unserved, want)
			}
		}
		if got := strings.Contains(fmt.Sprint(h.live.Status().Problems), "it decides nothing here"); got != (why != "") {
			t.Errorf("with %q: problems %v", why, h.live.Status().Problems)
		}
		const policy = `{"apiVersion": "usher.dev/v1alpha1", "kind": "AuthorizationPolicy", "metadata": {"name": "yes", "namespace": "shop"},
			"spec": {"effect": "Allow", "subjects": [{"users": ["bob"]}], "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}}`
		const candidate = `{"apiVersion": "usher.dev/v1alpha1", "kind": "PolicyCandidate", "metadata": {"name": "yes", "namespace": "shop"}, "spec": {"policies": [` + policy + `]}}`
		for kind, text := range map[string]string{"AuthorizationPolicy": policy, "PolicyCandidate": candidate} {
			d, err := h.live.Decide(t.Context(), &usher.Request{
				Phase: usher.Validate, Operation: usher.Create, Namespace: "shop", Name: "yes",
				Kind: schema.GroupVersionKind{Group: "usher.dev", Version: "v1alpha1", Kind: kind}, Object: usher.RawObject([]byte(text)),
			})
			warned := strings.Contains(strings.Join(d.Warnings, "\n"), "it decides nothing here: no flag")
			if err != nil || d.Verdict == usher.Deny || warned != (why != "") {
				t.Errorf("%s with %q: %s %q, warnings %q, %v", kind, why, d.Verdict, d.Message, d.Warnings, err)
			}
		}
	}
}
