package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/usher-dev/usher/library"
)

const (
	// pluginLabel is read by the plugin PodSecurity, and packLabel in place of it by the pack.
	pluginLabel = "pod-security.kubernetes.io/"
	packLabel   = "pods.example.com/"
	// existingPods are more than a page of a list.
	podsThere = 260
)

// unprivileged is a user that has the rights of Usher, and may not list pods.
const unprivileged = "usher-alone"

// serveUnprivileged starts an usher that is this user.
func (r *rig) serveUnprivileged(t *testing.T) {
	t.Helper()
	r.grant(t, unprivileged, "", `[{apiGroups: [policy.kcloudlabs.io, usher.dev, admissionregistration.k8s.io, authorization.k8s.io, coordination.k8s.io], resources: ["*"], verbs: ["*"]},
		{apiGroups: [""], resources: [namespaces, configmaps, secrets, events], verbs: ["*"]}]`)
	r.process = r.launch(t, r.impersonate(t, unprivileged))
	if err := errors.Join(r.process.WaitReady(testContext(t)), r.process.WaitRegistered(testContext(t), r.RESTConfig)); err != nil {
		t.Fatal(err)
	}
}

// isolatedText is a policy for the pods of namespaces with a label, also for those that exist.
const isolatedText = `
apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: %[1]q}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations: [{expression: "!object.spec.?hostNetwork.orValue(false)", message: the network of nodes is not for pods}]
  existingObjects: {apiVersion: v1, kind: Pod}
  bindings:
  - {name: isolated, validationActions: [Deny], matchResources: {namespaceSelector: {matchLabels: {%[1]s: "true"}}}}
`

// namespacesText is a policy for changes of namespaces.
const namespacesText = `
apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: %q}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [namespaces]}]}
  validations: [{expression: "!('forbidden' in object.metadata.?labels.orValue({}))"}]
`

// isolated makes a namespace with a pod, and has a policy in force for pods that exist. It returns a
// function that puts the policy into force for the namespace, in a dry run, and returns the warnings.
func (r *rig) isolated(t *testing.T) func(*testing.T) ([]string, error) {
	t.Helper()
	namespace := r.Namespace(t)
	_, err := r.kube.CoreV1().Pods(namespace).Create(testContext(t), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.PodSpec{HostNetwork: true, Containers: []corev1.Container{{Name: "main", Image: "registry.example/main:1"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.enforce(t, parse(t, isolatedText, "isolated"))
	config, h := r.listening()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T) ([]string, error) {
		t.Helper()
		h.take()
		patch := []byte(`{"metadata": {"labels": {"isolated": "true"}}}`)
		_, err := client.CoreV1().Namespaces().Patch(testContext(t), namespace, types.MergePatchType, patch, metav1.PatchOptions{DryRun: dryRun})
		return h.take(), err
	}
}

// toldOfPod returns an error unless the warnings are those about the pod.
func toldOfPod(told []string, err error) error {
	if err == nil && (len(told) != 2 || told[1] != "web: the network of nodes is not for pods") {
		err = fmt.Errorf("warned of %q", told)
	}
	return err
}

// withoutEntry returns an error if a validating webhook is registered.
func (r *rig) withoutEntry(ctx context.Context, name string) error {
	configuration, err := r.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, "usher", metav1.GetOptions{})
	if err != nil {
		return err
	}
	for i := range configuration.Webhooks {
		if configuration.Webhooks[i].Name == name {
			return fmt.Errorf("%s is registered", name)
		}
	}
	return nil
}

// existingPods labels a namespace with pods, once for the plugin PodSecurity and once for the pack
// that does the same: the warnings are the same. As long as Usher may not list pods, it says so.
func (r *rig) existingPods(t *testing.T) {
	t.Helper()
	namespace := r.Namespace(t)
	r.createPods(t, namespace)
	r.installRelabelled(t)
	config, h := r.listening()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	told := func(prefix, level string) []string {
		h.take()
		if err := enforceDry(testContext(t), client, namespace, prefix, level); err != nil {
			t.Fatalf("an update of a namespace is refused: %v", err)
		}
		return h.take()
	}
	const unlisted = "failed to list pods while checking new PodSecurity enforce level"
	eventually(t, "Usher says that it may not list pods", func() error {
		if got := told(packLabel, "baseline"); !slices.Equal(got, []string{unlisted}) {
			return fmt.Errorf("it says %q", got)
		}
		return nil
	})
	r.grant(t, "pods", "", `[{apiGroups: [""], resources: [pods], verbs: [list]}]`)
	r.create(t, parse(t, "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: listing}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: pods}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %s}]}", unprivileged))
	eventually(t, "Usher may list pods", func() error {
		if got := told(packLabel, "baseline"); slices.Contains(got, unlisted) {
			return fmt.Errorf("it says %q", got)
		}
		return nil
	})
	for _, level := range []string{"baseline", "restricted", "privileged"} {
		want := told(pluginLabel, level)
		if counted := strings.Contains(strings.Join(want, "\n"), fmt.Sprintf("(and %d other pods)", podsThere/2-1)); counted != (level != "privileged") {
			t.Errorf("%s: the plugin says %q", level, want)
		}
		// On a busy machine the time may be up before all are read.
		eventually(t, "all pods are read", func() error {
			if diff := cmp.Diff(want, told(packLabel, level)); diff != "" {
				return fmt.Errorf("%s: other warnings than those of the plugin (-want +got):\n%s", level, diff)
			}
			return nil
		})
	}
	var updates errgroup.Group
	for range 8 {
		updates.Go(func() error { return enforceDry(testContext(t), client, namespace, packLabel, "restricted") })
	}
	if err := updates.Wait(); err != nil {
		t.Errorf("many updates at once: %v", err)
	}
}

// createPods creates pods of two kinds, some of which have a controller.
func (r *rig) createPods(t *testing.T, namespace string) {
	t.Helper()
	var writers errgroup.Group
	writers.SetLimit(8)
	for i := range podsThere {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%03d", i), Namespace: namespace},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "registry.example/main:1"}}},
		}
		if i%2 == 0 {
			pod.Spec.HostNetwork = true
		} else {
			pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
		}
		if i%5 == 0 {
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: types.UID(fmt.Sprint("web-", i%2)), Controller: new(true)}}
		}
		writers.Go(func() error {
			_, err := r.kube.CoreV1().Pods(namespace).Create(testContext(t), pod, metav1.CreateOptions{})
			return err
		})
	}
	if err := writers.Wait(); err != nil {
		t.Fatal(err)
	}
}

// installRelabelled installs the policy for pods of the pack, which then reads other labels than the plugin.
func (r *rig) installRelabelled(t *testing.T) {
	t.Helper()
	packs, err := library.Packs()
	if err != nil {
		t.Fatal(err)
	}
	chosen, err := library.Select(packs, []string{"pod-security-labels-pods"})
	if err != nil {
		t.Fatal(err)
	}
	for _, policy := range chosen {
		manifest, err := policy.Manifest(library.Settings{})
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range documents(t, []byte(strings.ReplaceAll(string(manifest), pluginLabel, packLabel))) {
			stored, err := r.apply(testContext(t), object)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { r.remove(stored) })
			r.awaitCondition(t, stored, "Enforced", "True")
		}
	}
}

// enforceDry has a namespace require a level, in a dry run.
func enforceDry(ctx context.Context, client kubernetes.Interface, namespace, prefix, level string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]string{prefix + "enforce": level}}})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Namespaces().Patch(ctx, namespace, types.MergePatchType, patch, metav1.PatchOptions{DryRun: dryRun})
	return err
}
