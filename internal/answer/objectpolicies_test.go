package answer_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/answer"
)

// TestDenialOfObjectPolicies: clients get each validation that denies as a cause, with its field,
// from which kubectl makes what users see.
func TestDenialOfObjectPolicies(t *testing.T) {
	t.Parallel()
	check := func(i int, field, message string, actions ...usher.Action) usher.Check {
		return usher.Check{Name: fmt.Sprintf("spec.validations[%d]", i), Field: field, Message: message, Actions: actions}
	}
	object := func(name, message string, checks ...usher.Check) usher.Finding {
		return usher.Finding{
			Policy: usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: name}, Rule: "spec.validations",
			Outcome: usher.Rejected, Message: message, Checks: checks,
		}
	}
	network := check(0, "spec.hostNetwork", "hostNetwork is not allowed", usher.ActDeny)
	path := check(3, "spec.volumes", "no hostPath", usher.ActDeny, usher.ActAudit)
	warned := check(1, "spec.hostPID", "hostPID is not allowed", usher.ActWarn)
	plain := check(0, "", "no", usher.ActDeny)
	tenant := object("small", "too big", check(0, "spec.replicas", "too big", usher.ActDeny))
	tenant.Policy = usher.PolicyRef{Kind: "ObjectPolicy", Namespace: "shop", Name: "small"}
	template := usher.Finding{
		Policy: usher.PolicyRef{Kind: "ClusterValidatePolicy", Name: "team"}, Rule: "spec.validateRules[0]", Outcome: usher.Rejected, Message: "label team is required",
	}
	native := usher.Finding{
		Policy: usher.PolicyRef{Kind: "ValidatingAdmissionPolicy", Name: "v"}, Rule: "binding b", Outcome: usher.Rejected, Message: "V 'v' denied request: no",
	}
	failed := object("slow", "")
	failed.Outcome, failed.Err = usher.Failed, errors.New("no such key: spec")
	passed := object("fine", "", warned)
	passed.Outcome = usher.Passed
	tests := []struct {
		findings []usher.Finding
		// causes are TYPE FIELD: MESSAGE.
		causes []string
		reason string
	}{
		{[]usher.Finding{object("x", "hostNetwork is not allowed", network)},
			[]string{"PolicyRejected spec.hostNetwork: hostNetwork is not allowed (ClusterObjectPolicy x)"}, "one validation"},
		{[]usher.Finding{object("x", "hostNetwork is not allowed, and 1 more", network, path)},
			[]string{"PolicyRejected spec.hostNetwork: hostNetwork is not allowed (ClusterObjectPolicy x)", "PolicyRejected spec.volumes: no hostPath (ClusterObjectPolicy x)"},
			"all validations that deny"},
		{[]usher.Finding{object("x", "hostNetwork is not allowed", network, warned)},
			[]string{"PolicyRejected spec.hostNetwork: hostNetwork is not allowed (ClusterObjectPolicy x)"}, "a validation that warns is no cause"},
		{[]usher.Finding{object("x", "no", plain)}, []string{"PolicyRejected ClusterObjectPolicy x spec.validations[0]: no"}, "without a field, the validation is there"},
		{[]usher.Finding{object("x", "no", plain), tenant, template}, []string{
			"PolicyRejected ClusterObjectPolicy x spec.validations[0]: no",
			"PolicyRejected spec.replicas: too big (ObjectPolicy shop/small)",
			"PolicyRejected ClusterValidatePolicy team spec.validateRules[0]: label team is required",
		}, "policies of several kinds"},
		{[]usher.Finding{passed, object("x", "no", plain), failed}, []string{
			"PolicyRejected ClusterObjectPolicy x spec.validations[0]: no", "PolicyFailed ClusterObjectPolicy slow spec.validations: no such key: spec",
		}, "a policy that fails is a cause, one that passes is none"},
		{[]usher.Finding{object("x", "no", plain), native}, []string{
			"PolicyRejected ClusterObjectPolicy x spec.validations[0]: no", " : V 'v' denied request: no",
		}, "a policy of Kubernetes beside one of Usher"},
	}
	q := &usher.Request{
		Name: "cart", Kind: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"},
	}
	for _, test := range tests {
		message := test.findings[0].Message
		status, err := answer.Denial(q, usher.Decision{Verdict: usher.Deny, Code: http.StatusUnprocessableEntity, Reason: "Invalid", Message: message, Findings: test.findings})
		if err != nil {
			t.Errorf("%s: %v", test.reason, err)
			continue
		}
		var got []string
		for _, cause := range status.Details.Causes {
			got = append(got, fmt.Sprintf("%s %s: %s", cause.Type, cause.Field, cause.Message))
		}
		if diff := cmp.Diff(test.causes, got); diff != "" {
			t.Errorf("%s: causes (-want +got):\n%s", test.reason, diff)
		}
		if status.Reason != metav1.StatusReasonInvalid || status.Code != http.StatusUnprocessableEntity || status.Details.Kind != "Pod" || status.Details.Name != "cart" {
			t.Errorf("%s: status %+v, expected Invalid about the Pod cart", test.reason, status)
		}
	}
	many := slices.Repeat([]usher.Check{network}, 150)
	status, err := answer.Denial(q, usher.Decision{Verdict: usher.Deny, Findings: []usher.Finding{object("x", "no", many...)}})
	if err != nil || len(status.Details.Causes) != 100 {
		t.Errorf("%d causes of 150 validations (%v), expected 100", len(status.Details.Causes), err)
	}
}
