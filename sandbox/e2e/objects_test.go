package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// parse reads one object in YAML; %s and the like are filled in.
func parse(t *testing.T, format string, args ...any) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(fmt.Sprintf(format, args...)), &object.Object); err != nil {
		t.Fatalf("parse object: %v", err)
	}
	return object
}

// of is where objects like this one are read and written.
func (r *rig) of(object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := object.GroupVersionKind()
	mapping, err := r.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		r.mapper.Reset()
		if mapping, err = r.mapper.RESTMapping(kind.GroupKind(), kind.Version); err != nil {
			return nil, err
		}
	}
	resource := r.dynamic.Resource(mapping.Resource)
	if mapping.Scope.Name() == "root" {
		return resource, nil
	}
	return resource.Namespace(object.GetNamespace()), nil
}

var dryRun = []string{metav1.DryRunAll}

// try creates an object without keeping it.
func (r *rig) try(ctx context.Context, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	resource, err := r.of(object)
	if err != nil {
		return nil, err
	}
	return resource.Create(ctx, object, metav1.CreateOptions{DryRun: dryRun})
}

// create creates an object and removes it with the test.
func (r *rig) create(t *testing.T, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	resource, err := r.of(object)
	if err != nil {
		t.Fatal(err)
	}
	created, err := resource.Create(testContext(t), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create %s %s: %v", object.GetKind(), object.GetName(), err)
	}
	t.Cleanup(func() { r.remove(created) })
	return created
}

// apply applies an object, as kubectl apply --server-side would.
func (r *rig) apply(ctx context.Context, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	resource, err := r.of(object)
	if err != nil {
		return nil, err
	}
	return resource.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: "e2e", Force: true})
}

// remove deletes an object at once; one that is not there is fine.
func (r *rig) remove(object *unstructured.Unstructured) {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	if resource, err := r.of(object); err == nil {
		now := int64(0)
		_ = resource.Delete(ctx, object.GetName(), metav1.DeleteOptions{GracePeriodSeconds: &now})
	}
}

// enforce applies a policy, waits until its status says that it is enforced, and removes
// it with the test.
func (r *rig) enforce(t *testing.T, policy *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	applied, err := r.apply(testContext(t), policy)
	if err != nil {
		t.Fatalf("apply %s %s: %v", policy.GetKind(), policy.GetName(), err)
	}
	t.Cleanup(func() { r.remove(applied) })
	r.awaitCondition(t, applied, "Enforced", "True")
	return applied
}

// awaitCondition is kubectl wait --for=condition, for the generation of the object given.
func (r *rig) awaitCondition(t *testing.T, object *unstructured.Unstructured, condition, status string) *unstructured.Unstructured {
	t.Helper()
	resource, err := r.of(object)
	if err != nil {
		t.Fatal(err)
	}
	var current *unstructured.Unstructured
	waited := false
	defer func() {
		if !waited && r.process != nil {
			page, err := readyz(r.process)
			t.Logf("/readyz?verbose of usher, %v:\n%s", err, page)
		}
	}()
	what := fmt.Sprintf("%s %s: %s=%s", object.GetKind(), object.GetName(), condition, status)
	eventually(t, what, func() error {
		var err error
		if current, err = resource.Get(testContext(t), object.GetName(), metav1.GetOptions{}); err != nil {
			return err
		}
		if status == "True" && hasCondition(current, object.GetGeneration(), condition, "False") == nil && strings.Contains(statusIn(current), "reason: NotServed") {
			// It is in force, and these servers answer no authorization webhooks.
			return nil
		}
		return hasCondition(current, object.GetGeneration(), condition, status)
	})
	waited = true
	return current
}

// hasCondition returns an error with the status unless an object has a condition.
func hasCondition(object *unstructured.Unstructured, generation int64, condition, status string) error {
	if observed, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration"); observed < generation {
		return fmt.Errorf("status is about generation %d, wanted is %d%s", observed, generation, statusIn(object))
	}
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, entry := range conditions {
		if c, ok := entry.(map[string]any); ok && c["type"] == condition && c["status"] == status {
			return nil
		}
	}
	return fmt.Errorf("it is not%s", statusIn(object))
}

// statusIn is the status of an object in lines: what a test that waited without success shows.
func statusIn(object *unstructured.Unstructured) string {
	text, err := yaml.Marshal(object.Object["status"])
	if object.Object["status"] == nil || err != nil {
		return fmt.Sprintf("; generation %d has no status", object.GetGeneration())
	}
	return fmt.Sprintf("; the status of generation %d is\n%s", object.GetGeneration(), text)
}

// denial is what a webhook said when it refused a request.
func denial(err error) (message string, ok bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return "", false
	}
	text := status.Status().Message
	if _, message, ok = strings.Cut(text, "denied the request: "); ok {
		return message, true
	}
	return "", strings.Contains(text, "denied the request without explanation")
}

// wantDenied returns an error unless err is a denial with the message.
func wantDenied(err error, message string) error {
	got, ok := denial(err)
	if !ok {
		return fmt.Errorf("got %w, want a denial: %s", orNil(err), message)
	}
	if !strings.Contains(got, message) {
		return fmt.Errorf("denied with %q, want %q", got, message)
	}
	return nil
}

var errAllowed = errors.New("no error")

func orNil(err error) error {
	if err == nil {
		return errAllowed
	}
	return err
}

// pod is a small pod.
func pod(t *testing.T, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	return parse(t, `
apiVersion: v1
kind: Pod
metadata: {name: %q, namespace: %q, labels: {app: cart}}
spec:
  containers: [{name: main, image: registry.example/cart:1.4.2}]
`, name, namespace)
}

// labelling is a policy that labels what is created or changed in a namespace.
func labelling(t *testing.T, name, namespace, value string) *unstructured.Unstructured {
	t.Helper()
	return parse(t, `
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: ClusterOverridePolicy
metadata: {name: %q}
spec:
  resourceSelectors:
  - {apiVersion: v1, kind: Pod, namespace: %q}
  - {apiVersion: v1, kind: ConfigMap, namespace: %q}
  overrideRules:
  - targetOperations: [CREATE, UPDATE]
    overriders:
      plaintext:
      - {path: /metadata/labels/stamp, op: add, value: %q}
`, name, namespace, namespace, value)
}

// configMap is a ConfigMap with a label, so that labels can be added.
func configMap(t *testing.T, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	return parse(t, `
apiVersion: v1
kind: ConfigMap
metadata: {name: %q, namespace: %q, labels: {app: cart}}
data: {key: value}
`, name, namespace)
}

// stamped returns an error unless the object has the label of a labelling policy.
func stamped(object *unstructured.Unstructured, value string) error {
	if got := object.GetLabels()["stamp"]; got != value {
		return fmt.Errorf("label stamp is %q, want %q", got, value)
	}
	return nil
}
