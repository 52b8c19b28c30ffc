package e2e

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/usher-dev/usher/sandbox"
)

// refusing is an object policy of a namespace that refuses ConfigMaps of one name.
func refusing(t *testing.T, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	return parse(t, `
apiVersion: usher.dev/v1alpha1
kind: ObjectPolicy
metadata: {name: %[2]q, namespace: %[1]q}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps], resourceNames: [%[2]q]}]}
  validations: [{expression: "object.metadata.name == ''", message: "refused by %[2]s"}]
`, namespace, name)
}

// exemptingIn exempts everything from such a policy.
func exemptingIn(t *testing.T, namespace, name, policy string) *unstructured.Unstructured {
	t.Helper()
	return parse(t, `
apiVersion: usher.dev/v1alpha1
kind: PolicyExemption
metadata: {name: %[2]q, namespace: %[1]q}
spec:
  policyRefs: [{kind: ObjectPolicy, name: %[3]q}]
  reason: written past Usher
  owner: team-shop
  expiresAt: %[4]q
`, namespace, name, policy, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
}

// TestPoliciesStoredPastUsher writes ObjectPolicies and PolicyExemptions before Usher is installed,
// and while its webhook configurations are away. None is in force before somebody adopts it.
func TestPoliciesStoredPastUsher(t *testing.T) {
	t.Parallel()
	r := newRig(t, sandbox.Options{Exclusive: true})
	namespace := r.Namespace(t)
	early := r.create(t, refusing(t, namespace, "early"))
	earlyExemption := r.create(t, exemptingIn(t, namespace, "early-exemption", "honest"))
	process := r.serve(t)

	honest := r.enforce(t, refusing(t, namespace, "honest"))
	if _, err := r.try(testContext(t), configMap(t, namespace, "honest")); wantDenied(err, "refused by honest") != nil {
		t.Errorf("an exemption from before the installation: %v", err)
	}
	r.unproven(t, early, earlyExemption)

	process.Stop()
	r.removeEntries(t)
	var late *unstructured.Unstructured
	// API servers forget webhooks a moment after their configuration is deleted.
	eventually(t, "a policy to be stored past Usher", func() error {
		resource, err := r.of(early)
		if err == nil {
			late, err = resource.Create(testContext(t), refusing(t, namespace, "late"), metav1.CreateOptions{})
		}
		return err
	})
	lateExemption := r.create(t, exemptingIn(t, namespace, "late-exemption", "honest"))
	r.serve(t)
	r.awaitProven(t, honest, "True", "True")
	r.unproven(t, early, earlyExemption, late, lateExemption)
	if _, err := r.try(testContext(t), configMap(t, namespace, "honest")); wantDenied(err, "refused by honest") != nil {
		t.Errorf("an exemption from while Usher was not asked: %v", err)
	}

	if out, code := r.authz(t, "adopt", "--all", "-n", namespace); code != 0 || strings.Count(out, "adopted ") != 4 {
		t.Fatalf("adopt: exit status %d:\n%s", code, out)
	}
	for _, policy := range []*unstructured.Unstructured{early, late} {
		r.awaitProven(t, policy, "True", "True")
		if _, err := r.try(testContext(t), configMap(t, namespace, policy.GetName())); wantDenied(err, "refused by "+policy.GetName()) != nil {
			t.Errorf("%s, adopted: %v", policy.GetName(), err)
		}
	}
	eventually(t, "the adopted exemptions to be in force", func() error {
		_, err := r.try(testContext(t), configMap(t, namespace, "honest"))
		return err
	})
}

// unproven waits until status says that policies and exemptions are not in force, and tries the policies.
func (r *rig) unproven(t *testing.T, objects ...*unstructured.Unstructured) {
	t.Helper()
	for _, o := range objects {
		current := r.awaitCondition(t, o, "Proven", "False")
		if got := conditionOf(current, "Proven"); !strings.Contains(got, "not in force: ") {
			t.Errorf("%s %s: %s", o.GetKind(), o.GetName(), got)
		}
		if o.GetKind() != "ObjectPolicy" {
			continue
		}
		r.awaitCondition(t, o, "Enforced", "False")
		if _, err := r.try(testContext(t), configMap(t, o.GetNamespace(), o.GetName())); err != nil {
			t.Errorf("%s is in force: %v", o.GetName(), err)
		}
	}
}
