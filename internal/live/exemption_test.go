package live_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/live"
)

func decodePolicy(t *testing.T, format string, args ...any) api.Policy {
	t.Helper()
	p, err := api.Decode(fmt.Appendf(nil, format, args...))
	if err != nil {
		t.Fatal(err)
	}
	p.Object.SetUID(types.UID(p.Object.GetName()))
	return p
}

// exempts is an exemption from policies of a name, which may be a pattern.
func exempts(t *testing.T, name, from string) api.Policy {
	t.Helper()
	return decodePolicy(t, `{"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterPolicyExemption", "metadata": {"name": %q}, "spec": {
		"policyRefs": [{"kind": "ClusterObjectPolicy", "name": %q}], "reason": "r", "owner": "o", "expiresAt": "2999-01-01T00:00:00Z"}}`, name, from)
}

// refuses is a policy that refuses everything in v1, and in usher.dev.
func refuses(t *testing.T, name string) api.Policy {
	t.Helper()
	return decodePolicy(t, `{"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterObjectPolicy", "metadata": {"name": %q}, "spec": {
		"namespaceExemptions": "Allow",
		"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["*"], "resources": ["pods"], "operations": ["*"]}]},
		"validations": [{"name": "no", "expression": "false", "message": "refused"}]}}`, name)
}

func validating() *usher.Request {
	r := createPod()
	r.Phase = usher.Validate
	return r
}

func verdict(t *testing.T, l *live.Live, r *usher.Request) string {
	t.Helper()
	d, err := l.Decide(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return string(d.Verdict) + " " + d.Message
}

// TestUnprovenExemptionsExemptNothing: who stores an exemption past Usher gets nothing by it, and an
// edit of the one in force takes its effect away.
func TestUnprovenExemptionsExemptNothing(t *testing.T) {
	t.Parallel()
	source := newScript()
	h := start(t, source)
	x := exempts(t, "e", "p")
	x.Proof = api.Proof{State: api.Proven}
	source.update(set(refuses(t, "p"), x))
	h.next()
	if got := verdict(t, h.live, validating()); !strings.HasPrefix(got, "allow") {
		t.Errorf("proven: %s", got)
	}
	x.Proof = api.Proof{State: api.Unproven, Why: "forged"}
	source.update(set(refuses(t, "p"), x))
	h.next()
	if got := verdict(t, h.live, validating()); !strings.HasPrefix(got, "deny refused") {
		t.Errorf("unproven: %s", got)
	}
	for _, s := range h.live.Exemptions() {
		if !s.Expires.IsZero() {
			t.Errorf("an exemption that is not in force ends at %s", s.Expires)
		}
	}
}

// TestPolicyAdmissionHasNoExemptions: with an exemption from all policies, a policy that does not
// compile is refused, and so is an exemption by a user without the right.
func TestPolicyAdmissionHasNoExemptions(t *testing.T) {
	t.Parallel()
	source := newScript()
	h := startWith(t, live.Options{
		May:              func(context.Context, *usher.Request) (bool, error) { return false, nil },
		LongestExemption: time.Hour,
	}, source)
	all := exempts(t, "all", "*")
	all.Proof = api.Proof{State: api.Proven}
	source.update(set(refuses(t, "p"), all))
	h.next()
	if got := verdict(t, h.live, validating()); !strings.HasPrefix(got, "allow") {
		t.Errorf("a pod: %s", got)
	}
	for want, text := range map[string]string{
		"spec.validations[0].expression":  `{"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterObjectPolicy", "metadata": {"name": "b"}, "spec": {"matchConstraints": {}, "validations": [{"expression": "("}]}}`,
		"an exemption may end at most 1h": `{"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterPolicyExemption", "metadata": {"name": "b"}, "spec": {"policyRefs": [{"kind": "ClusterObjectPolicy", "name": "p"}], "reason": "r", "owner": "o", "expiresAt": "2999-01-01T00:00:00Z"}}`,
		"permission to exempt clusterobjectpolicies.usher.dev p, which mallory": fmt.Sprintf(`{"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterPolicyExemption", "metadata": {"name": "b"}, "spec": {"policyRefs": [{"kind": "ClusterObjectPolicy", "name": "p"}], "reason": "r", "owner": "o", "expiresAt": %q}}`,
			time.Now().Add(time.Minute).UTC().Format(time.RFC3339)),
	} {
		policy := decodePolicy(t, "%s", text)
		kind, _ := api.KindOf(policy.Object)
		got := verdict(t, h.live, &usher.Request{
			Phase: usher.Validate, Operation: usher.Create, User: usher.User{Name: "mallory"}, Name: "b",
			Kind: usherv1alpha1.GroupVersion.WithKind(kind.Kind), Resource: usherv1alpha1.GroupVersion.WithResource(kind.Resource), Object: usher.RawObject([]byte(text)),
		})
		if !strings.HasPrefix(got, "deny") || !strings.Contains(got, want) {
			t.Errorf("%s: %s", want, got)
		}
	}
}

// TestExemptionsOfANamespaceAreBounded: of too many, the oldest count.
func TestExemptionsOfANamespaceAreBounded(t *testing.T) {
	t.Parallel()
	const most, written = 20, 3000
	source := newScript()
	h := startWith(t, live.Options{Quota: live.Quota{Policies: most}}, source)
	policies := []api.Policy{refuses(t, "p")}
	for i := range written {
		x := decodePolicy(t, `{"apiVersion": "usher.dev/v1alpha1", "kind": "PolicyExemption", "metadata": {"name": "e%d", "namespace": "shop"}, "spec": {
			"policyRefs": [{"kind": "ClusterObjectPolicy", "name": "p"}], "matchConditions": [{"name": "n", "expression": "object.metadata.name == 'cart-%d'"}],
			"reason": "r", "owner": "o", "expiresAt": "2999-01-01T00:00:00Z"}}`, i, i)
		x.Proof = api.Proof{State: api.Proven}
		x.Object.SetCreationTimestamp(metav1.NewTime(time.Unix(int64(1_000_000-i), 0)))
		policies = append(policies, x)
	}
	source.update(set(policies...))
	status := h.next()
	if n := len(h.live.Exemptions()); n != most || len(status.Surplus) != written-most {
		t.Errorf("%d are in force, %d are surplus", n, len(status.Surplus))
	}
	for i, want := range map[int]string{0: "deny", written - 1: "allow"} {
		r := validating()
		r.Object = usher.RawObject(fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "cart-%d", "namespace": "shop"}}`, i))
		if got := verdict(t, h.live, r); !strings.HasPrefix(got, want) {
			t.Errorf("cart-%d: %s, want %s", i, got, want)
		}
	}
}
