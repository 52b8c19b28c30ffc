package doors

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/sandbox"
)

// admissionConfiguration writes one for the plugin, and returns its path.
func admissionConfiguration(t *testing.T, usher string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "admission.yaml")
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- name: Usher\n  configuration:\n" +
		"    apiVersion: apiserver.usher.dev/v1alpha1\n    kind: UsherConfiguration\n    " + usher + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func folder(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(policies)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestPluginIsSwitchedOff has the plugin, and a flag of kube-apiserver against it.
func TestPluginIsSwitchedOff(t *testing.T) {
	t.Parallel()
	r := newRig(t, sandbox.Options{
		Controllers: "none", Plugin: &sandbox.Plugin{Policies: []string{folder(t)}},
		APIServerArgs: []string{"--disable-admission-plugins=Usher"}, Exclusive: true,
	}, nil)
	created, err := r.kube.CoreV1().ConfigMaps(r.Namespace(t)).Create(testContext(t), configMap("site", "password"), metav1.CreateOptions{})
	if err != nil || created.Labels != nil {
		t.Errorf("created %v, %v; want it left alone", created, err)
	}
}

// TestPluginIsSwitchedOn configures the plugin as any other one, by flag and file.
func TestPluginIsSwitchedOn(t *testing.T) {
	t.Parallel()
	r := newRig(t, sandbox.Options{
		Controllers: "none", AdmissionConfig: admissionConfiguration(t, "policies: ["+folder(t)+"]"),
		APIServerArgs: []string{"--enable-admission-plugins=Usher"}, Exclusive: true,
	}, nil)
	r.awaitPolicies(t)
	_, err := r.kube.CoreV1().ConfigMaps(r.Namespace(t)).Create(testContext(t), configMap("site", "password"), metav1.CreateOptions{})
	wantDenied(t, "create", err, noPasswords)
}

// TestPluginRefusesWhatItDoesNotKnow starts with a mistyped configuration: it must not go
// unnoticed.
func TestPluginRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	up := sandbox.Binary(t)
	for usher, want := range map[string]string{
		"polices: [x]":                      `unknown field "polices"`,
		"policies: [/nowhere]":              "load policies: stat /nowhere",
		"failurePolicy: Maybe":              `failurePolicy is "Maybe": write Fail or Ignore`,
		"fromAPI: false":                    "there are no policies",
		"{policies: [x], requestTimeout: 1": "yaml",
	} {
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		command := exec.CommandContext(ctx, up, "up", "--controllers=none",
			"--admission-control-config-file="+admissionConfiguration(t, usher), "--kube-apiserver-arg=--enable-admission-plugins=Usher")
		out, err := command.CombinedOutput()
		cancel()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v: %s\nwant %q", usher, err, out, want)
		}
	}
}

// TestPoliciesFromTheAPI has the server enforce what is written into it.
func TestPoliciesFromTheAPI(t *testing.T) {
	t.Parallel()
	crds, err := filepath.Abs("../../deploy/crds")
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, sandbox.Options{Controllers: "none", Plugin: &sandbox.Plugin{CRDs: crds}, Exclusive: true}, nil)
	ctx := testContext(t)
	namespace := r.Namespace(t)
	maps := r.kube.CoreV1().ConfigMaps(namespace)
	refuses := func() bool {
		_, err := maps.Create(ctx, configMap("site", "password"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil && strings.Contains(err.Error(), `admission plugin "Usher" denied the request: not here`)
	}
	if refuses() {
		t.Fatal("refused without a policy")
	}
	kind := r.dynamic.Resource(schema.GroupVersionResource{Group: "policy.kcloudlabs.io", Version: "v1alpha1", Resource: "clustervalidatepolicies"})
	policy := func(program string) *unstructured.Unstructured {
		object := &unstructured.Unstructured{}
		text := fmt.Sprintf(`
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: ClusterValidatePolicy
metadata: {name: not-here}
spec:
  resourceSelectors: [{apiVersion: v1, kind: ConfigMap, namespace: %s}]
  validateRules: [{targetOperations: [CREATE], cue: '%s'}]
`, namespace, program)
		if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
			t.Fatal(err)
		}
		return object
	}
	// What does not compile is refused when it is written.
	if _, err := kind.Create(ctx, policy("validate: {"), metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), `admission plugin "Usher" denied the request`) {
		t.Errorf("a policy that does not compile: %v", err)
	}
	if _, err := kind.Create(ctx, policy(`validate: {valid: false, reason: "not here"}`), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the policy is in force", refuses)
	if err := kind.Delete(ctx, "not-here", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the policy is gone", func() bool { return !refuses() })
}
