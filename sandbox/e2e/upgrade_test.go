package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/usher-dev/usher/sandbox"
	"github.com/usher-dev/usher/sandbox/internal/usher"
)

// recent are the resources that the release before does not have.
var recent = []string{"clusterobjectpolicies", "clusterpolicycandidates", "clusterpolicyexemptions", "objectpolicies", "policycandidates", "policyexemptions"}

// TestUpgradeOfTheImageOnly runs this version with the CRDs and the ClusterRole of the release
// before, as after an upgrade of the image only: Helm does not upgrade CRDs. What that release had
// works, and what is missing is told and read as soon as it is there.
func TestUpgradeOfTheImageOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, sandbox.Options{Exclusive: true})
	r.removeCRDs(t, recent...)
	r.older(t, "clustervalidatepolicies.policy.kcloudlabs.io")
	r.applyRights(t, root, without)
	namespace := r.Namespace(t)
	process := r.launch(t, r.kubeconfigAs(t, "system:serviceaccount:"+usher.Namespace+":usher"))
	if err := process.WaitReady(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if err := process.WaitRegistered(testContext(t), r.RESTConfig); err != nil {
		t.Fatal(err)
	}
	r.process = process
	r.enforce(t, labelling(t, namespace, namespace, "works"))
	r.acting(t, namespace, "works")
	r.told(t, "forbidden", len(recent), "ObjectPolicy: Usher may not read them: apply the chart of this version")
	r.told(t, "older", 1, "ClusterValidatePolicy: its CRD lacks status.problems, which the API server drops: apply the CRDs of this version")
	r.commands(t, namespace,
		[]string{"decide", "--from-cluster"}, []string{"authz", "adopt"}, []string{"authz", "adopt", "--all", "--dry-run"},
		[]string{"authz", "can-i", "get", "pods", "--as", "jane"})

	r.applyRights(t, root, nil)
	r.told(t, "absent", len(recent), "PolicyExemption: the cluster has no such kind: apply the CRDs of this version")
	r.acting(t, namespace, "works")

	if err := usher.InstallCRDs(testContext(t), r.RESTConfig, filepath.Join(root, "deploy", "crds")); err != nil {
		t.Fatal(err)
	}
	r.told(t, "read", 11, "")
	r.acting(t, namespace, "works")

	// And back: the kinds go with their policies, the others stay.
	r.removeCRDs(t, recent...)
	r.told(t, "absent", len(recent), "ClusterObjectPolicy: the cluster has no such kind")
	r.acting(t, namespace, "works")
	process.Stop()
	r.commands(t, namespace, []string{"uninstall"})
}

// told waits until the metric and /readyz?verbose say in which state kinds are.
func (r *rig) told(t *testing.T, state string, kinds int, line string) {
	t.Helper()
	// Busy API servers are slow to serve the schemas of CRDs that changed.
	within(t, 3*deadline, fmt.Sprintf("%d kinds are %s", kinds, state), func() error {
		text := verbose(r.process)
		if !strings.Contains(text, line) {
			return fmt.Errorf("no %q in\n%s", line, text)
		}
		if got := sum(t, r.process, "usher_policy_kinds", `state="`+state+`"`); got != float64(kinds) {
			return fmt.Errorf("the metric is %v, and readyz says\n%s", got, text)
		}
		return nil
	})
}

// commands runs commands that list policies of all kinds.
func (r *rig) commands(t *testing.T, namespace string, commands ...[]string) {
	t.Helper()
	binary, err := usherBinary()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "object.yaml")
	text := fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: %s}}", namespace)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range commands {
		if command[0] == "decide" {
			command = append(command, "-f", file)
		}
		out, err := exec.Command(binary, append(command, "--kubeconfig", r.Kubeconfig)...).CombinedOutput()
		if code := exitCode(err); code < 0 || code > 1 || strings.Contains(string(out), "could not find") {
			t.Errorf("%s: exit status %d\n%s", strings.Join(command, " "), code, out)
		}
	}
}

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// removeCRDs removes kinds of usher.dev.
func (r *rig) removeCRDs(t *testing.T, resources ...string) {
	t.Helper()
	for _, resource := range resources {
		// An API server that is still starting to store objects of a kind keeps a CRD that is deleted.
		kind := schema.GroupVersionResource{Group: "usher.dev", Version: "v1alpha1", Resource: resource}
		if _, err := r.dynamic.Resource(kind).List(testContext(t), metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := r.dynamic.Resource(definitions).Delete(testContext(t), resource+".usher.dev", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, resource := range resources {
		eventually(t, resource+" are not served", func() error {
			_, err := r.dynamic.Resource(schema.GroupVersionResource{Group: "usher.dev", Version: "v1alpha1", Resource: resource}).List(testContext(t), metav1.ListOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("list: %w", orNil(err))
		})
	}
}

// older removes a field from a CRD.
func (r *rig) older(t *testing.T, name string) {
	t.Helper()
	crds := r.dynamic.Resource(definitions)
	crd, err := crds.Get(testContext(t), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	unstructured.RemoveNestedField(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "status", "properties", "problems")
	if err := unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	if _, err := crds.Update(testContext(t), crd, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// applyRights applies the roles in the manifests of a source tree, after a change of each rule, unless that is nil.
func (r *rig) applyRights(t *testing.T, source string, change func(rule map[string]any)) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(source, "deploy", "manifests", "usher.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range documents(t, text) {
		switch object.GetKind() {
		case "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding":
		default:
			continue
		}
		if rules, ok, _ := unstructured.NestedSlice(object.Object, "rules"); ok && change != nil {
			for _, rule := range rules {
				change(rule.(map[string]any))
			}
			if err := unstructured.SetNestedSlice(object.Object, rules, "rules"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := r.apply(testContext(t), object); err != nil {
			t.Fatal(err)
		}
	}
}

// without removes the recent kinds from a rule.
func without(rule map[string]any) {
	resources, _, _ := unstructured.NestedStringSlice(rule, "resources")
	resources = slices.DeleteFunc(resources, func(name string) bool {
		name, _, _ = strings.Cut(name, "/")
		return slices.Contains(recent, name)
	})
	rule["resources"] = make([]any, len(resources))
	for i := range resources {
		rule["resources"].([]any)[i] = resources[i]
	}
}

// kubeconfigAs is a kubeconfig that acts as a service account.
func (r *rig) kubeconfigAs(t *testing.T, account string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(r.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range config.AuthInfos {
		info.Impersonate = account
		info.ImpersonateGroups = []string{"system:serviceaccounts", "system:authenticated"}
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}
