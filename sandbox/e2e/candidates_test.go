package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/usher-dev/usher/sandbox"
)

// labelled is an object policy about ConfigMaps of a namespace that have the label x.
func labelled(t *testing.T, namespace, action string) *unstructured.Unstructured {
	t.Helper()
	return parse(t, `
apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: %[1]q}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]q}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  validations: [{expression: "!('x' in object.metadata.?labels.orValue({}))", message: no x}]
  bindings: [{validationActions: [%[2]s]}]
`, namespace, action)
}

// withoutSecrets refuses all Secrets of a namespace.
func withoutSecrets(t *testing.T, namespace string) *unstructured.Unstructured {
	t.Helper()
	return parse(t, `
apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: %[1]s-secrets}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]q}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [secrets]}]
  validations: [{expression: "false", message: no secrets}]
`, namespace)
}

// candidateOf embeds policies in a candidate.
func candidateOf(t *testing.T, kind, metadata string, replaces map[string]any, policies ...*unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	c := parse(t, `{apiVersion: usher.dev/v1alpha1, kind: %s, metadata: %s, spec: {}}`, kind, metadata)
	spec := map[string]any{}
	if replaces != nil {
		spec["replaces"] = replaces
	}
	var all []any
	for _, p := range policies {
		all = append(all, p.Object)
	}
	if all != nil {
		spec["policies"] = all
	} else {
		spec["remove"] = true
	}
	c.Object["spec"] = spec
	return c
}

// awaitCounts waits until the status of a candidate has numbers. They are written at most once a minute: the first time perhaps
// before the last request.
func (r *rig) awaitCounts(t *testing.T, candidate *unstructured.Unstructured, want map[string]int64) {
	t.Helper()
	client, err := r.of(candidate)
	if err != nil {
		t.Fatal(err)
	}
	within(t, 2*time.Minute, "counts of the candidate", func() error {
		stored, err := client.Get(testContext(t), candidate.GetName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		for field, n := range want {
			if got, _, err := unstructured.NestedInt64(stored.Object, "status", field); err != nil || got != n {
				return fmt.Errorf("%s is %d, not %d: %v", field, got, n, stored.Object["status"])
			}
		}
		return nil
	})
}

// TestCandidate is the session of an operator: a stricter version of a policy, and a new one about
// something that is not sent otherwise, are evaluated without effect, counted, and then enforced.
func TestCandidate(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	ctx := testContext(t)
	namespace := r.Namespace(t)
	r.enforce(t, labelled(t, namespace, "Warn"))
	secrets := withoutSecrets(t, namespace)
	stricter := candidateOf(t, "ClusterPolicyCandidate", fmt.Sprintf("{name: stricter-%s}", namespace), map[string]any{"kind": "ClusterObjectPolicy", "name": namespace}, labelled(t, namespace, "Deny"))
	another := candidateOf(t, "ClusterPolicyCandidate", fmt.Sprintf("{name: another-%s}", namespace), nil, secrets)
	for _, c := range []*unstructured.Unstructured{stricter, another} {
		r.create(t, c)
		r.awaitCondition(t, c, "Proven", "True")
		r.awaitCondition(t, c, "Evaluated", "True")
	}
	for i := range 5 {
		o := configMap(t, namespace, fmt.Sprint("a", i))
		if i < 3 {
			o.SetLabels(map[string]string{"x": ""})
		}
		r.create(t, o)
		r.create(t, parse(t, `{apiVersion: v1, kind: Secret, metadata: {name: s%d, namespace: %s}}`, i, namespace))
	}
	r.awaitCounts(t, stricter, map[string]int64{"seen": 5, "newlyDenied": 3, "newlyAllowed": 0, "skipped": 0, "errors": 0})
	r.awaitCounts(t, another, map[string]int64{"seen": 5, "newlyDenied": 5, "skipped": 0})
	r.promotes(t, stricter, 2, "--apply", "--namespace", namespace)
	r.promotes(t, stricter, 0)
	r.promotes(t, stricter, 0, "--apply")
	eventually(t, "the stricter version is in force", func() error {
		o := configMap(t, namespace, "late")
		o.SetLabels(map[string]string{"x": ""})
		_, err := r.try(ctx, o)
		return wantDenied(err, "no x")
	})
	client, err := r.of(stricter)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Get(ctx, stricter.GetName(), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the candidate is still there: %v", err)
	}
	// One that is written again is compared with the new version.
	r.create(t, stricter)
	r.awaitCondition(t, stricter, "Evaluated", "True")
	r.awaitCounts(t, stricter, map[string]int64{"newlyDenied": 0})
	// The removal of the other is one, too.
	r.promotes(t, another, 0, "--apply")
	removal := candidateOf(t, "ClusterPolicyCandidate", fmt.Sprintf("{name: removal-%s}", namespace), map[string]any{"kind": "ClusterObjectPolicy", "name": secrets.GetName()})
	r.create(t, removal)
	r.awaitCondition(t, removal, "Evaluated", "True")
	// Its numbers are not written within the first minute.
	r.promotes(t, removal, 0, "--apply", "--force")
	if client, err = r.of(secrets); err == nil {
		_, err = client.Get(ctx, secrets.GetName(), metav1.GetOptions{})
	}
	if !apierrors.IsNotFound(err) {
		t.Errorf("the policy is still there: %v", err)
	}
}

// promotes runs usher promote.
func (r *rig) promotes(t *testing.T, candidate *unstructured.Unstructured, status int, args ...string) {
	t.Helper()
	binary, err := usherBinary()
	if err != nil {
		t.Fatal(err)
	}
	args = append([]string{"promote", candidate.GetName(), "--kubeconfig", r.Kubeconfig}, args...)
	command := exec.CommandContext(testContext(t), binary, args...)
	out, err := command.CombinedOutput()
	if command.ProcessState == nil || command.ProcessState.ExitCode() != status {
		t.Fatalf("usher %q: %v, not status %d:\n%s", args, err, status, out)
	}
	t.Logf("usher %q:\n%s", args, out)
}

// TestCandidateOfTenants: who writes a candidate needs the rights that its policies need.
func TestCandidateOfTenants(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	ctx := testContext(t)
	namespace := r.Namespace(t)
	own := parse(t, `
apiVersion: usher.dev/v1alpha1
kind: ObjectPolicy
metadata: {name: own, namespace: %[1]q}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [secrets]}]}
  validations: [{expression: "false", message: "no"}]
`, namespace)
	jane := "jane-" + namespace
	r.grant(t, jane, namespace, `[{verbs: [get, list, create, update], apiGroups: [usher.dev], resources: [policycandidates]}]`)
	client, err := r.as(t, jane).of(candidateOf(t, "PolicyCandidate", fmt.Sprintf("{name: c, namespace: %s}", namespace), nil, own))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "jane's rights", func() error {
		_, err := client.List(ctx, metav1.ListOptions{})
		return err
	})
	refused := func(want string) {
		t.Helper()
		_, err := client.Create(ctx, candidateOf(t, "PolicyCandidate", fmt.Sprintf("{name: c, namespace: %s}", namespace), nil, own), metav1.CreateOptions{})
		if !apierrors.IsForbidden(err) {
			err = errors.Join(err, errors.New("it is not refused"))
		}
		if err := wantDenied(err, want); err != nil {
			t.Error(err)
		}
	}
	refused("spec.policies[0] needs permission to create objectpolicies.usher.dev in " + namespace)
}

// TestCandidateOfTenant: a tenant tries a policy in a namespace, sees which requests it would deny,
// and puts it into force; nobody needs a right in another namespace for that.
func TestCandidateOfTenant(t *testing.T) {
	t.Parallel()
	r := newRig(t, sandbox.Options{Exclusive: true})
	address := "127.0.0.1:" + freePort(t)
	r.serve(t, "--api-address", address)
	ctx := testContext(t)
	namespace := r.Namespace(t)
	jane := "jane-" + namespace
	r.grant(t, jane, namespace, `[{verbs: ["*"], apiGroups: [usher.dev], resources: [policycandidates, objectpolicies, candidatedecisions]}, {verbs: [create, list], apiGroups: [""], resources: [configmaps]}]`)
	tenant := r.as(t, jane)
	own := parse(t, `
apiVersion: usher.dev/v1alpha1
kind: ObjectPolicy
metadata: {name: owned, namespace: %[1]q}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  validations: [{expression: "'owner' in object.metadata.?labels.orValue({})", message: label owner is required}]
`, namespace)
	candidate := candidateOf(t, "PolicyCandidate", fmt.Sprintf("{name: owned, namespace: %s}", namespace), nil, own)
	client, err := tenant.of(candidate)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "jane's rights", func() error {
		_, err := client.Create(ctx, candidate, metav1.CreateOptions{})
		return err
	})
	r.awaitCondition(t, candidate, "Evaluated", "True")
	tenant.create(t, configMap(t, namespace, "unowned"))
	r.awaitCounts(t, candidate, map[string]int64{"newlyDenied": 1, "newlyAllowed": 0, "skipped": 0})

	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, readFile(t, r.process.CAFile()), 0o600); err != nil {
		t.Fatal(err)
	}
	watched := func(namespace string) string {
		out, failures, _ := run(t, "watch", "--candidates", "--denied", "--explain", "--once", "-n", namespace,
			"--server", "https://"+address, "--ca-file", ca, "--kubeconfig", r.Kubeconfig)
		return out + failures
	}
	eventually(t, "the request is among those that differ", func() error {
		out := watched(namespace)
		for _, want := range []string{"denied+ CREATE ConfigMap " + namespace + "/unowned " + jane, "PolicyCandidate " + namespace + "/owned", "usher exempt"} {
			if !strings.Contains(out, want) {
				return fmt.Errorf("there is no %q:\n%s", want, out)
			}
		}
		return nil
	})
	if out := watched(r.Namespace(t)); strings.Contains(out, "unowned") {
		t.Errorf("another namespace has it, too:\n%s", out)
	}

	out, failures, code := run(t, "promote", "owned", "-n", namespace, "--apply", "--kubeconfig", r.impersonate(t, jane))
	if code != 0 {
		t.Fatalf("promote: %d: %s%s", code, out, failures)
	}
	eventually(t, "the policy is in force", func() error {
		_, err := tenant.try(ctx, configMap(t, namespace, "late"))
		return wantDenied(err, "label owner is required")
	})
	if _, err := client.Get(ctx, candidate.GetName(), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the candidate is still there: %v", err)
	}
}

// TestCandidateForAPIServers: a policy that API servers enforce themselves is tried with its binding.
func TestCandidateForAPIServers(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	ctx := testContext(t)
	namespace := r.Namespace(t)
	policy := parse(t, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %q}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  validations: [{expression: "!('x' in object.metadata.?labels.orValue({}))", message: no x}]
`, namespace)
	binding := parse(t, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]q}
spec:
  policyName: %[1]q
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]q}}}
`, namespace)
	candidate := candidateOf(t, "ClusterPolicyCandidate", fmt.Sprintf("{name: bound-%s}", namespace), nil, policy, binding)
	r.create(t, candidate)
	r.awaitCondition(t, candidate, "Evaluated", "True")
	marked := func(name string) *unstructured.Unstructured {
		o := configMap(t, namespace, name)
		o.SetLabels(map[string]string{"x": ""})
		return o
	}
	r.create(t, marked("marked"))
	r.create(t, configMap(t, namespace, "plain"))
	r.awaitCounts(t, candidate, map[string]int64{"seen": 2, "newlyDenied": 1, "skipped": 0})
	r.promotes(t, candidate, 0, "--apply")
	t.Cleanup(func() { r.remove(binding); r.remove(policy) })
	eventually(t, "API servers enforce it", func() error {
		_, err := r.try(ctx, marked("late"))
		if err == nil || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy '"+namespace+"'") {
			return fmt.Errorf("got %w, want a denial", orNil(err))
		}
		return nil
	})
}
