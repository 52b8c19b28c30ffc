package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/usher-dev/usher/sandbox"
	"github.com/usher-dev/usher/sandbox/internal/usher"
)

const (
	proofAnnotation = "usher.dev/proof"
	// unproven is the last commit without proofs of policies.
	unproven = "33a20ec"
)

// mallory may do everything with policies, their status included, and nothing else.
func (r *rig) mallory(t *testing.T) dynamic.Interface {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "write-policies"}, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"get", "list", "create", "update", "patch", "delete"}, APIGroups: []string{"usher.dev", "policy.kcloudlabs.io"}, Resources: []string{"*"}},
	}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "write-policies"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "write-policies"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "mallory"}},
	}
	if _, err := r.kube.RbacV1().ClusterRoles().Create(testContext(t), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.kube.RbacV1().ClusterRoleBindings().Create(testContext(t), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(r.RESTConfig)
	config.Impersonate = rest.ImpersonationConfig{UserName: "mallory", Groups: []string{"system:authenticated"}}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	// RBAC's informers need a moment.
	eventually(t, "mallory's rights", func() error {
		_, err := client.Resource(grants).Namespace("default").List(testContext(t), metav1.ListOptions{})
		return err
	})
	return client
}

var grants = schema.GroupVersionResource{Group: "usher.dev", Version: "v1alpha1", Resource: "authorizationpolicies"}

// granting lets jane read pods. It has what API servers fill in, and what they leave.
func granting(t *testing.T, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	return parse(t, `
apiVersion: usher.dev/v1alpha1
kind: AuthorizationPolicy
metadata: {name: %q, namespace: %q}
spec:
  effect: Allow
  subjects: [{users: [jane]}]
  when: []
  rules: [{verbs: [get], apiGroups: [""], resources: [pods]}]
  validity: {notAfter: "2099-01-01T01:00:00+01:00"}
`, name, namespace)
}

// stamping stamps ConfigMaps of its namespace, through a template and a free value.
func stamping(t *testing.T, namespace, value string) *unstructured.Unstructured {
	t.Helper()
	return parse(t, `
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: OverridePolicy
metadata: {name: stamping, namespace: %q}
spec:
  resourceSelectors: [{apiVersion: v1, kind: ConfigMap, namespace: %q}]
  overrideRules:
  - targetOperations: [CREATE, UPDATE]
    overriders:
      plaintext: [{path: /metadata/labels/stamp, op: add, value: %q}, {path: /data/free, op: add, value: "1e3"}]
      template: {type: labels, operation: add, path: more, value: {string: text}}
`, namespace, namespace, value)
}

func proofOf(o *unstructured.Unstructured) string { return o.GetAnnotations()[proofAnnotation] }

// conditionOf is a condition in a few words.
func conditionOf(o *unstructured.Unstructured, kind string) string {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, item := range conditions {
		c, _ := item.(map[string]any)
		if c["type"] == kind && c["observedGeneration"] == o.GetGeneration() {
			return fmt.Sprintf("%v %v: %v", c["status"], c["reason"], c["message"])
		}
	}
	return ""
}

// awaitProven waits until status says so of a policy.
func (r *rig) awaitProven(t *testing.T, o *unstructured.Unstructured, want, enforced string) *unstructured.Unstructured {
	t.Helper()
	r.awaitCondition(t, o, "Proven", want)
	return r.awaitCondition(t, o, "Enforced", enforced)
}

// withProof is an object with another proof, none if text is empty.
func withProof(o *unstructured.Unstructured, text string) *unstructured.Unstructured {
	copied := o.DeepCopy()
	annotations := copied.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[proofAnnotation] = text
	if text == "" {
		delete(annotations, proofAnnotation)
	}
	copied.SetAnnotations(annotations)
	return copied
}

// fresh is an object as a client would write it.
func fresh(o *unstructured.Unstructured) *unstructured.Unstructured {
	copied := o.DeepCopy()
	copied.SetResourceVersion("")
	copied.SetUID("")
	copied.SetManagedFields(nil)
	return copied
}

// TestProofs writes policies as clients do, and as mallory does, who may write policies and do
// nothing that they allow.
func TestProofs(t *testing.T) {
	t.Parallel()
	r := newRig(t, sandbox.Options{Exclusive: true})
	r.serve(t, fail)
	namespace := r.Namespace(t)
	other := r.Namespace(t)
	ctx := testContext(t)
	mine, theirs := r.dynamic.Resource(grants).Namespace(namespace), r.mallory(t).Resource(grants)

	policy, err := mine.Create(ctx, granting(t, namespace, "read"), metav1.CreateOptions{FieldValidation: "Strict"})
	if err != nil {
		t.Fatal(err)
	}
	r.awaitProven(t, policy, "True", "True")
	stamp, err := r.apply(ctx, stamping(t, namespace, "proven"))
	if err != nil {
		t.Fatal(err)
	}
	r.awaitProven(t, stamp, "True", "True")
	r.acting(t, namespace, "proven")
	text := proofOf(policy)

	refused := func(reason, want string, err error) {
		t.Helper()
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", reason, err, want)
		}
	}
	const beyond = "permission to get pods"
	copied := fresh(policy)
	copied.SetName("copy")
	_, err = theirs.Namespace(namespace).Create(ctx, copied, metav1.CreateOptions{})
	refused("a copy under another name", beyond, err)
	copied.SetName("read")
	copied.SetNamespace(other)
	_, err = theirs.Namespace(other).Create(ctx, copied, metav1.CreateOptions{})
	refused("a copy in another namespace", beyond, err)
	nameless := fresh(policy)
	nameless.SetName("")
	nameless.SetGenerateName("read-")
	_, err = mine.Create(ctx, nameless, metav1.CreateOptions{})
	refused("a name to be generated", "set metadata.name", err)
	wider, err := mine.Get(ctx, "read", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedField(wider.Object, []any{map[string]any{"users": []any{"mallory"}}}, "spec", "subjects"); err != nil {
		t.Fatal(err)
	}
	_, err = theirs.Namespace(namespace).Update(ctx, wider, metav1.UpdateOptions{})
	refused("another spec", beyond, err)

	r.confirmation(t)
	r.clients(t, mine, theirs.Namespace(namespace), text)
	r.managers(t, namespace, text)
}

// confirmation has mallory end a Deny that is to be confirmed, and confirm it. That is annotations.
func (r *rig) confirmation(t *testing.T) {
	t.Helper()
	ctx := testContext(t)
	deny := parse(t, `
apiVersion: usher.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: no-exec}
spec:
  effect: Deny
  tier: platform
  confirmWithin: 1h
  subjects: [{users: [jane]}]
  rules: [{verbs: [create], apiGroups: [""], resources: [pods/exec]}]
`)
	if _, err := r.apply(ctx, deny); err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(r.RESTConfig)
	config.Impersonate = rest.ImpersonationConfig{UserName: "mallory", Groups: []string{"system:authenticated"}}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	theirs := client.Resource(grants.GroupVersion().WithResource("clusterauthorizationpolicies"))
	for _, body := range []string{
		`{"metadata": {"annotations": {"usher.dev/since": "2020-01-01T00:00:00Z"}}}`, `{"metadata": {"annotations": {"usher.dev/since": null}}}`,
		`{"metadata": {"annotations": {"usher.dev/confirmed": "1"}}}`,
	} {
		_, err := theirs.Patch(ctx, "no-exec", types.MergePatchType, []byte(body), metav1.PatchOptions{})
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "say when it ends") {
			t.Errorf("%s: %v", body, err)
		}
	}
	if _, err := theirs.Patch(ctx, "no-exec", types.MergePatchType, []byte(`{"metadata": {"labels": {"a": "b"}}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("a label: %v", err)
	}
	if _, err := r.dynamic.Resource(grants.GroupVersion().WithResource("clusterauthorizationpolicies")).
		Patch(ctx, "no-exec", types.MergePatchType, []byte(`{"metadata": {"annotations": {"usher.dev/confirmed": "1"}}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("confirmed by an administrator: %v", err)
	}
}

// clients write a policy without changing what it says: the proof stays what it is.
func (r *rig) clients(t *testing.T, mine, theirs dynamic.ResourceInterface, text string) {
	t.Helper()
	ctx := testContext(t)
	current := func() *unstructured.Unstructured {
		policy, err := mine.Get(ctx, "read", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return policy
	}
	patch := func(client dynamic.ResourceInterface, body string, subresources ...string) error {
		_, err := client.Patch(ctx, "read", types.MergePatchType, []byte(body), metav1.PatchOptions{}, subresources...)
		return err
	}
	for _, row := range []struct {
		reason string
		write  func() error
	}{
		{"kubectl replace, from a file without annotations", func() error {
			written := granting(t, current().GetNamespace(), "read")
			written.SetResourceVersion(current().GetResourceVersion())
			_, err := mine.Update(ctx, written, metav1.UpdateOptions{})
			return err
		}},
		{"a label, by mallory", func() error { return patch(theirs, `{"metadata": {"labels": {"by": "mallory"}}}`) }},
		{"the annotation removed", func() error { return patch(theirs, `{"metadata": {"annotations": {"usher.dev/proof": null}}}`) }},
		{"the annotation forged", func() error { return patch(theirs, `{"metadata": {"annotations": {"usher.dev/proof": "v1.a.b"}}}`) }},
		{"the annotation through the status", func() error {
			return patch(theirs, `{"metadata": {"annotations": {"usher.dev/proof": "v1.a.b"}}, "status": {"lastError": "x"}}`, "status")
		}},
		{"a finalizer", func() error { return patch(theirs, `{"metadata": {"finalizers": ["example.com/x"]}}`) }},
		{"none any more", func() error { return patch(theirs, `{"metadata": {"finalizers": null}}`) }},
	} {
		if err := row.write(); err != nil {
			t.Errorf("%s: %v", row.reason, err)
		}
		if got := proofOf(current()); got != text {
			t.Errorf("%s: the proof is %q, was %q", row.reason, got, text)
		}
	}
}

// managers apply a policy as Argo CD and Flux do: on the server, forced, again and again, several
// of them, one with a proof in its file. Nobody's apply changes anything forever.
func (r *rig) managers(t *testing.T, namespace, text string) {
	t.Helper()
	ctx := testContext(t)
	mine := r.dynamic.Resource(grants).Namespace(namespace)
	versions := map[string]bool{}
	for round := range 6 {
		for manager, applied := range map[string]*unstructured.Unstructured{
			"argocd-controller":    granting(t, namespace, "read"),
			"kustomize-controller": withProof(granting(t, namespace, "read"), "v1.0123456789abcdef.AAAA"),
		} {
			got, err := mine.Apply(ctx, "read", applied, metav1.ApplyOptions{FieldManager: manager, Force: true})
			if err != nil {
				t.Fatalf("%s: %v", manager, err)
			}
			if proofOf(got) != text {
				t.Fatalf("%s: the proof is %q, was %q", manager, proofOf(got), text)
			}
			if round > 1 {
				versions[exceptStatus(got)] = true
			}
		}
	}
	if len(versions) > 1 {
		t.Errorf("%d versions of a policy that nobody changes: field managers quarrel", len(versions))
	}
	changed := granting(t, namespace, "read")
	if err := unstructured.SetNestedField(changed.Object, "ask the platform team", "spec", "message"); err != nil {
		t.Fatal(err)
	}
	got, err := mine.Apply(ctx, "read", changed, metav1.ApplyOptions{FieldManager: "argocd-controller", Force: true})
	if err != nil || proofOf(got) == text {
		t.Fatalf("the proof of another spec is %q: %v", proofOf(got), err)
	}
	r.awaitProven(t, got, "True", "True")
}

// exceptStatus is what clients other than Usher have written: status, which Usher may write meanwhile, left out.
func exceptStatus(o *unstructured.Unstructured) string {
	own := o.DeepCopy()
	own.SetResourceVersion("")
	delete(own.Object, "status")
	fields := own.GetManagedFields()
	own.SetManagedFields(slices.DeleteFunc(fields, func(f metav1.ManagedFieldsEntry) bool { return f.Subresource == "status" }))
	text, _ := json.Marshal(own.Object)
	return string(text)
}

// canI asks usher authz can-i by the policies and RBAC of the cluster.
func (r *rig) canI(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	return r.authz(t, append([]string{"can-i"}, args...)...)
}

// authz runs a command of usher authz against the cluster.
func (r *rig) authz(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	binary, err := usherBinary()
	if err != nil {
		t.Fatal(err)
	}
	text, err := exec.Command(binary, append(append([]string{"authz"}, args...), "--kubeconfig", r.Kubeconfig)...).CombinedOutput()
	if code = exitCode(err); code < 0 {
		t.Fatal(err)
	}
	return string(text), code
}

// TestProofsOverTheYears upgrades from the last version without proofs, edits, adopts, rotates
// the key, loses it, and adopts again. What was in force stays so until the key is lost.
func TestProofsOverTheYears(t *testing.T) {
	t.Parallel()
	old, err := binaryAt(unproven)
	if errors.Is(err, errNoOldVersion) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	binary, err := usherBinary()
	if err != nil {
		t.Fatal(err)
	}
	behind := newNetwork(t)
	o := &rollout{behind: behind, rig: newRig(t, sandbox.Options{
		Exclusive: true,
		Services:  []string{usher.Namespace + "/usher=" + behind.address()},
	})}
	ctx := testContext(t)
	o.add(t, old)
	namespace := o.Namespace(t)
	stamp := o.enforce(t, stamping(t, namespace, "old"))
	policy := o.enforce(t, granting(t, namespace, "read"))
	o.acting(t, namespace, "old")

	// Both versions run for a while.
	o.add(t, binary)
	o.running[0].Stop()
	o.running = o.running[1:]
	o.lead(t)
	recorded := o.awaitProven(t, stamp, "False", "True")
	if got := conditionOf(recorded, "Proven"); !strings.Contains(got, "in force nevertheless: it is from before policies had proofs") {
		t.Errorf("after the upgrade: %s", got)
	}
	o.awaitProven(t, policy, "False", "True")
	o.acting(t, namespace, "old")
	o.awaitRecord(t)

	if stamp, err = o.apply(ctx, stamping(t, namespace, "edited")); err != nil {
		t.Fatal(err)
	}
	o.awaitProven(t, stamp, "True", "True")
	o.acting(t, namespace, "edited")
	if out, code := o.authz(t, "adopt"); code != 0 || !strings.Contains(out, "AuthorizationPolicy "+namespace+"/read: in force nevertheless") || strings.Contains(out, "OverridePolicy") {
		t.Errorf("adopt lists, with exit status %d:\n%s", code, out)
	}
	o.adopts(t, "adopted AuthorizationPolicy "+namespace+"/read\n")
	o.awaitProven(t, policy, "True", "True")

	saved := o.backup(t, stamp, policy)
	o.rotation(t, binary, namespace, stamp)
	o.loss(t, binary, namespace, stamp, policy)
	o.restored(t, binary, namespace, saved)
	o.uninstalled(t, binary)
}

// awaitRecord waits until the policies from before are recorded.
func (r *rig) awaitRecord(t *testing.T) {
	t.Helper()
	eventually(t, "the record of policies", func() error {
		secret, err := r.kube.CoreV1().Secrets(usher.Namespace).Get(testContext(t), "usher-proofs", metav1.GetOptions{})
		if err == nil && len(secret.Data["note"]) == 0 {
			err = errors.New("it is not made yet")
		}
		return err
	})
}

// adopts adopts everything, first as a dry run.
func (o *rollout) adopts(t *testing.T, want string) {
	t.Helper()
	if out, code := o.authz(t, "adopt", "--all", "--dry-run"); code != 0 || out != strings.ReplaceAll(want, "adopted ", "would adopt ") {
		t.Errorf("adopt --dry-run: exit status %d:\n%s", code, out)
	}
	if out, code := o.authz(t, "adopt", "--all"); code != 0 || out != want {
		t.Errorf("adopt: exit status %d:\n%s", code, out)
	}
}

// rotation replaces the key twice, with two replicas, while policies are written.
func (o *rollout) rotation(t *testing.T, binary, namespace string, stamp *unstructured.Unstructured) {
	t.Helper()
	o.add(t, binary)
	before := map[string]bool{proofOf(stamp): true}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	written := make(chan error, 1)
	go func() {
		var err error
		for i := 0; ctx.Err() == nil && err == nil; i++ {
			// Any replica mutates, any other one validates.
			p := granting(t, namespace, fmt.Sprintf("during-%d", i%5))
			p.SetLabels(map[string]string{"i": fmt.Sprint(i)})
			_ = unstructured.SetNestedField(p.Object, fmt.Sprint(i), "spec", "message")
			_, err = o.apply(context.Background(), p)
		}
		written <- err
	}()
	for range 2 {
		if out, code := o.authz(t, "rotate-proof-key"); code != 0 || !strings.Contains(out, "has a new key ") || !strings.Contains(out, "proofs renewed: ") {
			t.Fatalf("rotate-proof-key: exit status %d:\n%s", code, out)
		}
		o.awaitProven(t, stamp, "True", "True")
		resource, err := o.of(stamp)
		if err != nil {
			t.Fatal(err)
		}
		current, err := resource.Get(testContext(t), stamp.GetName(), metav1.GetOptions{})
		if err != nil || before[proofOf(current)] {
			t.Errorf("the proof is one of before: %v", err)
		}
		before[proofOf(current)] = true
	}
	stop()
	if err := <-written; err != nil {
		t.Errorf("a policy that was written during rotation: %v", err)
	}
	o.acting(t, namespace, "edited")
	for i := range 5 {
		o.awaitProven(t, granting(t, namespace, fmt.Sprintf("during-%d", i)), "True", "True")
	}
}

// loss takes the key away while no replica runs, which is also what restoring policies into a
// cluster with another key comes to.
func (o *rollout) loss(t *testing.T, binary, namespace string, stamp, policy *unstructured.Unstructured) {
	t.Helper()
	o.stopAll()
	if err := o.kube.CoreV1().Secrets(usher.Namespace).Delete(testContext(t), "usher-proofs", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	o.add(t, binary)
	lost := o.awaitProven(t, stamp, "False", "False")
	if got := conditionOf(lost, "Proven"); !strings.Contains(got, "not in force: its proof is by a key that is not known here") {
		t.Errorf("with another key: %s", got)
	}
	o.awaitProven(t, policy, "False", "False")
	o.acting(t, namespace, "")
	page, err := readyz(o.running[0])
	if err != nil || !strings.Contains(page, "the key was found lost at ") || !strings.Contains(page, "usher authz adopt") {
		t.Errorf("/readyz?verbose says, %v:\n%s", err, page)
	}
	if out, code := o.canI(t, "get", "pods", "--as", "jane", "-n", namespace); code != 1 || !strings.Contains(out, "AuthorizationPolicy "+namespace+"/read is not in force: ") {
		t.Errorf("can-i, with exit status %d:\n%s", code, out)
	}
	// Who writes the same again changes nothing, and neither does who writes something else.
	label := []byte(`{"metadata": {"labels": {"a": "b"}}}`)
	labelled, err := o.dynamic.Resource(grants).Namespace(namespace).Patch(testContext(t), "read", types.MergePatchType, label, metav1.PatchOptions{})
	if err != nil || proofOf(labelled) == "" {
		t.Fatalf("a label on what is not proven: %v", err)
	}
	again, err := o.apply(testContext(t), granting(t, namespace, "read"))
	if err != nil || proofOf(again) != proofOf(labelled) {
		t.Errorf("what is not proven is proven because it is written again: %v", err)
	}
	if out, code := o.authz(t, "adopt", "overridepolicy/stamping", "-n", namespace); code != 0 || out != "adopted OverridePolicy "+namespace+"/stamping\n" {
		t.Errorf("adopt one: exit status %d:\n%s", code, out)
	}
	o.awaitProven(t, stamp, "True", "True")
	o.acting(t, namespace, "edited")
	if out, code := o.authz(t, "adopt", "--all", "-n", namespace); code != 0 || strings.Count(out, "adopted ") != 6 {
		t.Errorf("adopt the rest: exit status %d:\n%s", code, out)
	}
	o.awaitProven(t, policy, "True", "True")
}
