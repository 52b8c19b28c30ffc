package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/usher-dev/usher/sandbox"
)

// admissionPolicy is a ValidatingAdmissionPolicy with a binding that denies.
func admissionPolicy(name, spec, binding string) string {
	return fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec: {%[2]s}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s, validationActions: [Deny]%[3]s}
`, name, spec, binding)
}

func matching(rule string) string { return "matchConstraints: {resourceRules: [{" + rule + "}]}" }

// bind writes a policy and its binding to the API, and removes them with the test.
func (r *rig) bind(t *testing.T, texts string) {
	t.Helper()
	for text := range strings.SplitSeq(texts, "---\n") {
		r.create(t, parse(t, "%s", text))
	}
}

// definition is a CustomResourceDefinition of example.com/v1.
func definition(t *testing.T, kind string) *unstructured.Unstructured {
	t.Helper()
	return parse(t, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[2]ss.example.com}
spec:
  group: example.com
  names: {kind: %[1]s, plural: %[2]ss}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`, kind, strings.ToLower(kind))
}

// TestTheAPIServerDecidesItsOwnPolicies: Usher knows them, and is not asked.
func TestTheAPIServerDecidesItsOwnPolicies(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	namespace := r.Namespace(t)
	r.bind(t, admissionPolicy(namespace, matching(`apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [endpoints]`)+`, validations: [{expression: "false"}]`,
		fmt.Sprintf(", matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}}", namespace)))
	endpoints := parse(t, "{apiVersion: v1, kind: Endpoints, metadata: {name: e, namespace: %s}}", namespace)
	eventually(t, "the API server to deny", func() error {
		_, err := r.try(testContext(t), endpoints)
		if err == nil || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy '"+namespace+"' with binding '"+namespace+"' denied request: failed expression: false") {
			return fmt.Errorf("got %w, want a denial of the API server", orNil(err))
		}
		if strings.Contains(err.Error(), "admission webhook") {
			t.Fatalf("Usher decides what the API server enforces: %v", err)
		}
		return nil
	})
	r.explains(t, endpoints, namespace)
	eventually(t, "Usher to know the policy", func() error {
		text, err := readyz(r.process)
		if err != nil {
			return err
		}
		_, known, _ := strings.Cut(text, "admission policies of the API server: enforced by itself\n")
		for _, kind := range []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"} {
			if !strings.Contains(known, "  "+kind+": ") || strings.Contains(known, "  "+kind+": 0, in v1") || !strings.Contains(known, ", in v1\n") {
				return fmt.Errorf("%s: it says\n%s", kind, text)
			}
		}
		return nil
	})
	configuration, err := r.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(testContext(t), "usher", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range configuration.Webhooks {
		for _, rule := range configuration.Webhooks[i].Rules {
			if strings.Contains(fmt.Sprint(rule.Resources), "endpoints") {
				t.Errorf("%s gets %v", configuration.Webhooks[i].Name, rule)
			}
		}
	}
}

// explains checks that usher explains what the API server denies.
func (r *rig) explains(t *testing.T, object *unstructured.Unstructured, policy string) {
	t.Helper()
	binary, err := usherBinary()
	if err != nil {
		t.Fatal(err)
	}
	text, err := object.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(testContext(t), binary, "explain", "--from-cluster", "--kubeconfig", r.Kubeconfig, "--policy", policy, "-")
	command.Stdin = bytes.NewReader(text)
	out, err := command.CombinedOutput()
	exit := (*exec.ExitError)(nil)
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), "failed expression: false") {
		t.Errorf("usher explain: %v, want a denial:\n%s", err, out)
	}
}

// filePolicies are the policies of TestAdmissionPoliciesByUsher that are in files.
var filePolicies = map[string]string{
	"scale": matching(`apiGroups: [apps], apiVersions: ["*"], operations: [UPDATE], resources: [deployments/scale]`) +
		`, validations: [{expression: "object.spec.replicas <= 5", message: "at most five", reason: Forbidden}]`,
	"exec": matching(`apiGroups: [""], apiVersions: [v1], operations: [CONNECT], resources: [pods/exec]`) +
		`, validations: [{expression: "object.container != 'vault'", messageExpression: "'no shell in ' + object.container + ' for ' + request.userInfo.username"}]`,
	"gadgets": `paramKind: {apiVersion: example.com/v1, kind: Limit}, ` + matching(`apiGroups: [example.com], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: [gadgets]`) +
		`, validations: [{expression: "object.spec.size <= params.spec.most", messageExpression: "'at most ' + string(params.spec.most)"}]`,
	"roles": matching(`apiGroups: [rbac.authorization.k8s.io], apiVersions: [v1], operations: [CREATE], resources: ["*"], scope: Cluster`) +
		`, validations: [{expression: "object.metadata.name != 'root'", message: "not this one"}]`,
}

// TestAdmissionPoliciesByUsher has an API server whose own plugin for these policies is off: Usher
// enforces those of files, and those of the API.
func TestAdmissionPoliciesByUsher(t *testing.T) {
	t.Parallel()
	r := newRig(t, sandbox.Options{Exclusive: true, APIServerArgs: []string{"--disable-admission-plugins=ValidatingAdmissionPolicy,MutatingAdmissionPolicy"}})
	files := t.TempDir()
	for name, spec := range filePolicies {
		binding := ""
		if name == "gadgets" {
			binding = ", paramRef: {name: few, parameterNotFoundAction: Deny}"
		}
		if err := os.WriteFile(filepath.Join(files, name+".yaml"), []byte(admissionPolicy(name, spec, binding)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(files, "stamp.yaml"), []byte(mutatingPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	r.create(t, definition(t, "Gadget"))
	r.bind(t, admissionPolicy("guarded", matching(`apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]`)+
		`, validations: [{expression: "object.data.size() > 1", message: "of the API"}]`, ", matchResources: {namespaceSelector: {matchLabels: {guarded: 'true'}}}"))
	process := r.serve(t, "--admission-policies=enforce", "--policies", files, "--webhook-failure-policy=Fail")
	namespace := r.Namespace(t)
	r.asRegistered(t)
	r.mutated(t, namespace)
	r.subresources(t, namespace)
	r.paramsOfLaterKinds(t, namespace)
	r.byLabelOfNamespace(t, namespace)
	r.lockedOut(t, namespace)
	text, err := readyz(process)
	if err != nil || !strings.Contains(text, "admission policies of the API server: enforced here\n  MutatingAdmissionPolicy: in v1\n") {
		t.Errorf("/readyz?verbose: %v\n%s", err, text)
	}
	process.Kill()
	r.withoutUsher(t, namespace)
}

// mutatingPolicy is a policy of a kind that clusters before 1.36 do not have.
const mutatingPolicy = `apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: stamp}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [services]}]}
  reinvocationPolicy: Never
  failurePolicy: Fail
  mutations:
  - {patchType: JSONPatch, jsonPatch: {expression: '[JSONPatch{op: "add", path: "/metadata/labels", value: {"stamp": object.metadata.name}}]'}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: stamp}
spec: {policyName: stamp}
`

// mutated checks that mutating policies act.
func (r *rig) mutated(t *testing.T, namespace string) {
	t.Helper()
	service := parse(t, "{apiVersion: v1, kind: Service, metadata: {name: shop, namespace: %s}, spec: {ports: [{port: 80}]}}", namespace)
	eventually(t, "the policy to act", func() error {
		created, err := r.try(testContext(t), service)
		if err != nil {
			return err
		}
		return stamped(created, "shop")
	})
}

// asRegistered checks what API servers send: what the resource rules name, and nothing that
// depends on expressions or selectors of policies.
func (r *rig) asRegistered(t *testing.T) {
	t.Helper()
	var rules []string
	eventually(t, "the registration", func() error {
		configuration, err := r.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(testContext(t), "usher", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for i := range configuration.Webhooks {
			w := &configuration.Webhooks[i]
			if w.Name != "validate.usher.dev" {
				continue
			}
			rules = nil
			for _, rule := range w.Rules {
				rules = append(rules, fmt.Sprintf("%v %v %v %v %v", rule.Operations, rule.APIGroups, rule.APIVersions, rule.Resources, *rule.Scope))
			}
			for _, c := range w.MatchConditions {
				if !strings.HasPrefix(c.Name, "not-") {
					t.Errorf("the condition %s: %s", c.Name, c.Expression)
				}
			}
			if *w.FailurePolicy != admissionv1.Fail || len(w.NamespaceSelector.MatchExpressions) != 1 || len(w.NamespaceSelector.MatchLabels)+len(w.ObjectSelector.MatchLabels) != 0 {
				t.Errorf("failurePolicy %s, namespaces %v, objects %v", *w.FailurePolicy, w.NamespaceSelector, w.ObjectSelector)
			}
		}
		want := []string{
			"[CREATE] [] [v1] [configmaps] *", "[CONNECT] [] [v1] [pods/exec] *", "[UPDATE] [apps] [*] [deployments/scale] *",
			"[CREATE UPDATE] [example.com] [*] [gadgets] *", "[CREATE] [rbac.authorization.k8s.io] [v1] [*] Cluster",
		}
		for _, line := range want {
			if !strings.Contains(strings.Join(rules, "\n"), line) {
				return fmt.Errorf("no rule %s among\n%s", line, strings.Join(rules, "\n"))
			}
		}
		if len(rules) != len(want) {
			return fmt.Errorf("more than is needed:\n%s", strings.Join(rules, "\n"))
		}
		return nil
	})
}

func (r *rig) subresources(t *testing.T, namespace string) {
	t.Helper()
	ctx := testContext(t)
	deployment := r.create(t, parse(t, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: %q}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: main, image: registry.example/web}]}}
`, namespace))
	resource, err := r.of(deployment)
	if err != nil {
		t.Fatal(err)
	}
	scale := func(replicas int) error {
		patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)
		_, err := resource.Patch(ctx, "web", types.MergePatchType, []byte(patch), metav1.PatchOptions{DryRun: dryRun}, "scale")
		return err
	}
	eventually(t, "scaling to be limited", func() error {
		return wantDenied(scale(6), "ValidatingAdmissionPolicy 'scale' with binding 'scale' denied request: at most five")
	})
	if err := scale(6); !apierrors.IsForbidden(err) {
		t.Errorf("scaling: %v, want code 403", err)
	}
	if err := scale(5); err != nil {
		t.Errorf("scaling to five: %v", err)
	}
	r.create(t, pod(t, namespace, "shell"))
	err = r.kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name("shell").SubResource("exec").
		Param("container", "vault").Param("command", "sh").Do(ctx).Error()
	if wrong := wantDenied(err, "no shell in vault for "); wrong != nil {
		t.Errorf("exec: %v", wrong)
	}
	for name, message := range map[string]string{"root": "not this one", "other": ""} {
		_, err := r.try(ctx, parse(t, "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: %s}}", name))
		if wrong := wantDenied(err, message); (wrong == nil) != (message != "") {
			t.Errorf("ClusterRole %s: %v", name, err)
		}
	}
	if _, err := r.try(ctx, parse(t, "{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: root, namespace: %s}}", namespace)); err != nil {
		t.Errorf("a Role is not in scope: %v", err)
	}
}

// paramsOfLaterKinds has a policy whose kind of params comes when the policy is long in force.
func (r *rig) paramsOfLaterKinds(t *testing.T, namespace string) {
	t.Helper()
	gadget := func(size int) error {
		_, err := r.try(testContext(t), parse(t, "{apiVersion: example.com/v1, kind: Gadget, metadata: {name: g, namespace: %s}, spec: {size: %d}}", namespace, size))
		return err
	}
	eventually(t, "gadgets to be refused", func() error {
		return wantDenied(gadget(1), "ValidatingAdmissionPolicy 'gadgets' denied request: failed to configure policy: failed to find resource referenced by paramKind: 'example.com/v1, Kind=Limit'")
	})
	r.create(t, definition(t, "Limit"))
	eventually(t, "the kind to be known", func() error {
		return wantDenied(gadget(1), "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction")
	})
	// Another tenant's params do not count here.
	r.create(t, parse(t, "{apiVersion: example.com/v1, kind: Limit, metadata: {name: few, namespace: %s}, spec: {most: 100}}", r.Namespace(t)))
	if err := wantDenied(gadget(1), "no params found"); err != nil {
		t.Errorf("params of another namespace: %v", err)
	}
	limit := r.create(t, parse(t, "{apiVersion: example.com/v1, kind: Limit, metadata: {name: few, namespace: %s}, spec: {most: 3}}", namespace))
	eventually(t, "gadgets within the limit to pass", func() error { return gadget(3) })
	if err := wantDenied(gadget(4), "at most 3"); err != nil {
		t.Error(err)
	}
	resource, err := r.of(limit)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := resource.Patch(testContext(t), "few", types.MergePatchType, []byte(`{"spec":{"most":5}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the limit to rise", func() error { return gadget(4) })
}

// byLabelOfNamespace is about a policy in the API, for namespaces with a label.
func (r *rig) byLabelOfNamespace(t *testing.T, namespace string) {
	t.Helper()
	try := func() error {
		_, err := r.try(testContext(t), configMap(t, namespace, "tried"))
		return err
	}
	label := func(value string) {
		patch := fmt.Sprintf(`{"metadata":{"labels":{"guarded":%s}}}`, value)
		if _, err := r.kube.CoreV1().Namespaces().Patch(testContext(t), namespace, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := try(); err != nil {
		t.Errorf("the namespace is not guarded: %v", err)
	}
	label(`"true"`)
	eventually(t, "the namespace to be guarded", func() error { return wantDenied(try(), "of the API") })
	label("null")
	eventually(t, "the namespace to be free", try)
	stored, err := r.kube.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(testContext(t), "guarded", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range stored.ManagedFields {
		if strings.Contains(f.Manager, "usher") {
			t.Errorf("Usher has written to a policy of the API server: %v", f)
		}
	}
}

// needed are writes without which a cluster does not come up, or Usher does not: no policy stops
// them.
func (r *rig) needed(t *testing.T, namespace string) map[string]func(context.Context) error {
	t.Helper()
	writes := map[string]func(context.Context) error{}
	node := r.as(t, "system:serviceaccount:kube-system:daemon-set-controller")
	for name, object := range map[string]*unstructured.Unstructured{
		"a Lease":                       parse(t, "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: l, namespace: kube-node-lease}}"),
		"an Event":                      parse(t, "{apiVersion: v1, kind: Event, metadata: {name: e, namespace: %[1]s}, involvedObject: {kind: Pod, name: p, namespace: %[1]s}}", namespace),
		"a Node":                        parse(t, "{apiVersion: v1, kind: Node, metadata: {name: tried}}"),
		"a TokenReview":                 parse(t, "{apiVersion: authentication.k8s.io/v1, kind: TokenReview, metadata: {name: ''}, spec: {token: t}}"),
		"a SubjectAccessReview":         parse(t, "{apiVersion: authorization.k8s.io/v1, kind: SubjectAccessReview, spec: {user: u, resourceAttributes: {verb: get, resource: pods}}}"),
		"a webhook configuration":       parse(t, "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: w}}"),
		"an admission policy":           parse(t, "%s", strings.Split(admissionPolicy("another", matching(`apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]`)+`, validations: [{expression: "true"}]`, ""), "---")[0]),
		"what is in Usher's namespace":  configMap(t, usherNamespace, "policies"),
		"a pod in Usher's namespace":    pod(t, usherNamespace, "usher"),
		"a controller's in kube-system": configMap(t, "kube-system", "c"),
	} {
		by := r
		if strings.HasPrefix(name, "a controller") {
			by = node
		}
		writes[name] = func(ctx context.Context) error {
			_, err := by.try(ctx, object)
			return err
		}
	}
	return writes
}

// usherNamespace is where usher says that it is.
const usherNamespace = "usher-system"

// lockedOut has a policy in the API that denies everything.
func (r *rig) lockedOut(t *testing.T, namespace string) {
	t.Helper()
	r.grant(t, "system:serviceaccount:kube-system:daemon-set-controller", "kube-system", "[{apiGroups: [''], resources: [configmaps], verbs: [create]}]")
	for _, object := range []string{"{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", "{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: %s}}"} {
		if _, err := r.apply(testContext(t), parse(t, object, usherNamespace)); err != nil {
			t.Fatal(err)
		}
	}
	r.bind(t, admissionPolicy("deny-all", matching(`apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*/*"]`)+`, validations: [{expression: "false", message: "locked"}]`, ""))
	denied := map[string]*unstructured.Unstructured{
		"a ConfigMap":       configMap(t, namespace, "tried"),
		"a person's there":  configMap(t, "kube-system", "tried"),
		"a ClusterRole":     parse(t, "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: tried}}"),
		"a policy of Usher": labelling(t, "tried", namespace, "x"),
	}
	for name, object := range denied {
		eventually(t, name, func() error {
			_, err := r.try(testContext(t), object)
			return wantDenied(err, "ValidatingAdmissionPolicy 'deny-all' with binding 'deny-all' denied request: locked")
		})
	}
	for name, write := range r.needed(t, namespace) {
		if err := write(testContext(t)); err != nil {
			t.Errorf("%s, while everything is denied: %v", name, err)
		}
	}
	if n := metric(t, r.process, "usher_registered"); n != 1 {
		t.Errorf("usher_registered is %v", n)
	}
}

// withoutUsher checks that a cluster goes on when nobody answers for a policy that denies
// everything, with the failure policy Fail, and that people can get out of it.
func (r *rig) withoutUsher(t *testing.T, namespace string) {
	t.Helper()
	if _, err := r.try(testContext(t), configMap(t, namespace, "tried")); err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
		t.Errorf("a write is %v, want that nobody answers", err)
	}
	for name, write := range r.needed(t, namespace) {
		if err := write(testContext(t)); err != nil {
			t.Errorf("%s, while Usher is down: %v", name, err)
		}
	}
	ctx := testContext(t)
	if err := r.kube.AdmissionregistrationV1().ValidatingAdmissionPolicies().Delete(ctx, "deny-all", metav1.DeleteOptions{}); err != nil {
		t.Errorf("delete the policy: %v", err)
	}
	for _, err := range []error{
		r.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(ctx, "usher", metav1.DeleteOptions{}),
		r.kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(ctx, "usher", metav1.DeleteOptions{}),
	} {
		if err != nil {
			t.Errorf("turn Usher off: %v", err)
		}
	}
	eventually(t, "writes to pass", func() error {
		_, err := r.try(testContext(t), configMap(t, namespace, "tried"))
		return err
	})
}
