package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/usher-dev/usher/sandbox"
)

// TestExistingObjectsThatAPolicyRefuses are counted when the policy is written, where Usher audits.
func TestExistingObjectsThatAPolicyRefuses(t *testing.T) {
	t.Parallel()
	r := newRig(t, sandbox.Options{Exclusive: true})
	r.serve(t, "--audit")
	namespace := r.Namespace(t)
	for _, name := range []string{"cart", "good"} {
		pod := parse(t, "{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: %s}, spec: {containers: [{name: app, image: registry.example.com/app:1}]}}", name, namespace)
		if name == "good" {
			pod.SetLabels(map[string]string{"team": "shop"})
		}
		r.create(t, pod)
	}
	warns := needs(t, "teams", "", "pods", "team")
	denies := warns.DeepCopy()
	unstructured.RemoveNestedField(denies.Object, "spec", "bindings")
	config, heard := r.listening()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	apply := func(policy *unstructured.Unstructured, dryRun ...string) []string {
		t.Helper()
		mapping, err := r.mapper.RESTMapping(policy.GroupVersionKind().GroupKind())
		if err != nil {
			t.Fatal(err)
		}
		heard.take()
		if _, err := client.Resource(mapping.Resource).Apply(testContext(t), policy.GetName(), policy, metav1.ApplyOptions{FieldManager: "e2e", Force: true, DryRun: dryRun}); err != nil {
			t.Fatal(err)
		}
		return heard.take()
	}
	want := fmt.Sprintf("spec.validations: 1 of 2 existing pods would be refused, such as %s/cart (see all with: usher audit --from-cluster --policy teams, with -p FILE before it is applied)", namespace)
	counted := func(text string) bool { return strings.Contains(text, "would be refused") }
	eventually(t, "a dry run warns", func() error {
		if told := apply(denies, metav1.DryRunAll); !slices.Contains(told, want) {
			return fmt.Errorf("warned of %q, want %q", told, want)
		}
		return nil
	})
	// On a busy machine the time can be over before both pods are read.
	eventually(t, "a write warns", func() error {
		if told := apply(warns); slices.ContainsFunc(told, counted) {
			t.Errorf("a policy that refuses nothing: warned of %q", told)
		}
		if told := apply(denies); !slices.Contains(told, want) {
			return fmt.Errorf("warned of %q, want %q", told, want)
		}
		return nil
	})
	if told := apply(denies); slices.ContainsFunc(told, counted) {
		t.Errorf("a policy that does not change: warned of %q", told)
	}
	stdout, stderr, _ := r.audit(t, r.Kubeconfig, "-p", written(t, denies), "--policy", "teams", "-n", namespace)
	if want := "v1 Pod " + namespace + "/cart"; !strings.Contains(stdout, want) || strings.Contains(stdout, "/good") {
		t.Errorf("the audit does not have %q alone:\n%s%s", want, stdout, stderr)
	}
}
