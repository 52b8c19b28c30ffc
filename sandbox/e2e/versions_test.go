package e2e

import (
	"errors"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/sandbox"
)

// TestReviewVersions registers Usher by hand, for one version of AdmissionReview at a
// time, as manifests of older webhooks do.
func TestReviewVersions(t *testing.T) {
	t.Parallel()
	r := newRig(t, sandbox.Options{Exclusive: true})
	process := r.launch(t, r.Kubeconfig, "--manage-webhook-configurations=false")
	if err := process.WaitReady(testContext(t)); err != nil {
		t.Fatal(err)
	}
	ca, err := process.CA()
	if err != nil {
		t.Fatal(err)
	}
	webhooks := r.kube.AdmissionregistrationV1()
	for _, version := range []string{"v1", "v1beta1"} {
		namespace := r.Namespace(t)
		r.create(t, labelling(t, namespace, namespace, version))
		r.create(t, parse(t, `
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: ClusterValidatePolicy
metadata: {name: %[1]q}
spec:
  resourceSelectors: [{apiVersion: v1, kind: ConfigMap, namespace: %[1]q, labelSelector: {matchLabels: {app: wrong}}}]
  validateRules:
  - targetOperations: [CREATE]
    cue: |
      validate: {valid: false, reason: "not here"}
`, namespace))
		if err := r.acts(t, namespace, version); err == nil {
			t.Fatalf("%s: the policy acts before Usher is registered", version)
		}
		url := func(path string) admissionv1.WebhookClientConfig {
			address := process.URL + path
			return admissionv1.WebhookClientConfig{URL: &address, CABundle: ca}
		}
		rules := []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
		}}
		none, policy := admissionv1.SideEffectClassNone, admissionv1.Fail
		mutating := &admissionv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "by-hand"},
			Webhooks: []admissionv1.MutatingWebhook{{
				Name: "mutate.example.com", ClientConfig: url("/mutate"), Rules: rules, SideEffects: &none, FailurePolicy: &policy,
				AdmissionReviewVersions: []string{version},
			}},
		}
		validating := &admissionv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "by-hand"},
			Webhooks: []admissionv1.ValidatingWebhook{{
				Name: "validate.example.com", ClientConfig: url("/validate"), Rules: rules, SideEffects: &none, FailurePolicy: &policy,
				AdmissionReviewVersions: []string{version},
			}},
		}
		_, errM := webhooks.MutatingWebhookConfigurations().Create(testContext(t), mutating, metav1.CreateOptions{})
		_, errV := webhooks.ValidatingWebhookConfigurations().Create(testContext(t), validating, metav1.CreateOptions{})
		if err := errors.Join(errM, errV); err != nil {
			t.Fatal(err)
		}
		r.acting(t, namespace, version)
		eventually(t, version+": the denial", func() error {
			refused := configMap(t, namespace, "refused")
			refused.SetLabels(map[string]string{"app": "wrong"})
			_, err := r.try(testContext(t), refused)
			return wantDenied(err, "not here")
		})
		err := errors.Join(
			webhooks.MutatingWebhookConfigurations().Delete(testContext(t), "by-hand", metav1.DeleteOptions{}),
			webhooks.ValidatingWebhookConfigurations().Delete(testContext(t), "by-hand", metav1.DeleteOptions{}))
		if err != nil {
			t.Fatal(err)
		}
	}
}
