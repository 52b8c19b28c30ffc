package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/usher-dev/usher/sandbox"
	"github.com/usher-dev/usher/sandbox/internal/usher"
)

// TestUninstallWithCandidates starts without the kinds of candidates, which it says, gets them, and has a candidate count
// what is sent for it alone. It is uninstalled then and comes back, once with the keys of proofs and once without.
func TestUninstallWithCandidates(t *testing.T) {
	t.Parallel()
	r := newRig(t, sandbox.Options{Exclusive: true})
	kinds := []string{"clusterpolicycandidates", "policycandidates"}
	r.removeCRDs(t, kinds...)
	r.serve(t, fail)
	namespace := r.Namespace(t)
	r.enforce(t, labelling(t, namespace, namespace, "works"))
	r.acting(t, namespace, "works")
	r.told(t, "absent", len(kinds), "PolicyCandidate: the cluster has no such kind: apply the CRDs of this version")
	if err := usher.InstallCRDs(testContext(t), r.RESTConfig, filepath.Join(root, "deploy", "crds")); err != nil {
		t.Fatal(err)
	}
	r.told(t, "read", 11, "")

	candidate := r.create(t, candidateOf(t, "ClusterPolicyCandidate", fmt.Sprintf("{name: %q}", namespace), nil, withoutSecrets(t, namespace)))
	r.awaitCondition(t, candidate, "Proven", "True")
	r.awaitCondition(t, candidate, "Evaluated", "True")
	secrets := 0
	write := func() {
		t.Helper()
		secrets++
		r.create(t, parse(t, `{apiVersion: v1, kind: Secret, metadata: {name: s%d, namespace: %s}}`, secrets, namespace))
	}
	write()
	r.awaitCounts(t, candidate, map[string]int64{"newlyDenied": 1, "skipped": 0})
	if err := r.withoutEntry(testContext(t), "validate-candidates.usher.dev"); err == nil {
		t.Error("what is for the candidate alone is sent without an entry for candidates")
	}

	r.uninstall(t, "policies whose status says now that they are not enforced: 2\n")
	gone := r.awaitCondition(t, candidate, "Evaluated", "False")
	if got := conditionOf(gone, "Evaluated"); !strings.Contains(got, "Uninstalled") {
		t.Errorf("after uninstalling, the candidate says %s", got)
	}
	// The entries are gone, and with them the failure policy.
	eventually(t, "requests without Usher", func() error { return r.acts(t, namespace, "") })
	write()

	r.serve(t, fail)
	r.awaitCondition(t, candidate, "Evaluated", "True")
	r.awaitCondition(t, candidate, "Proven", "True")
	for range 4 {
		write()
	}
	// It has counted anew, or on.
	r.atLeast(t, candidate, "newlyDenied", 4)

	r.uninstall(t, "deleted Secret usher-system/usher-proofs\n", "--purge")
	r.serve(t, fail)
	lost := r.awaitCondition(t, candidate, "Proven", "False")
	if got := conditionOf(lost, "Proven"); !strings.Contains(got, "its proof is by a key that is not known here") {
		t.Errorf("with another key, the candidate says %s", got)
	}
	r.awaitCondition(t, candidate, "Evaluated", "False")
	if out, code := r.authz(t, "adopt", "--all"); code != 0 || !strings.Contains(out, "adopted ClusterPolicyCandidate "+namespace) {
		t.Errorf("adopt: exit status %d:\n%s", code, out)
	}
	r.awaitCondition(t, candidate, "Evaluated", "True")
}

// uninstall stops Usher, and uninstalls it. What is left are policies.
func (r *rig) uninstall(t *testing.T, want string, args ...string) {
	t.Helper()
	r.process.Stop()
	out, failures, code := run(t, append([]string{"uninstall", "--kubeconfig", r.Kubeconfig}, args...)...)
	for _, text := range []string{"deleted MutatingWebhookConfiguration usher\n", "deleted ValidatingWebhookConfiguration usher\n", want} {
		if code != 0 || !strings.Contains(out, text) {
			t.Errorf("uninstall %v: exit status %d, without %q:\n%s%s", args, code, text, out, failures)
		}
	}
	mutating, err := r.kube.AdmissionregistrationV1().MutatingWebhookConfigurations().List(testContext(t), metav1.ListOptions{})
	if err != nil || len(mutating.Items) != 0 {
		t.Errorf("%d mutating webhook configurations are left: %v", len(mutating.Items), err)
	}
	validating, err := r.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(testContext(t), metav1.ListOptions{})
	if err != nil || len(validating.Items) != 0 {
		t.Errorf("%d validating webhook configurations are left: %v", len(validating.Items), err)
	}
	if crds, err := r.dynamic.Resource(definitions).List(testContext(t), metav1.ListOptions{}); err != nil || len(crds.Items) < 11 {
		t.Errorf("%d CRDs are left: %v", len(crds.Items), err)
	}
}

// atLeast waits until a number in the status of a candidate is large enough.
func (r *rig) atLeast(t *testing.T, candidate *unstructured.Unstructured, field string, n int64) {
	t.Helper()
	client, err := r.of(candidate)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "counts of the candidate", func() error {
		stored, err := client.Get(testContext(t), candidate.GetName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got, _, err := unstructured.NestedInt64(stored.Object, "status", field); err != nil || got < n {
			return fmt.Errorf("%s is %d, not %d: %v", field, got, n, stored.Object["status"])
		}
		return nil
	})
}
