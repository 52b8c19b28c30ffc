package e2e

import (
	"os/exec"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/usher-dev/usher/sandbox/internal/usher"
)

// A backup is what a backup of etcd has of Usher: keys, entries, and policies with their proofs.
type backup struct {
	secrets    []*corev1.Secret
	mutating   *admissionv1.MutatingWebhookConfiguration
	validating *admissionv1.ValidatingWebhookConfiguration
	policies   []*unstructured.Unstructured
}

func (r *rig) backup(t *testing.T, policies ...*unstructured.Unstructured) *backup {
	t.Helper()
	ctx, b := testContext(t), &backup{}
	for _, name := range []string{"usher-proofs", "usher-paths"} {
		secret, err := r.kube.CoreV1().Secrets(usher.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		b.secrets = append(b.secrets, secret)
	}
	var err error
	if b.mutating, err = r.kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, "usher", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	if b.validating, err = r.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, "usher", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, p := range policies {
		resource, err := r.of(p)
		if err != nil {
			t.Fatal(err)
		}
		current, err := resource.Get(ctx, p.GetName(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		b.policies = append(b.policies, current)
	}
	return b
}

// removeEntries makes API servers ask nobody, as somebody who may change their configuration can.
func (r *rig) removeEntries(t *testing.T) {
	t.Helper()
	client := r.kube.AdmissionregistrationV1()
	if err := client.MutatingWebhookConfigurations().Delete(testContext(t), "usher", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := client.ValidatingWebhookConfigurations().Delete(testContext(t), "usher", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// restore brings a backup back while no replica runs.
func (r *rig) restore(t *testing.T, b *backup) {
	t.Helper()
	ctx := testContext(t)
	r.removeEntries(t)
	for _, p := range b.policies {
		// API servers forget webhooks a moment after their configuration is deleted.
		eventually(t, "policy "+p.GetName()+" to be restored", func() error {
			resource, err := r.of(p)
			if err != nil {
				return err
			}
			current, err := resource.Get(ctx, p.GetName(), metav1.GetOptions{})
			if err != nil {
				return err
			}
			_, err = resource.Update(ctx, withProof(current, proofOf(p)), metav1.UpdateOptions{})
			return err
		})
	}
	for _, secret := range b.secrets {
		current, err := r.kube.CoreV1().Secrets(usher.Namespace).Get(ctx, secret.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		current.Data = secret.Data
		if _, err := r.kube.CoreV1().Secrets(usher.Namespace).Update(ctx, current, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	mutating, validating := b.mutating.DeepCopy(), b.validating.DeepCopy()
	mutating.ResourceVersion, validating.ResourceVersion = "", ""
	if _, err := r.kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(ctx, mutating, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, validating, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// restored goes back to a backup from before the keys were replaced, with its keys and entries. What
// is in it counts; a policy that was written since then is by a key that nobody knows.
func (o *rollout) restored(t *testing.T, binary, namespace string, b *backup) {
	t.Helper()
	o.stopAll()
	o.restore(t, b)
	o.add(t, binary)
	for _, p := range b.policies {
		o.awaitProven(t, p, "True", "True")
	}
	o.acting(t, namespace, "edited")
	o.awaitProven(t, granting(t, namespace, "during-0"), "False", "False")
	if _, err := o.apply(testContext(t), granting(t, namespace, "after")); err != nil {
		t.Errorf("a policy cannot be written after the restoration: %v", err)
	}
	o.awaitProven(t, granting(t, namespace, "after"), "True", "True")
}

func (o *rollout) stopAll() {
	for _, process := range o.running {
		process.Stop()
	}
	o.running = nil
}

// uninstalled removes everything that Usher has made but policies, and what they say.
func (o *rollout) uninstalled(t *testing.T, binary string) {
	t.Helper()
	o.stopAll()
	kept, err := exec.Command(binary, "uninstall", "--kubeconfig", o.Kubeconfig).CombinedOutput()
	if _, lost := o.kube.CoreV1().Secrets(usher.Namespace).Get(testContext(t), "usher-proofs", metav1.GetOptions{}); err != nil || lost != nil {
		t.Errorf("uninstall: %v, the keys of proofs: %v\n%s", err, lost, kept)
	}
	out, err := exec.Command(binary, "uninstall", "--purge", "--kubeconfig", o.Kubeconfig).CombinedOutput()
	out = append(kept, out...)
	for _, want := range []string{
		"deleted MutatingWebhookConfiguration usher\n", "deleted ValidatingWebhookConfiguration usher\n", "deleted Lease usher-system/usher-proofs\n",
		"deleted Secret usher-system/usher-proofs\n", "deleted Secret usher-system/usher-paths\n",
	} {
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("uninstall does not say %q, %v:\n%s", want, err, out)
		}
	}
	for _, name := range []string{"usher-proofs", "usher-paths"} {
		if _, err := o.kube.CoreV1().Secrets(usher.Namespace).Get(testContext(t), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("after uninstalling, Secret %s: %v", name, err)
		}
	}
	if _, err := o.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(testContext(t), "usher", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after uninstalling, the entries: %v", err)
	}
}
