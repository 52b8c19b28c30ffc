package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
)

// TestLibraryTry tries policies on the objects of a cluster, with the rights of users who may only
// read.
func TestLibraryTry(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	shop, empty := r.Namespace(t), r.Namespace(t)
	r.create(t, pod(t, shop, "cart"))
	r.create(t, parse(t, "{apiVersion: v1, kind: Service, metadata: {name: web, namespace: %s}, spec: {type: NodePort, ports: [{port: 80}]}}", shop))
	reader, tenant := "reader-"+shop, "tenant-"+shop
	rules := `[{apiGroups: [""], resources: [%s], verbs: [get, list]}, {apiGroups: [apps, batch], resources: ["*"], verbs: [get, list]}]`
	r.grant(t, reader, "", fmt.Sprintf(rules, "pods, services, namespaces, replicationcontrollers, podtemplates"))
	r.grant(t, tenant, shop, fmt.Sprintf(rules, "pods, replicationcontrollers, podtemplates"))
	theirs := map[string]string{"admin": r.Kubeconfig, "reader": r.impersonate(t, reader), "tenant": r.impersonate(t, tenant)}
	eventually(t, "the rights are known", func() error {
		_, err := r.as(t, reader).kube.CoreV1().Services(shop).List(testContext(t), metav1.ListOptions{})
		if err == nil {
			_, err = r.as(t, tenant).kube.CoreV1().Pods(shop).List(testContext(t), metav1.ListOptions{})
		}
		return err
	})
	for _, row := range []struct {
		reason, user string
		args         []string
		code         int
		// out and err are parts of the output, each line of them; not is not.
		out, err, not string
	}{
		{"a namespace", "reader", []string{"service-types", "dns-ndots", "-n", shop}, 1, "v1 Service " + shop + "/web\nspec.type: a Service has the type ClusterIP\nwould change dns-ndots\nservice-types " + shop + " 1 0\ndns-ndots " + shop + " 0 0 1\n2 policies tried on 2 objects of 2 kinds: 1 would be refused, 1 changed", "", "not tried"},
		{"params", "reader", []string{"service-types", "-n", shop, "--params", "types=[NodePort]"}, 0, "1 policy tried on 1 object of 1 kind: 0 would be refused, 0 changed", "", "would refuse"},
		{"nothing", "reader", []string{"service-types", "pod-security-baseline", "-n", empty}, 0, "13 policies tried on 0 objects", "", "would refuse"},
		{"all namespaces", "reader", []string{"service-types"}, 1, "v1 Service " + shop + "/web\nservice-types " + shop + " 1 0", "", "not tried"},
		{"a kind that the user may not read", "tenant", []string{"service-types", "pod-security-restricted", "-n", shop}, 1, "v1 Pod " + shop + "/cart\n1 would be refused", "services", "Service " + shop},
		{"policies about requests", "admin", []string{"created-by", "-n", empty}, 0, "not tried: created-by: it depends on the user who sends the request", "", ""},
		{"who makes requests", "admin", []string{"service-types", "--as", "jane"}, 2, "", "--as is for objects of files", ""},
	} {
		stdout, stderr, code := run(t, append([]string{"library", "try", "--from-cluster", "--kubeconfig", theirs[row.user]}, row.args...)...)
		if code != row.code {
			t.Errorf("%s: exit status %d, expected %d: %s%s", row.reason, code, row.code, stdout, stderr)
		}
		for _, check := range []struct{ got, want string }{{stdout, row.out}, {stderr, row.err}} {
			for line := range strings.SplitSeq(check.want, "\n") {
				if !strings.Contains(strings.Join(strings.Fields(check.got), " "), line) {
					t.Errorf("%s: the output does not have %q:\n%s", row.reason, line, check.got)
				}
			}
		}
		if row.not != "" && strings.Contains(stdout, row.not) {
			t.Errorf("%s: the output has %q:\n%s", row.reason, row.not, stdout)
		}
	}
	stdout, stderr, code := run(t, "library", "try", "service-types", "--from-cluster", "--kubeconfig", r.Kubeconfig, "-n", shop, "-o", "json")
	var report struct {
		Objects []struct {
			Object struct{ Kind, Name string }
			Says   []struct{ Policy, Field string }
		}
		Policies []struct {
			Policy, Namespace string
			Refused           int
		}
		Read, Refused int
	}
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || code != 1 || report.Read != 1 || report.Refused != 1 ||
		len(report.Objects) != 1 || report.Objects[0].Object.Name != "web" || len(report.Policies) != 1 || report.Policies[0].Namespace != shop {
		t.Errorf("exit status %d, %v: %s%s", code, err, stdout, stderr)
	}
}

// ownPack writes a pack with one policy for the Services of a namespace.
func ownPack(t *testing.T, name, namespace, version, message string) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), name)
	if err := os.MkdirAll(filepath.Join(folder, "cases"), 0o700); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		"pack.yaml": fmt.Sprintf(`{apiVersion: usher.dev/v1alpha1, kind: PolicyPack, metadata: {name: %s}, title: t, description: d, version: %q, kubernetes: ">=1.30", policies: [types]}`, name, version),
		"types.yaml": fmt.Sprintf(`
apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: %s-types}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [services]}]
    namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [%s]}]}
  validations: [{expression: "object.spec.?type.orValue('ClusterIP') in params.types", message: %q}]
  bindings: [{name: everywhere, validationActions: [Warn], params: {types: [ClusterIP]}}]
`, name, namespace, message),
		"cases/types.yaml": "",
	} {
		if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// TestLibraryInstall installs a pack, has it warn and refuse, brings it up to date after others have
// changed it, and removes it.
func TestLibraryInstall(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	namespace := r.Namespace(t)
	pack := "own-" + namespace
	policy := parse(t, "{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: %s-types}}", pack)
	policies, err := r.of(policy)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.remove(policy) })
	first, second := ownPack(t, pack, namespace, "1.0.0", "first text"), ownPack(t, pack, namespace, "1.1.0", "second text")
	install := func(reason, folder, kubeconfig string, code int, out, says string, args ...string) {
		t.Helper()
		stdout, stderr, got := run(t, append([]string{"library", "install", pack, "--packs", folder, "--apply", "--kubeconfig", kubeconfig}, args...)...)
		if got != code || !strings.Contains(stdout, out) || !strings.Contains(stderr, says) {
			t.Fatalf("%s: exit status %d, expected %d; expected %q and %q:\n%s%s", reason, got, code, out, says, stdout, stderr)
		}
	}
	stored := func() *unstructured.Unstructured {
		t.Helper()
		found, err := policies.Get(testContext(t), policy.GetName(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	reader := "reader-" + namespace
	r.grant(t, reader, "", `[{apiGroups: [usher.dev], resources: [clusterobjectpolicies], verbs: [get]}]`)
	eventually(t, "the rights are known", func() error {
		_, err := r.as(t, reader).dynamic.Resource(v1alpha1.GroupVersion.WithResource("clusterobjectpolicies")).Get(testContext(t), "none", metav1.GetOptions{})
		if err != nil && strings.Contains(err.Error(), "not found") {
			return nil
		}
		return orNil(err)
	})
	install("a user without rights", first, r.impersonate(t, "nobody-"+namespace), 2, "", "--apply needs the verbs get, list, create and patch for clusterobjectpolicies.usher.dev")
	install("a user who may not write", first, r.impersonate(t, reader), 2, "", "--apply needs the verbs get, list, create and patch for clusterobjectpolicies.usher.dev")
	install("a dry run", first, r.Kubeconfig, 0, "name: "+policy.GetName(), "would apply "+policy.GetName(), "--dry-run")
	if _, err := policies.Get(testContext(t), policy.GetName(), metav1.GetOptions{}); err == nil {
		t.Fatal("a dry run has written the policy")
	}
	install("a new policy", first, r.Kubeconfig, 0, "applied "+policy.GetName(), "")
	if managers := stored().GetManagedFields(); !slices.ContainsFunc(managers, func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager == "usher-library" && m.Operation == metav1.ManagedFieldsOperationApply
	}) {
		t.Errorf("the field managers are %v", managers)
	}
	r.awaitCondition(t, stored(), "Enforced", "True")
	r.warned(t, namespace, "first text")
	install("again", first, r.Kubeconfig, 0, policy.GetName()+" unchanged", "")

	// The binding now denies in place of warning, and somebody has written another message.
	edit := `{"metadata": {"labels": {"team": "web"}}, "spec": {"bindings": [{"name": "everywhere", "validationActions": ["Deny"], "params": {"types": ["ExternalName"]}}], "validations": [{"expression": "false", "message": "edited"}]}}`
	if _, err := policies.Patch(testContext(t), policy.GetName(), types.MergePatchType, []byte(edit), metav1.PatchOptions{FieldManager: "kubectl-edit"}); err != nil {
		t.Fatal(err)
	}
	generation := stored().GetGeneration()
	install("a dry run of an update", second, r.Kubeconfig, 0, "ExternalName", "version 1.0.0 to 1.1.0", "--dry-run")
	if stored().GetGeneration() != generation {
		t.Error("a dry run has changed the policy")
	}
	install("another version", second, r.Kubeconfig, 0, "applied "+policy.GetName(), "edited")
	r.awaitCondition(t, stored(), "Enforced", "True")
	eventually(t, "the new version to deny", func() error {
		_, err := r.try(testContext(t), service(t, namespace, "ClusterIP"))
		return wantDenied(err, "second text")
	})
	if got := stored(); got.GetLabels()["team"] != "web" || got.GetAnnotations()["usher.dev/pack-version"] != "1.1.0" {
		t.Errorf("metadata: %v, %v", got.GetLabels(), got.GetAnnotations())
	}

	// What docs/library.md says about removing a pack.
	if err := policies.DeleteCollection(testContext(t), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "usher.dev/pack=" + pack}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the policy to stop", func() error {
		_, err := r.try(testContext(t), service(t, namespace, "ClusterIP"))
		return err
	})
	r.create(t, parse(t, `
apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: %s}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [services]}]
    namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [%s]}]}
  validations: [{expression: "true"}]
  bindings: [{name: everywhere, validationActions: [Warn]}]
`, policy.GetName(), namespace))
	install("a policy of somebody else", second, r.Kubeconfig, 1, "", "not of a pack")
	if got := stored(); got.GetLabels()["usher.dev/pack"] != "" || got.GetAnnotations()["usher.dev/pack-version"] != "" {
		t.Errorf("the policy of somebody else has changed: %v", got.Object)
	}
}

func service(t *testing.T, namespace, kind string) *unstructured.Unstructured {
	t.Helper()
	return parse(t, "{apiVersion: v1, kind: Service, metadata: {name: tried, namespace: %s}, spec: {type: %s, ports: [{port: 80}]}}", namespace, kind)
}

// warned waits until a user is warned of a Service, and fails if it is refused.
func (r *rig) warned(t *testing.T, namespace, message string) {
	t.Helper()
	config, h := r.listening()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	services := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "services"}).Namespace(namespace)
	eventually(t, "the warning", func() error {
		if _, err := services.Create(testContext(t), service(t, namespace, "NodePort"), metav1.CreateOptions{DryRun: dryRun}); err != nil {
			t.Fatal(err)
		}
		if said := h.take(); !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, message) }) {
			return fmt.Errorf("warnings are %q", said)
		}
		return nil
	})
}
