package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/usher-dev/usher/sandbox"
	"github.com/usher-dev/usher/sandbox/internal/usher"
)

// TestExamples applies each example policy through the API, sends the requests of its
// cases to the API server, and compares. The examples select everything, so the cluster is
// theirs.
func TestExamples(t *testing.T) {
	t.Parallel()
	r := newRig(t, sandbox.Options{Exclusive: true})
	r.serve(t)
	for _, namespace := range []string{"shop", "lab", "vault", "elsewhere"} {
		r.ensureNamespace(t, namespace)
	}
	policies, err := filepath.Glob(filepath.Join(root, "examples", "policies", "*.yaml"))
	if err != nil || len(policies) == 0 {
		t.Fatalf("find example policies: %v, %d files", err, len(policies))
	}
	files, err := filepath.Glob(filepath.Join(root, "examples", "cases", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, file := range files {
		for _, c := range loadCases(t, file) {
			for _, policy := range c.Policy {
				shown[filepath.Base(policy)] = true
			}
			t.Run(c.Name, func(t *testing.T) { r.runCase(t, filepath.Dir(file), c) })
		}
	}
	for _, policy := range policies {
		if !shown[filepath.Base(policy)] {
			t.Errorf("%s has no case", policy)
		}
	}
}

func (r *rig) ensureNamespace(t *testing.T, name string) {
	t.Helper()
	_, err := r.kube.CoreV1().Namespaces().Create(testContext(t), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	eventually(t, "service account in "+name, func() error {
		_, err := r.kube.CoreV1().ServiceAccounts(name).Get(testContext(t), "default", metav1.GetOptions{})
		return err
	})
}

// runCase sets the stage without policies, sends the request once for comparison, then
// applies the policies and sends it until the answer is as expected.
func (r *rig) runCase(t *testing.T, dir string, c *testCase) {
	for _, object := range []map[string]any{c.Request.Object, c.Request.OldObject} {
		if object["kind"] == "PodExecOptions" && c.Request.Operation != "CONNECT" {
			t.Skip("API servers send these options with CONNECT only")
		}
	}
	send := r.stage(t, c)
	// Cleanups run in reverse order: after the deletion of the policies, before that of
	// objects, which they might refuse.
	t.Cleanup(func() { r.awaitNoPolicies(t) })
	before, err := send(testContext(t))
	if err != nil && !expectedWithoutPolicies(c, err) {
		t.Fatalf("without policies: %v", err)
	}
	for _, policy := range c.policies(t, dir, c.services(t)) {
		r.enforce(t, policy)
	}
	eventually(t, "the answer", func() error {
		after, err := send(testContext(t))
		if c.Request.Operation == "CONNECT" && admitted(err) {
			err = nil
		}
		return c.verify(before, after, err)
	})
}

// expectedWithoutPolicies reports whether an error comes of the sandbox having no nodes.
func expectedWithoutPolicies(c *testCase, err error) bool {
	return c.Request.Operation == "CONNECT" && admitted(err)
}

// admitted reports whether a request for a shell came as far as looking for its node.
func admitted(err error) bool {
	return err != nil && strings.Contains(err.Error(), "does not have a host assigned")
}

type sender func(context.Context) (*unstructured.Unstructured, error)

// stage puts what the case takes for granted into the cluster and returns how to send
// its request.
func (r *rig) stage(t *testing.T, c *testCase) sender {
	t.Helper()
	uids := map[string]any{}
	for _, tree := range c.Objects {
		object := r.put(t, complete(tree))
		uids[object.GetName()] = string(object.GetUID())
	}
	for _, tree := range []map[string]any{c.Request.Object, c.Request.OldObject} {
		adopt(tree, uids)
	}
	switch c.Request.Operation {
	case "CREATE":
		object := complete(c.Request.Object)
		if !c.Request.DryRun && c.calls("POST") {
			return func(ctx context.Context) (*unstructured.Unstructured, error) { return r.make(ctx, object) }
		}
		return func(ctx context.Context) (*unstructured.Unstructured, error) { return r.try(ctx, object) }
	case "UPDATE":
		return r.stageUpdate(t, c)
	case "DELETE":
		old := r.put(t, complete(c.Request.OldObject))
		return func(ctx context.Context) (*unstructured.Unstructured, error) {
			resource, err := r.of(old)
			if err != nil {
				return nil, err
			}
			return nil, resource.Delete(ctx, old.GetName(), metav1.DeleteOptions{DryRun: dryRun})
		}
	case "CONNECT":
		target := r.create(t, pod(t, c.Request.Namespace, "target"))
		return func(ctx context.Context) (*unstructured.Unstructured, error) {
			return nil, r.exec(ctx, target.GetNamespace(), target.GetName())
		}
	}
	t.Fatalf("case %s: no request for operation %s", c.Name, c.Request.Operation)
	return nil
}

// make creates an object and removes it at once: services with side effects are not asked in
// a dry run.
func (r *rig) make(ctx context.Context, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	resource, err := r.of(object)
	if err != nil {
		return nil, err
	}
	created, err := resource.Create(ctx, object, metav1.CreateOptions{})
	if err == nil {
		r.remove(created)
	}
	return created, err
}

// stageUpdate keeps what the API server added to the old object: an update of a pod may
// change little else than labels.
func (r *rig) stageUpdate(t *testing.T, c *testCase) sender {
	t.Helper()
	if c.Request.Object["kind"] == "Scale" {
		return r.stageScale(t, c)
	}
	old := r.put(t, complete(c.Request.OldObject))
	updated := old.DeepCopy()
	updated.SetLabels(complete(c.Request.Object).GetLabels())
	if replicas, ok := at(c.Request.Object, "/spec/replicas"); ok {
		if err := unstructured.SetNestedField(updated.Object, replicas, "spec", "replicas"); err != nil {
			t.Fatal(err)
		}
	}
	return func(ctx context.Context) (*unstructured.Unstructured, error) {
		resource, err := r.of(updated)
		if err != nil {
			return nil, err
		}
		return resource.Update(ctx, updated, metav1.UpdateOptions{DryRun: dryRun})
	}
}

// stageScale makes a Deployment with the old number of replicas, and sends what kubectl scale
// does.
func (r *rig) stageScale(t *testing.T, c *testCase) sender {
	t.Helper()
	deployment := maps.Clone(c.Request.OldObject)
	deployment["apiVersion"], deployment["kind"] = "apps/v1", "Deployment"
	scaled := complete(deployment)
	before, _ := at(c.Request.OldObject, "/spec/replicas")
	after, _ := at(c.Request.Object, "/spec/replicas")
	if err := unstructured.SetNestedField(scaled.Object, cmp.Or[any](before, int64(0)), "spec", "replicas"); err != nil {
		t.Fatal(err)
	}
	old := r.put(t, scaled)
	return func(ctx context.Context) (*unstructured.Unstructured, error) {
		resource, err := r.of(old)
		if err != nil {
			return nil, err
		}
		scale, err := resource.Get(ctx, old.GetName(), metav1.GetOptions{}, "scale")
		if err != nil {
			return nil, err
		}
		if err := unstructured.SetNestedField(scale.Object, cmp.Or[any](after, int64(0)), "spec", "replicas"); err != nil {
			return nil, err
		}
		return resource.Update(ctx, scale, metav1.UpdateOptions{DryRun: dryRun}, "scale")
	}
}

// put writes an object with its status. A namespace is there already; it is given the
// labels.
func (r *rig) put(t *testing.T, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	resource, err := r.of(object)
	if err != nil {
		t.Fatal(err)
	}
	if object.GetKind() == "Namespace" {
		current, err := resource.Get(testContext(t), object.GetName(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		current.SetLabels(object.GetLabels())
		if current, err = resource.Update(testContext(t), current, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		return current
	}
	created := r.create(t, object)
	status, ok := object.Object["status"]
	if !ok {
		return created
	}
	created.Object["status"] = status
	updated, err := resource.UpdateStatus(testContext(t), created, metav1.UpdateOptions{})
	if err != nil {
		t.Fatalf("write status of %s %s: %v", object.GetKind(), object.GetName(), err)
	}
	return updated
}

// complete adds what an API server requires of an object and cases leave out.
func complete(tree map[string]any) *unstructured.Unstructured {
	object := (&unstructured.Unstructured{Object: tree}).DeepCopy()
	spec, _ := object.Object["spec"].(map[string]any)
	switch object.GetKind() {
	case "Deployment", "ReplicaSet":
		labels := map[string]any{"app": "web"}
		if spec == nil {
			spec = map[string]any{}
			object.Object["spec"] = spec
		}
		spec["selector"] = map[string]any{"matchLabels": labels}
		template, ok := spec["template"].(map[string]any)
		if !ok {
			template = map[string]any{"spec": map[string]any{
				"containers": []any{map[string]any{"name": "main", "image": "registry.example/web:2.0.1"}},
			}}
			spec["template"] = template
		}
		template["metadata"] = map[string]any{"labels": labels}
	case "PersistentVolumeClaim":
		spec["resources"] = map[string]any{"requests": map[string]any{"storage": "1Gi"}}
	}
	return object
}

// adopt makes references to owners those of the owners in the cluster.
func adopt(tree map[string]any, uids map[string]any) {
	owners, ok := at(tree, "/metadata/ownerReferences")
	if !ok {
		return
	}
	list, _ := owners.([]any)
	for _, entry := range list {
		if owner, ok := entry.(map[string]any); ok {
			if uid, ok := uids[fmt.Sprint(owner["name"])]; ok {
				owner["uid"] = uid
			}
		}
	}
}

// exec asks for a shell in a pod.
func (r *rig) exec(ctx context.Context, namespace, name string) error {
	return r.kube.CoreV1().RESTClient().Post().Namespace(namespace).Resource("pods").Name(name).SubResource("exec").
		Param("command", "sh").Param("container", "main").Param("stdin", "true").Param("tty", "true").Do(ctx).Error()
}

// codeOf is the HTTP status of an error of the API server.
func codeOf(err error) int32 {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return 0
	}
	return status.Status().Code
}

// policyKinds are the kinds of policies in /readyz?verbose.
var policyKinds = []string{"ClusterOverridePolicy", "ClusterValidatePolicy", "OverridePolicy"}

// awaitNoPolicies waits until the usher enforces no policy.
func (r *rig) awaitNoPolicies(t *testing.T) {
	t.Helper()
	eventually(t, "usher to forget the policies", func() error {
		text, err := readyz(r.process)
		if err != nil {
			return err
		}
		for line := range strings.Lines(text) {
			kind, count, _ := strings.Cut(strings.TrimSpace(line), ": ")
			if slices.Contains(policyKinds, kind) && count != "0" {
				return errors.New(line)
			}
		}
		return nil
	})
}

// readyz is what usher says of itself.
func readyz(process *usher.Process) (string, error) {
	client, err := process.Client()
	if err != nil {
		return "", err
	}
	defer client.CloseIdleConnections()
	response, err := client.Get(process.URL + "/readyz?verbose")
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}
