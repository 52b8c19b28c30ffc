package doors

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/sandbox"
)

var orders = schema.GroupVersionResource{Group: "shop.example.com", Version: "v1", Resource: "orders"}

// exampleBinary is $USHER_EXAMPLE_APISERVER_BIN, or built from the source: with the versions of
// this module, in which most of it is compiled already. Those of its own make the compiler
// work for minutes and are only checked to be complete.
func exampleBinary(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("USHER_EXAMPLE_APISERVER_BIN"); path != "" {
		return path
	}
	const example = "github.com/usher-dev/usher/examples/apiserver"
	dir := t.TempDir()
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path, modfile := filepath.Join(dir, "apiserver"), filepath.Join(dir, "go.mod")
	goCommand(t, "../../examples/apiserver", "list", "-deps", ".")
	goCommand(t, "..", "mod", "edit", "-require="+example+"@v0.0.0", "-replace="+example+"=../examples/apiserver", modfile)
	goCommand(t, "..", "build", "-modfile="+modfile, "-ldflags=-s -w", "-o", path, example)
	return path
}

func goCommand(t *testing.T, dir string, args ...string) {
	t.Helper()
	command := exec.Command("go", args...)
	command.Dir = dir
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v: %s", args[0], err, bytes.TrimSpace(out))
	}
}

// serveExample starts the example beside the API server of a cluster, on its etcd, and has
// that one pass on what is for the example's group.
func serveExample(t *testing.T) *rig {
	t.Helper()
	binary := exampleBinary(t)
	// The port has to be known before the cluster starts.
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := probe.Addr().String()
	_ = probe.Close()
	r := newRig(t, sandbox.Options{Controllers: calm, Services: []string{"shop/apiserver=" + address}, Exclusive: true}, nil)
	folder, err := filepath.Abs("testdata/shop")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(address)
	log := &bytes.Buffer{}
	command := exec.Command(binary,
		"--etcd-servers="+r.Etcd, "--bind-address=127.0.0.1", "--secure-port="+port, "--cert-dir="+t.TempDir(),
		"--kubeconfig="+r.Kubeconfig, "--authentication-kubeconfig="+r.Kubeconfig, "--authorization-kubeconfig="+r.Kubeconfig,
		"--admission-control-config-file="+admissionConfiguration(t, "policies: ["+folder+"]"))
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	t.Cleanup(func() {
		_ = command.Process.Kill()
		<-ended
		if t.Failed() {
			text := log.String()
			t.Logf("end of the example's log:\n%s", text[max(0, len(text)-8000):])
		}
	})
	// The API server needs the service that it passes requests on to. Where that really
	// is, the sandbox has been told.
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	must[*corev1.Namespace](t)(r.kube.CoreV1().Namespaces().Create(testContext(t), shop, metav1.CreateOptions{}))
	must[*corev1.Service](t)(r.kube.CoreV1().Services("shop").Create(testContext(t), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "apiserver"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}, metav1.CreateOptions{}))
	service := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": "v1.shop.example.com"},
		"spec": map[string]any{
			"group": orders.Group, "version": orders.Version, "groupPriorityMinimum": int64(1000), "versionPriority": int64(10),
			"insecureSkipTLSVerify": true, "service": map[string]any{"namespace": "shop", "name": "apiserver"},
		},
	}}
	services := schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	if _, err := r.dynamic.Resource(services).Create(testContext(t), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var last error
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("last error of the example: %v", last)
		}
	})
	eventually(t, "the example serves", func() bool {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("the example ended: %v", err)
		default:
		}
		_, last = r.dynamic.Resource(orders).List(testContext(t), metav1.ListOptions{})
		return last == nil
	})
	return r
}

func order(name, item string, count int64) *unstructured.Unstructured {
	spec := map[string]any{"item": item}
	if count > 0 {
		spec["count"] = count
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "shop.example.com/v1", "kind": "Order", "metadata": map[string]any{"name": name}, "spec": spec,
	}}
}

// TestExampleServer has an API server of another kind obey the policies: its objects have
// types of its own, and are stored as something else than what clients write.
func TestExampleServer(t *testing.T) {
	t.Parallel()
	r := serveExample(t)
	ctx, namespace := testContext(t), r.Namespace(t)
	all := r.dynamic.Resource(orders).Namespace(namespace)
	get := must[*unstructured.Unstructured](t)

	plain := get(all.Create(ctx, order("plain", "tea", 0), metav1.CreateOptions{}))
	if count, _, _ := unstructured.NestedInt64(plain.Object, "spec", "count"); plain.GetLabels()["team"] != "platform" || count != 1 {
		t.Errorf("created %v", plain.Object)
	}
	gift := get(all.Create(ctx, order("gift", "tea", 6), metav1.CreateOptions{}))
	if is, _, _ := unstructured.NestedBool(gift.Object, "spec", "gift"); !is {
		t.Errorf("created %v, want a gift", gift.Object)
	}
	_, err := all.Create(ctx, order("many", "tea", 11), metav1.CreateOptions{})
	wantDenied(t, "create", err, "11 of tea are too many")
	applied := get(all.Apply(ctx, "applied", order("applied", "tea", 6), byTest))
	if is, _, _ := unstructured.NestedBool(applied.Object, "spec", "gift"); !is || len(applied.GetManagedFields()) == 0 {
		t.Errorf("applied %v, want a gift with managed fields", applied.Object)
	}
	_, err = all.Patch(ctx, "plain", types.MergePatchType, []byte(`{"spec":{"count":12}}`), metav1.PatchOptions{})
	wantDenied(t, "patch", err, "12 of tea are too many")
	wantDenied(t, "delete", all.Delete(ctx, "gift", metav1.DeleteOptions{}), "gifts are not taken back")
	if err := all.Delete(ctx, "plain", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}

	// What is around the plugin works as well: first what was there before.
	_, err = r.dynamic.Resource(orders).Namespace("nowhere").Create(ctx, order("lost", "tea", 1), metav1.CreateOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("create in no namespace: %v", err)
	}
	_, err = all.Create(ctx, order("nothing", "", 0), metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) {
		t.Errorf("create what the server does not take: %v", err)
	}
	denyByPolicy(t, r, namespace)
	eventually(t, "a policy of the API is enforced", func() bool {
		_, err := all.Create(ctx, order("coffee", "coffee", 6), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		// It sees what the plugin has changed.
		return err != nil && strings.Contains(err.Error(), "no gifts here")
	})
}

// denyByPolicy installs a ValidatingAdmissionPolicy.
func denyByPolicy(t *testing.T, r *rig, namespace string) {
	t.Helper()
	for resource, text := range map[string]string{
		"validatingadmissionpolicies": `
kind: ValidatingAdmissionPolicy
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [shop.example.com], apiVersions: [v1], operations: [CREATE], resources: [orders]}]
  validations: [{expression: "!has(object.spec.gift)", message: no gifts here}]
`,
		"validatingadmissionpolicybindings": fmt.Sprintf(`
kind: ValidatingAdmissionPolicyBinding
spec:
  policyName: no-gifts
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}}
`, namespace),
	} {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
			t.Fatal(err)
		}
		object.SetAPIVersion("admissionregistration.k8s.io/v1")
		object.SetName("no-gifts")
		kind := schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: resource}
		if _, err := r.dynamic.Resource(kind).Create(testContext(t), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}
