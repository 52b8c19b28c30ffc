package answer_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/answer"
)

// TestDenialNamesPolicies: what clients are told names each policy that refuses.
func TestDenialNamesPolicies(t *testing.T) {
	t.Parallel()
	rejected := func(name, message string) usher.Finding {
		return usher.Finding{
			Policy: usher.PolicyRef{Kind: "ClusterValidatePolicy", Name: name}, Rule: "spec.validateRules[0]",
			Outcome: usher.Rejected, Message: message,
		}
	}
	failed := func(name string, ignored bool) usher.Finding {
		f := rejected(name, "")
		f.Outcome, f.Err, f.Ignored = usher.Failed, errors.New("no such field"), ignored
		return f
	}
	other := func(f usher.Finding, outcome usher.Outcome) usher.Finding {
		f.Outcome = outcome
		return f
	}
	builtIn := usher.Finding{Rule: "policy admission", Outcome: usher.Rejected, Message: "spec.x: unknown field"}
	written := rejected("p1", "spec: no")
	written.Written = true
	native := func(name, message string) usher.Finding {
		f := rejected(name, message)
		f.Policy.Kind, f.Rule = "ValidatingAdmissionPolicy", "binding all"
		return f
	}
	slow := failed("v1", false)
	slow.Policy.Kind = "ValidatingAdmissionPolicy"
	long := strings.Repeat("x", 20<<10)
	tests := []struct {
		message  string
		findings []usher.Finding
		want     string
		reason   string
	}{
		{"label team is required", []usher.Finding{rejected("require-team", "label team is required")},
			"label team is required (ClusterValidatePolicy require-team)", "one policy"},
		{"", []usher.Finding{rejected("require-team", "")},
			"no reason given (ClusterValidatePolicy require-team)", "a policy without a reason"},
		{"", []usher.Finding{rejected("only-infra", "only infra")},
			"only infra (ClusterValidatePolicy only-infra)", "a reason that the message of the decision leaves out"},
		{"a; b", []usher.Finding{rejected("p1", "a"), other(rejected("p2", ""), usher.Passed), rejected("p3", "b")},
			"a (ClusterValidatePolicy p1); b (ClusterValidatePolicy p3)", "each reason has its policy"},
		{"a; b", []usher.Finding{rejected("p1", "a"), rejected("p2", ""), rejected("p3", "b")},
			"a (ClusterValidatePolicy p1); no reason given (ClusterValidatePolicy p2); b (ClusterValidatePolicy p3)", "also one without a reason between them"},
		{"a\n", []usher.Finding{rejected("p1", "a\n")}, "a (ClusterValidatePolicy p1)", "a text in several lines"},
		{"no such field (ClusterValidatePolicy p1 spec.validateRules[0])", []usher.Finding{failed("p1", false)},
			"no such field (ClusterValidatePolicy p1 spec.validateRules[0])", "a rule that fails is named once"},
		{"a", []usher.Finding{failed("p1", true), other(rejected("p2", "b"), usher.WouldDeny), rejected("p3", "a")},
			"a (ClusterValidatePolicy p3)", "policies that do not refuse are not named"},
		{"spec.x: unknown field", []usher.Finding{builtIn}, "spec.x: unknown field", "a built-in rule is no policy"},
		{"spec.x: unknown field; a", []usher.Finding{builtIn, rejected("p1", "a")},
			"spec.x: unknown field; a (ClusterValidatePolicy p1)", "a built-in rule beside a policy"},
		{"ClusterValidatePolicy p1: spec: no", []usher.Finding{written},
			"ClusterValidatePolicy p1: spec: no", "policy admission refuses the policy, which decides nothing"},
		{"ask the platform team", []usher.Finding{rejected("p1", "a"), rejected("p2", "b")},
			"ask the platform team (ClusterValidatePolicy p1) (ClusterValidatePolicy p2)", "a decider with a message of its own"},
		{"no", nil, "no", "a decider without findings"},
		{"V 'v1' denied request: no", []usher.Finding{native("v1", "V 'v1' denied request: no"), native("v2", "V 'v2' denied request: no")},
			"V 'v1' denied request: no", "policies of Kubernetes are told as by an API server, which tells the first"},
		{"a; V 'v1' denied request: no", []usher.Finding{rejected("p1", "a"), native("v1", "V 'v1' denied request: no"), native("v2", "V 'v2' denied request: no")},
			"a (ClusterValidatePolicy p1); V 'v1' denied request: no", "a policy of Kubernetes beside another"},
		{"no such field (ValidatingAdmissionPolicy v1 spec.validateRules[0])", []usher.Finding{slow},
			"no such field (ValidatingAdmissionPolicy v1 spec.validateRules[0])", "a policy of Kubernetes that fails in a way of its own"},
		{long, []usher.Finding{rejected("p1", long)},
			long[:16<<10-len(" (ClusterValidatePolicy p1)…")-1] + "… (ClusterValidatePolicy p1)", "the policy remains when the reason is cut"},
	}
	for _, test := range tests {
		d := usher.Decision{Verdict: usher.Deny, Message: test.message, Findings: test.findings}
		status, err := answer.Denial(&usher.Request{}, d)
		if err != nil {
			t.Errorf("%s: %v", test.reason, err)
			continue
		}
		if status.Message != test.want {
			t.Errorf("%s: %.300q…, want %.300q… (%d and %d bytes)", test.reason, status.Message, test.want, len(status.Message), len(test.want))
		}
		if d.Message != test.message {
			t.Errorf("%s: the decision has the message %q now, want it bare", test.reason, d.Message)
		}
	}
	var all []usher.Finding
	for _, name := range []string{"p1", "p2", "p3"} {
		all = append(all, rejected(name, long))
	}
	status, err := answer.Denial(&usher.Request{}, usher.Decision{Verdict: usher.Deny, Message: strings.Join([]string{long, long, long}, "; "), Findings: all})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if !strings.Contains(status.Message, "("+f.Policy.String()+")") || len(status.Message) > 16<<10 {
			t.Errorf("%d bytes without %s, want at most 16 KiB with every policy", len(status.Message), f.Policy)
		}
	}
}

// TestDenialOfKubernetesPolicies: the details are those of an API server.
func TestDenialOfKubernetesPolicies(t *testing.T) {
	t.Parallel()
	finding := func(name string) usher.Finding {
		return usher.Finding{Policy: usher.PolicyRef{Kind: "ValidatingAdmissionPolicy", Name: name}, Rule: "binding b", Outcome: usher.Rejected, Message: name + " denied request: no"}
	}
	r := &usher.Request{
		Kind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, Name: "web",
		Resource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
	}
	status, err := answer.Denial(r, usher.Decision{Verdict: usher.Deny, Message: "a denied request: no", Findings: []usher.Finding{finding("a"), finding("b")}})
	if err != nil {
		t.Fatal(err)
	}
	want := &metav1.StatusDetails{Name: "web", Group: "apps", Kind: "deployments", Causes: []metav1.StatusCause{{Message: "a denied request: no"}}}
	if diff := cmp.Diff(want, status.Details); diff != "" {
		t.Errorf("details: -want +got:\n%s", diff)
	}
}
