package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/usher-dev/usher/sandbox"
)

// compat is the label without which nothing but policies is sent with --compat-label.
const compat = "kinitiras.kcloudlabs.io/webhook"

// as is the same cluster for somebody else.
func (r *rig) as(t *testing.T, user string) *rig {
	t.Helper()
	config := rest.CopyConfig(r.RESTConfig)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	other := &rig{Cluster: r.Cluster}
	other.connect(t, config)
	return other
}

// grant lets a user do something in a namespace, or in the cluster if that is empty.
func (r *rig) grant(t *testing.T, user, namespace, rules string) {
	t.Helper()
	scope := ""
	if namespace == "" {
		scope = "Cluster"
	}
	r.create(t, parse(t, "{apiVersion: rbac.authorization.k8s.io/v1, kind: %sRole, metadata: {name: %s, namespace: %q}, rules: %s}", scope, user, namespace, rules))
	r.create(t, parse(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: %[1]sRoleBinding
metadata: {name: %[2]s, namespace: %[3]q}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: %[1]sRole, name: %[2]s}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %[2]s}]
`, scope, user, namespace))
}

// override is an OverridePolicy that labels what its selectors select.
func override(t *testing.T, namespace, name, selectors, overriders string) *unstructured.Unstructured {
	t.Helper()
	if overriders == "" {
		overriders = "plaintext: [{path: /metadata/annotations, op: add, value: {gained: rights}}]"
	}
	return parse(t, `
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: OverridePolicy
metadata: {name: %s, namespace: %s}
spec:
  resourceSelectors: [%s]
  overrideRules: [{targetOperations: [CREATE, UPDATE], overriders: {%s}}]
`, name, namespace, selectors, overriders)
}

// attacks are what mallory writes, who may write policies and ConfigMaps, and what she is told.
var attacks = []struct{ reason, selectors, overriders, told string }{
	{"roles", "{apiVersion: rbac.authorization.k8s.io/v1, kind: Role}", "", "a policy of a namespace does not act on rbac.authorization.k8s.io/v1 Role (ask who administers the cluster for a ClusterOverridePolicy"},
	{"role bindings of another version", "{apiVersion: rbac.authorization.k8s.io/v1beta1, kind: RoleBinding}", "", "does not act on rbac.authorization.k8s.io/v1beta1 RoleBinding"},
	{"policies", "{apiVersion: policy.kcloudlabs.io/v1alpha1, kind: OverridePolicy}", "", "does not act on policy.kcloudlabs.io/v1alpha1 OverridePolicy"},
	{"what allows", "{apiVersion: usher.dev/v1alpha1, kind: AuthorizationPolicy}", "", "does not act on usher.dev/v1alpha1 AuthorizationPolicy"},
	{"secrets", "{apiVersion: v1, kind: Secret}", "", "does not act on v1 Secret"},
	{"service accounts", "{apiVersion: v1, kind: ServiceAccount}", "", "does not act on v1 ServiceAccount"},
	{"tokens", "{apiVersion: authentication.k8s.io/v1, kind: TokenRequest}", "", "does not act on authentication.k8s.io/v1 TokenRequest"},
	{"among what she may", "{apiVersion: v1, kind: ConfigMap}, {apiVersion: v1, kind: Secret}", "", "spec.resourceSelectors[1].kind: a policy of a namespace does not act on v1 Secret"},
	{"quotas", "{apiVersion: v1, kind: ResourceQuota}", "", "needs permission to create and update resourcequotas in"},
	{"pods", "{apiVersion: v1, kind: Pod}", "", "needs permission to create and update pods in"},
	{"one pod by name", "{apiVersion: v1, kind: Pod, name: web}", "", "needs permission to create and update pods in"},
	{"another operator's objects", "{apiVersion: example.com/v1, kind: Gadget}", "", "needs permission to create and update gadgets.example.com in"},
	{"a kind that nobody knows", "{apiVersion: example.com/v1, kind: Nothing}", "", "which the cluster does not have, needs permission to create and update *.* in"},
	{"everything", "", "", "a policy that acts on every kind needs permission to create and update *.* in"},
	{"shells of others", "{apiVersion: v1, kind: PodExecOptions}", "", "needs permission to create pods/exec in"},
	{"scale", "{apiVersion: autoscaling/v1, kind: Scale}", "", "needs permission to update */scale.* in"},
	{"where pods run", "{apiVersion: v1, kind: Binding}", "", "needs permission to create and update bindings in"},
	{"a secret that she may not read", "{apiVersion: v1, kind: ConfigMap}", reading("{apiVersion: v1, kind: Secret, namespace: '{{metadata.namespace}}', name: db}"), "needs permission to get secrets db in"},
	{"some secret", "{apiVersion: v1, kind: ConfigMap}", reading("{apiVersion: v1, kind: Secret, namespace: '{{metadata.namespace}}', labelSelector: {matchLabels: {a: b}}}"), "needs permission to list secrets in"},
	{"a secret elsewhere", "{apiVersion: v1, kind: ConfigMap}", reading("{apiVersion: v1, kind: Secret, namespace: kube-system, name: db}"), "reads objects of that namespace only"},
	{"a ConfigMap elsewhere", "{apiVersion: v1, kind: ConfigMap}", reading("{apiVersion: v1, kind: ConfigMap, namespace: kube-system, name: a}"), "reads objects of that namespace only"},
	{"ConfigMaps everywhere", "{apiVersion: v1, kind: ConfigMap}", reading("{apiVersion: v1, kind: ConfigMap, labelSelector: {matchLabels: {a: b}}}"), "the selector is for all namespaces"},
	{"a node", "{apiVersion: v1, kind: ConfigMap}", reading("{apiVersion: v1, kind: Node, name: a}"), "reads objects of that namespace only"},
	{"owners", "{apiVersion: v1, kind: ConfigMap}", "template: {type: annotations, operation: add, path: a, valueRef: {from: owner, path: /metadata/name}}", "a policy that reads apps/v1 DaemonSet needs permission to get daemonsets.apps in"},
	{"a service of hers", "{apiVersion: v1, kind: ConfigMap}", "template: {type: annotations, operation: add, path: a, valueRef: {from: http, path: body.a, http: {url: 'http://mallory.example/{{metadata.name}}'}}}", "HTTP facts are off for policies of a namespace"},
	{"a service of hers, in CUE", "{apiVersion: v1, kind: ConfigMap}", `cue: 'processing: {http: {method: "GET", url: "http://mallory.example"}, output: {}}, patches: []'`, "HTTP facts are off for policies of a namespace"},
}

func reading(k8s string) string {
	return "template: {type: annotations, operation: add, path: a, valueRef: {from: k8s, path: /data/a, k8s: " + k8s + "}}"
}

// TestNobodyGainsRightsThroughAPolicy has mallory, who may do everything with policies of her
// namespace and write its ConfigMaps, try to get at the rest of the cluster. Nothing that she
// writes has the label without which other objects are not sent.
func TestNobodyGainsRightsThroughAPolicy(t *testing.T) {
	t.Parallel()
	r := newRig(t, sandbox.Options{Exclusive: true})
	r.create(t, parse(t, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.com}
spec:
  group: example.com
  names: {kind: Gadget, plural: gadgets, singular: gadget, listKind: GadgetList}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`))
	namespace := r.Namespace(t)
	r.grant(t, "mallory", namespace, `[
		{apiGroups: [policy.kcloudlabs.io], resources: [overridepolicies], verbs: ['*']},
		{apiGroups: [''], resources: [configmaps], verbs: [create, update, get, list]}]`)
	process := r.serve(t, "--compat-label")
	mallory := r.as(t, "mallory")
	own := override(t, namespace, "own", "{apiVersion: v1, kind: ConfigMap}", "")
	eventually(t, "what mallory may do herself", func() error {
		_, err := mallory.try(testContext(t), own)
		return err
	})
	for _, attack := range attacks {
		policy := override(t, namespace, "attack", attack.selectors, attack.overriders)
		generated := policy.DeepCopy()
		generated.SetName("")
		generated.SetGenerateName("attack-")
		for how, send := range map[string]func(context.Context, *unstructured.Unstructured) (*unstructured.Unstructured, error){
			"in a dry run": mallory.try, "in earnest": mallory.make, "applied": mallory.apply,
		} {
			if _, err := send(testContext(t), policy); err == nil || !strings.Contains(err.Error(), attack.told) {
				t.Errorf("%s, %s: %v, want a denial with %q", attack.reason, how, err, attack.told)
			}
		}
		if _, err := mallory.make(testContext(t), generated); err == nil {
			t.Errorf("%s: a policy with a name that is generated is stored", attack.reason)
		}
	}
	mallory.actsOnlyOn(t, r, own, namespace)
	mallory.edits(t, r, namespace)
	process.Stop()
	mallory.whileNobodyAnswers(t, r, namespace)
}

// actsOnlyOn checks that a policy of what she may do acts, and on nothing else.
func (r *rig) actsOnlyOn(t *testing.T, admin *rig, own *unstructured.Unstructured, namespace string) {
	t.Helper()
	applied, err := r.apply(testContext(t), own)
	if err != nil {
		t.Fatal(err)
	}
	admin.awaitCondition(t, applied, "Enforced", "True")
	for kind, body := range map[string]string{
		"ConfigMap": "data: {a: b}", "Secret": "stringData: {a: b}", "ServiceAccount": "automountServiceAccountToken: false", "ResourceQuota": "spec: {hard: {pods: '1'}}",
	} {
		written, err := admin.try(testContext(t), parse(t, "{apiVersion: v1, kind: %s, metadata: {name: a, namespace: %s, labels: {%s: enabled}}, %s}", kind, namespace, compat, body))
		if err != nil {
			t.Fatal(err)
		}
		if gained := written.GetAnnotations()["gained"] != ""; gained != (kind == "ConfigMap") {
			t.Errorf("a policy on ConfigMaps acts on %s: %t", kind, gained)
		}
	}
}

// edits checks whose rights count when a policy is changed: those of who changes what it says.
func (r *rig) edits(t *testing.T, admin *rig, namespace string) {
	t.Helper()
	pods := override(t, namespace, "pods", "{apiVersion: v1, kind: Pod}", "")
	if _, err := admin.apply(testContext(t), pods); err != nil {
		t.Fatal(err)
	}
	resource, err := r.of(pods)
	if err != nil {
		t.Fatal(err)
	}
	patch := func(name, text string) error {
		_, err := resource.Patch(testContext(t), name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
		return err
	}
	if err := patch("pods", `{"metadata":{"labels":{"seen":"yes"}}}`); err != nil {
		t.Errorf("a label of an administrator's policy: %v", err)
	}
	const other = `{"spec":{"overrideRules":[{"overriders":{"plaintext":[{"op":"add","path":"/spec/hostNetwork","value":true}]}}]}}`
	if err := wantDenied(patch("pods", other), "needs permission to create and update pods in"); err != nil {
		t.Errorf("what an administrator's policy says: %v", err)
	}
	// What is being deleted is out of force, and does not change without the rights either.
	going := override(t, namespace, "going", "{apiVersion: v1, kind: ConfigMap}", "")
	going.SetFinalizers([]string{"example.com/stay"})
	if _, err := r.apply(testContext(t), going); err != nil {
		t.Fatal(err)
	}
	if err := resource.Delete(testContext(t), "going", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := wantDenied(patch("going", `{"spec":{"resourceSelectors":[{"apiVersion":"v1","kind":"Pod"}]}}`), "needs permission to create and update pods in"); err != nil {
		t.Errorf("a policy that is being deleted: %v", err)
	}
}

// whileNobodyAnswers checks that no right is gained while Usher is down, and that nothing is
// locked: policies and namespaces go.
func (r *rig) whileNobodyAnswers(t *testing.T, admin *rig, namespace string) {
	t.Helper()
	for reason, write := range map[string]func() error{
		"a policy of hers": func() error {
			_, err := r.make(testContext(t), override(t, namespace, "down", "{apiVersion: v1, kind: Pod}", ""))
			return err
		},
		"an Allow of everything": func() error {
			_, err := admin.make(testContext(t), parse(t, `
apiVersion: usher.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: everything}
spec: {effect: Allow, subjects: [{users: [mallory]}], rules: [{verbs: ['*'], apiGroups: ['*'], resources: ['*']}]}`))
			return err
		},
	} {
		if err := write(); err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
			t.Errorf("%s is stored while nobody answers: %v", reason, err)
		}
	}
	policies, err := r.of(override(t, namespace, "own", "", ""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := policies.Patch(testContext(t), "going", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("a finalizer cannot be removed: %v", err)
	}
	if err := policies.Delete(testContext(t), "own", metav1.DeleteOptions{}); err != nil {
		t.Errorf("a policy cannot be deleted: %v", err)
	}
	if err := admin.kube.CoreV1().Namespaces().Delete(testContext(t), namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace to go, with the policies in it", func() error {
		_, err := admin.kube.CoreV1().Namespaces().Get(testContext(t), namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %w", orNil(err))
	})
}

// TestDenialsOfThePlatformStay has eve, who may delete policies, delete what denies.
func TestDenialsOfThePlatformStay(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	name := r.Namespace(t)
	r.grant(t, "eve-"+name, "", "[{apiGroups: [usher.dev], resources: [clusterauthorizationpolicies], verbs: ['*']}]")
	denial := parse(t, `
apiVersion: usher.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: %[1]s}
spec: {tier: platform, effect: Deny, enforcement: Audit, subjects: [{users: [x]}], rules: [{verbs: [create], apiGroups: [''], resources: [pods/exec], namespaces: [%[1]s]}]}
`, name)
	r.create(t, denial)
	eve := r.as(t, "eve-"+name)
	policies, err := eve.of(denial)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "eve to be refused by Usher", func() error {
		return wantDenied(policies.Delete(testContext(t), name, metav1.DeleteOptions{DryRun: dryRun}), "to delete it: the tier platform needs permission to use authorizationtiers.usher.dev platform")
	})
	if err := wantDenied(policies.DeleteCollection(testContext(t), metav1.DeleteOptions{DryRun: dryRun}, metav1.ListOptions{FieldSelector: "metadata.name=" + name}), "to delete it"); err != nil {
		t.Errorf("as a collection: %v", err)
	}
	if _, err := policies.Patch(testContext(t), name, types.MergePatchType, []byte(`{"spec":{"tier":"cluster"}}`), metav1.PatchOptions{}); wantDenied(err, "permission to use authorizationtiers.usher.dev") != nil {
		t.Errorf("by changing it: %v", err)
	}
	root, err := r.of(denial)
	if err != nil {
		t.Fatal(err)
	}
	if err := root.Delete(testContext(t), name, metav1.DeleteOptions{}); err != nil {
		t.Errorf("those who come last cannot delete it: %v", err)
	}
}
