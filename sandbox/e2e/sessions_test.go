package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// kubectl creates an object with kubectl, as a user unless that is empty, and returns what is
// printed. Without kubectl the test is skipped.
func (r *rig) kubectl(t *testing.T, user string, object *unstructured.Unstructured) (printed string, err error) {
	t.Helper()
	path, err := exec.LookPath("kubectl")
	if err != nil {
		t.Skip("kubectl is not installed")
	}
	written, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"create", "--kubeconfig", r.Kubeconfig, "-f", "-"}
	if user != "" {
		args = append(args, "--as", user, "--as-group", "system:authenticated")
	}
	command := exec.CommandContext(testContext(t), path, args...)
	command.Stdin = bytes.NewReader(written)
	out, err := command.CombinedOutput()
	return string(out), err
}

// onHost is a pod that uses the host's network.
func onHost(t *testing.T, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	p := pod(t, namespace, name)
	if err := unstructured.SetNestedField(p.Object, true, "spec", "hostNetwork"); err != nil {
		t.Fatal(err)
	}
	return p
}

// offHost is an object policy against that.
func offHost(t *testing.T, kind, metadata, namespace, actions string) *unstructured.Unstructured {
	t.Helper()
	return parse(t, `
apiVersion: usher.dev/v1alpha1
kind: %s
metadata: %s
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %q}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations:
  - {name: host-network, expression: "!object.spec.?hostNetwork.orValue(false)", message: no host network, fieldPath: spec.hostNetwork}
  bindings: [{validationActions: %s}]
`, kind, metadata, namespace, actions)
}

// TestWarnLookDeny is the session of an operator: a policy warns, its users see what they have to
// change, and then it denies.
func TestWarnLookDeny(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	namespace := r.Namespace(t)
	metadata := fmt.Sprintf("{name: %q}", namespace)
	r.enforce(t, offHost(t, "ClusterObjectPolicy", metadata, namespace, "[Warn]"))
	web := onHost(t, namespace, "web")
	printed, err := r.kubectl(t, "", web)
	t.Cleanup(func() { r.remove(web) })
	want := fmt.Sprintf("Warning: no host network (ClusterObjectPolicy %s)\npod/web created\n", namespace)
	if err != nil || printed != want {
		t.Errorf("with Warn: %v, kubectl prints\n%s\nwant\n%s", err, printed, want)
	}

	r.enforce(t, offHost(t, "ClusterObjectPolicy", metadata, namespace, "[Deny]"))
	printed, err = r.kubectl(t, "", onHost(t, namespace, "again"))
	want = fmt.Sprintf(`The Pod "again" is invalid: spec.hostNetwork: no host network (ClusterObjectPolicy %s)`, namespace)
	if err == nil || strings.TrimSpace(printed) != want {
		t.Errorf("with Deny: %v, kubectl prints\n%s\nwant\n%s", err, printed, want)
	}
	printed, err = r.kubectl(t, "", parse(t, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: %q}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {hostNetwork: true, containers: [{name: main, image: registry.example/web}]}
`, namespace))
	want = fmt.Sprintf("Warning: Deployment %s/web: spec.template.spec.hostNetwork: no host network (ClusterObjectPolicy %[1]s; its pods would be denied)\n", namespace)
	if err != nil || !strings.Contains(printed, want) {
		t.Errorf("a Deployment: %v, kubectl prints\n%s\nwant\n%s", err, printed, want)
	}
}

// TestTenantWritesAPolicy is the session of a tenant, who has rights in one namespace only.
func TestTenantWritesAPolicy(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	namespace, other := r.Namespace(t), r.Namespace(t)
	tenant := "tenant-" + namespace
	r.grant(t, tenant, namespace, `[
		{apiGroups: [usher.dev], resources: [objectpolicies], verbs: ['*']},
		{apiGroups: [''], resources: [pods], verbs: [get, list, create, update, delete]}]`)
	policy := func(name string) *unstructured.Unstructured {
		return offHost(t, "ObjectPolicy", fmt.Sprintf("{name: %s, namespace: %q}", name, namespace), namespace, "[Deny]")
	}
	own := policy("own")
	eventually(t, "the policy is accepted", func() error {
		if printed, err := r.kubectl(t, tenant, own); err != nil {
			return fmt.Errorf("%w: %s", err, printed)
		}
		return nil
	})
	t.Cleanup(func() { r.remove(own) })
	r.awaitCondition(t, own, "Proven", "True")
	r.awaitCondition(t, own, "Enforced", "True")

	for resource, told := range map[string]string{
		"configmaps": "needs permission to create configmaps in",
		"secrets":    "needs permission to create secrets in",
	} {
		attack := policy("attack")
		rules := []any{map[string]any{"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE"}, "resources": []any{resource}}}
		if err := unstructured.SetNestedSlice(attack.Object, rules, "spec", "matchConstraints", "resourceRules"); err != nil {
			t.Fatal(err)
		}
		if err := unstructured.SetNestedSlice(attack.Object, []any{map[string]any{"expression": "false"}}, "spec", "validations"); err != nil {
			t.Fatal(err)
		}
		if printed, err := r.kubectl(t, tenant, attack); err == nil || !strings.Contains(printed, told) {
			t.Errorf("a policy for %s: %v, kubectl prints\n%s\nwant %q", resource, err, printed, told)
		}
	}

	printed, err := r.kubectl(t, tenant, onHost(t, namespace, "web"))
	want := fmt.Sprintf(`The Pod "web" is invalid: spec.hostNetwork: no host network (ObjectPolicy %s/own)`, namespace)
	if err == nil || strings.TrimSpace(printed) != want {
		t.Errorf("in the namespace: %v, kubectl prints\n%s\nwant\n%s", err, printed, want)
	}
	if _, err := r.try(testContext(t), onHost(t, other, "web")); err != nil {
		t.Errorf("in another namespace: %v", err)
	}
}
