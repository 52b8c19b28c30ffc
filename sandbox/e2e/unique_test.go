package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/usher-dev/usher/sandbox"
)

// TestUniqueHosts: of two objects with one host that are created one right after the other, the second is
// refused: always if the list is read live, and else as soon as the watch has the first.
func TestUniqueHosts(t *testing.T) {
	t.Parallel()
	r := newRig(t, sandbox.Options{Exclusive: true})
	// Tests have no cache otherwise.
	r.serve(t, "--fact-ttl=1m")
	r.ensureNamespace(t, "hosts")
	const pairs = 20
	for _, row := range []struct {
		name   string
		source string
		strict bool
	}{
		{"live", "live: true", true},
		{"memory", "live: false", false},
	} {
		policy := documents(t, fmt.Appendf(nil, `
apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: unique-%s}
spec:
  matchConstraints:
    objectSelector: {matchLabels: {row: %s}}
    resourceRules: [{apiGroups: [networking.k8s.io], apiVersions: [v1], operations: [CREATE], resources: [ingresses]}]
  data: [{name: others, list: {apiVersion: networking.k8s.io/v1, kind: Ingress, namespace: "*", %s}}]
  validations: [{expression: "!data.others.exists(o, o.spec.rules[0].host == object.spec.rules[0].host)", message: the host is taken}]
`, row.name, row.name, row.source))[0]
		r.enforce(t, policy)
		client := r.dynamic.Resource(schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"}).Namespace("hosts")
		create := func(name, host string) error {
			_, err := client.Create(testContext(t), &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
				"metadata": map[string]any{"name": name, "labels": map[string]any{"row": row.name}},
				"spec": map[string]any{"rules": []any{map[string]any{"host": host, "http": map[string]any{"paths": []any{map[string]any{
					"path": "/", "pathType": "Prefix", "backend": map[string]any{"service": map[string]any{"name": "x", "port": map[string]any{"number": int64(80)}}},
				}}}}}},
			}}, metav1.CreateOptions{})
			return err
		}
		both, start := 0, time.Now()
		for i := range pairs {
			host := fmt.Sprintf("%s-%d.example.com", row.name, i)
			if err := create(fmt.Sprintf("%s-%d-a", row.name, i), host); err != nil {
				t.Fatalf("%s: the first of a pair: %v", row.name, err)
			}
			switch err := create(fmt.Sprintf("%s-%d-b", row.name, i), host); {
			case err == nil:
				both++
			case !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "the host is taken"):
				t.Fatalf("%s: the second of a pair: %v", row.name, err)
			}
		}
		t.Logf("%s: both of %d in %d pairs were created, %s for each object", row.name, both, pairs, time.Since(start)/(2*pairs))
		if row.strict && both > 0 || both == pairs {
			t.Errorf("%s: both of %d in %d pairs were created", row.name, both, pairs)
		}
	}
}

// TestLabelsOfNamespacesCountAtOnce: a label that is removed from a namespace does not count any longer than the
// watch takes.
func TestLabelsOfNamespacesCountAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, sandbox.Options{Exclusive: true})
	r.serve(t, "--fact-ttl=1m")
	r.ensureNamespace(t, "labelled")
	r.enforce(t, documents(t, []byte(`
apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: labelled}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  validations: [{expression: "namespaceObject.metadata.name != 'labelled' || namespaceObject.metadata.?labels[?'open'].hasValue()", message: the namespace is closed}]
`))[0])
	label := func(value string) {
		t.Helper()
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{"open":%s}}}`, value)
		if _, err := r.kube.CoreV1().Namespaces().Patch(testContext(t), "labelled", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create := func() error {
		_, err := r.kube.CoreV1().ConfigMaps("labelled").Create(testContext(t), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "x-"}},
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	const rounds = 10
	late := 0
	var longest time.Duration
	for range rounds {
		label(`"yes"`)
		eventually(t, "the namespace is open", create)
		label("null")
		removed := time.Now()
		if create() == nil {
			late++
		}
		eventually(t, "the namespace is closed", func() error {
			if create() == nil {
				return errors.New("an object was created")
			}
			return nil
		})
		longest = max(longest, time.Since(removed))
	}
	t.Logf("the label counted for one more request in %d of %d rounds, and for %s at most", late, rounds, longest)
	if late == rounds {
		t.Errorf("the label counted for one more request in each of %d rounds, and for %s at most", rounds, longest)
	}
}
