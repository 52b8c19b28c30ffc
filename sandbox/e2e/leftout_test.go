package e2e

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/usher-dev/usher/sandbox"
)

// excludingText denies config maps and namespaces outside kube-system.
const excludingText = `
apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: outside}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps, namespaces]}]
    namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system]}]}
  validations: [{expression: "!has(object.data) && !object.metadata.?labels.?bad.hasValue()", message: "not here"}]
`

// theirsText is a policy of a namespace for another kind.
const theirsText = `
apiVersion: usher.dev/v1alpha1
kind: ObjectPolicy
metadata: {name: theirs, namespace: %s}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [services]}]}
  validations: [{expression: "true"}]
`

// TestExcludedNamespacesWithoutUsher: while Usher is down, and the failure policy is Fail, what every policy excludes
// is admitted, and nothing else. Labels that a user gives a namespace change nothing.
func TestExcludedNamespacesWithoutUsher(t *testing.T) {
	t.Parallel()
	r := newRig(t, sandbox.Options{Exclusive: true})
	process := r.serve(t, fail)
	r.enforce(t, parse(t, excludingText))
	namespace := r.Namespace(t)
	r.enforce(t, parse(t, theirsText, namespace))
	ctx := testContext(t)
	written := func(at string) error {
		_, err := r.try(ctx, parse(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: tried, namespace: %s}, data: {a: b}}", at))
		return err
	}
	forged := func(name string) error {
		_, err := r.try(ctx, parse(t, `{apiVersion: v1, kind: Namespace, metadata: {%s, labels: {bad: "yes", kubernetes.io/metadata.name: kube-system}}}`, name))
		return err
	}
	eventually(t, "the policy to act", func() error {
		return wantDenied(written(namespace), "not here")
	})
	if err := written("kube-system"); err != nil {
		t.Errorf("excluded: %v", err)
	}
	if err := wantDenied(forged("name: forged"), "not here"); err != nil {
		t.Errorf("a namespace with the label of another one: %v", err)
	}
	process.Kill()
	for at, want := range map[string]bool{"kube-system": true, namespace: false, "default": false} {
		err := written(at)
		if got := err == nil; got != want || err != nil && !strings.Contains(err.Error(), "failed calling webhook") {
			t.Errorf("config map in %s: %v", at, err)
		}
	}
	for _, name := range []string{"name: forged", "generateName: forged-"} {
		if err := forged(name); err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
			t.Errorf("namespace with %s: %v", name, err)
		}
	}
	if _, err := r.kube.CoreV1().Namespaces().Patch(ctx, "kube-system", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{DryRun: dryRun}); err != nil {
		t.Errorf("namespace kube-system: %v", err)
	}
	service := `{apiVersion: v1, kind: Service, metadata: {name: tried, namespace: %s}, spec: {ports: [{port: 80}]}}`
	for at, want := range map[string]bool{namespace: false, "default": true} {
		if _, err := r.try(ctx, parse(t, service, at)); (err == nil) != want {
			t.Errorf("service in %s: %v", at, fmt.Sprint(err))
		}
	}
}
