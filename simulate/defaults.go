package simulate

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// setDefaults fills in what API servers do when configurations and policies are written:
// https://kubernetes.io/docs/reference/kubernetes-api/extend-resources/.
func setDefaults(object runtime.Object) {
	switch o := object.(type) {
	case *admissionv1.MutatingWebhookConfiguration:
		for i := range o.Webhooks {
			w := &o.Webhooks[i]
			unless(&w.ReinvocationPolicy, admissionv1.NeverReinvocationPolicy)
			defaultWebhook(&w.ClientConfig, w.Rules, &w.FailurePolicy, &w.MatchPolicy, &w.NamespaceSelector, &w.ObjectSelector, &w.TimeoutSeconds)
		}
	case *admissionv1.ValidatingWebhookConfiguration:
		for i := range o.Webhooks {
			w := &o.Webhooks[i]
			defaultWebhook(&w.ClientConfig, w.Rules, &w.FailurePolicy, &w.MatchPolicy, &w.NamespaceSelector, &w.ObjectSelector, &w.TimeoutSeconds)
		}
	case *admissionv1.ValidatingAdmissionPolicy:
		unless(&o.Spec.FailurePolicy, admissionv1.Fail)
		defaultMatch(o.Spec.MatchConstraints)
	case *admissionv1.MutatingAdmissionPolicy:
		unless(&o.Spec.FailurePolicy, admissionv1.Fail)
		defaultMatch(o.Spec.MatchConstraints)
	case *admissionv1.ValidatingAdmissionPolicyBinding:
		defaultMatch(o.Spec.MatchResources)
	case *admissionv1.MutatingAdmissionPolicyBinding:
		defaultMatch(o.Spec.MatchResources)
	}
}

func defaultWebhook(client *admissionv1.WebhookClientConfig, rules []admissionv1.RuleWithOperations, failure **admissionv1.FailurePolicyType,
	match **admissionv1.MatchPolicyType, namespaces, objects **metav1.LabelSelector, timeout **int32) {
	unless(failure, admissionv1.Fail)
	unless(match, admissionv1.Equivalent)
	unless(namespaces, metav1.LabelSelector{})
	unless(objects, metav1.LabelSelector{})
	unless(timeout, 10)
	if client.Service != nil {
		unless(&client.Service.Port, 443)
	}
	for i := range rules {
		unless(&rules[i].Scope, admissionv1.AllScopes)
	}
}

// defaultMatch fills in m, which may be nil.
func defaultMatch(m *admissionv1.MatchResources) {
	if m == nil {
		return
	}
	unless(&m.MatchPolicy, admissionv1.Equivalent)
	unless(&m.NamespaceSelector, metav1.LabelSelector{})
	unless(&m.ObjectSelector, metav1.LabelSelector{})
	for _, rules := range [][]admissionv1.NamedRuleWithOperations{m.ResourceRules, m.ExcludeResourceRules} {
		for i := range rules {
			unless(&rules[i].Scope, admissionv1.AllScopes)
		}
	}
}

// unless sets a value that is not set.
func unless[T any](target **T, value T) {
	if *target == nil {
		*target = &value
	}
}
