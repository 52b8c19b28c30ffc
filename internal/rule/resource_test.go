package rule_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

// TestResourcesThatNoPolicyIsFor: rules for all resources do not match what API servers never ask
// admission policies about.
func TestResourcesThatNoPolicyIsFor(t *testing.T) {
	t.Parallel()
	const (
		aboutPolicies = "no policy is for admission policies and webhook configurations"
		aboutReviews  = "no policy is for reviews of access and identity"
	)
	tests := []struct {
		reason          string
		group, resource string
		kind            string
		want            string
	}{
		{"a policy has to remain correctable", "admissionregistration.k8s.io", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", aboutPolicies},
		{"and its binding", "admissionregistration.k8s.io", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", aboutPolicies},
		{"and a mutating policy", "admissionregistration.k8s.io", "mutatingadmissionpolicies", "MutatingAdmissionPolicy", aboutPolicies},
		{"and its binding", "admissionregistration.k8s.io", "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", aboutPolicies},
		{"and a webhook", "admissionregistration.k8s.io", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", aboutPolicies},
		{"and a mutating webhook", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", aboutPolicies},
		{"the question of a policy to the authorizer", "authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview", aboutReviews},
		{"the same in a namespace", "authorization.k8s.io", "localsubjectaccessreviews", "LocalSubjectAccessReview", aboutReviews},
		{"the question of a user", "authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview", aboutReviews},
		{"all rights of a user", "authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview", aboutReviews},
		{"the identity of a token", "authentication.k8s.io", "tokenreviews", "TokenReview", aboutReviews},
		{"the identity of a user", "authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview", aboutReviews},
		{"a resource of the same name in another group", "example.com", "subjectaccessreviews", "SubjectAccessReview", ""},
		{"an object that is stored", "", "pods", "Pod", ""},
	}
	all := rule.ResourceMatch{Rules: []rule.ResourceRule{{Groups: []string{"*"}, Versions: []string{"*"}, Resources: []string{"*", "*/*"}}}}
	for _, tt := range tests {
		t.Run(tt.reason+": "+tt.resource, func(t *testing.T) {
			t.Parallel()
			r := &usher.Request{
				Operation: usher.Create,
				Resource:  schema.GroupVersionResource{Group: tt.group, Version: "v1", Resource: tt.resource},
				Kind:      schema.GroupVersionKind{Group: tt.group, Version: "v1", Kind: tt.kind},
			}
			if got := all.Mismatch(r); got != tt.want {
				t.Errorf("Mismatch: %q, want %q", got, tt.want)
			}
			if got, want := all.Matches(r), tt.want == ""; got != want {
				t.Errorf("Matches: %t, want %t", got, want)
			}
		})
	}
}

// TestMismatchOfScope: a rule that a namespace alone keeps from a request says so.
func TestMismatchOfScope(t *testing.T) {
	t.Parallel()
	const namespaces = "the resourceRules are for objects in namespaces, and the request has no namespace"
	for _, test := range []struct {
		reason, resource, namespace string
		scope                       rule.Scope
		want                        string
	}{
		{"no namespace", "deployments", "", rule.Namespaced, namespaces},
		{"a namespace", "deployments", "shop", rule.Namespaced, ""},
		{"another resource", "pods", "", rule.Namespaced, "none of the resourceRules is for this request"},
		{"another scope", "deployments", "shop", rule.Cluster, "none of the resourceRules is for this request"},
	} {
		m := rule.ResourceMatch{Rules: []rule.ResourceRule{{Groups: []string{"apps"}, Versions: []string{"v1"}, Resources: []string{"deployments"}, Scope: test.scope}}}
		r := &usher.Request{Operation: usher.Create, Namespace: test.namespace, Resource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: test.resource}}
		if got := m.Mismatch(r); got != test.want || m.Matches(r) != (test.want == "") {
			t.Errorf("%s: %q, want %q", test.reason, got, test.want)
		}
	}
}
