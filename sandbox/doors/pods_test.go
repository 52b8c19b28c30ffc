package doors

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/internal/podtemplate"
	"github.com/usher-dev/usher/sandbox"
)

// appsPolicy denies pods of an app, and warns of workloads that would make some.
const appsPolicy = `
apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: apps}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations: [{expression: "object.metadata.labels.app != 'denied'", message: no such app, fieldPath: metadata.labels.app}]
`

// podsOfWorkloads are workloads, with %s in place of a template.
var podsOfWorkloads = map[string]string{
	"Deployment":            `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 1, selector: {matchLabels: {app: %[1]s}}, template: %[2]s}}`,
	"StatefulSet":           `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: web}, spec: {replicas: 1, serviceName: web, selector: {matchLabels: {app: %[1]s}}, template: %[2]s}}`,
	"DaemonSet":             `{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: web}, spec: {selector: {matchLabels: {app: %[1]s}}, template: %[2]s}}`,
	"ReplicaSet":            `{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web}, spec: {replicas: 1, selector: {matchLabels: {app: %[1]s}}, template: %[2]s}}`,
	"ReplicationController": `{apiVersion: v1, kind: ReplicationController, metadata: {name: web}, spec: {replicas: 1, selector: {app: %[1]s}, template: %[2]s}}`,
	"Job":                   `{apiVersion: batch/v1, kind: Job, metadata: {name: web}, spec: {template: %[2]s}}`,
	"CronJob":               `{apiVersion: batch/v1, kind: CronJob, metadata: {name: web}, spec: {schedule: "* * * * *", jobTemplate: {spec: {template: %[2]s}}}}`,
	"PodTemplate":           `{apiVersion: v1, kind: PodTemplate, metadata: {name: web}, template: %[2]s}`,
}

// addedToPods are the fields that controllers and API servers add to what a template says.
var addedToPods = []string{
	"metadata.name", "metadata.uid", "metadata.resourceVersion", "metadata.creationTimestamp", "metadata.managedFields", "metadata.generation",
	"metadata.finalizers", "metadata.labels.pod-template-hash", "metadata.labels.controller-revision-hash", "metadata.labels.pod-template-generation",
	"metadata.labels.statefulset.kubernetes.io/pod-name", "metadata.labels.apps.kubernetes.io/pod-index", "spec.hostname", "spec.subdomain", "spec.affinity", "spec.tolerations",
	"spec.serviceAccountName", "spec.serviceAccount", "spec.priority", "spec.preemptionPolicy", "spec.enableServiceLinks", "spec.nodeName", "status",
}

// TestPodsOfWorkloads compares the pod that is projected from each workload with the pod that its
// controller makes.
func TestPodsOfWorkloads(t *testing.T) {
	t.Parallel()
	policies := t.TempDir()
	if err := os.WriteFile(filepath.Join(policies, "apps.yaml"), []byte(appsPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	controllers := []string{calm}
	for _, kind := range []string{"deployment", "replicaset", "statefulset", "daemonset", "replicationcontroller", "job"} {
		controllers = append(controllers, kind+"-controller")
	}
	r := newRig(t, sandbox.Options{Controllers: strings.Join(controllers, ","), Plugin: &sandbox.Plugin{Policies: []string{policies}}, Exclusive: true}, nil)
	if _, err := r.kube.CoreV1().Nodes().Create(testContext(t), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	namespace := r.Namespace(t)
	for _, kind := range slices.Sorted(maps.Keys(podsOfWorkloads)) {
		w := workload(t, kind)
		r.warnings.take()
		r.write(t, w, namespace, "denied")
		want := fmt.Sprintf("%s %s/web: %s.metadata.labels.app: no such app (ClusterObjectPolicy apps; its pods would be denied)", kind, namespace, strings.Join(w.Path, "."))
		if got := r.warnings.take(); !slices.Contains(got, want) {
			t.Errorf("%s: warnings are %q, without %q", kind, got, want)
		}
		stored := r.write(t, w, r.Namespace(t), strings.ToLower(kind))
		if kind == "CronJob" || kind == "PodTemplate" {
			// What makes pods of these is a schedule, or nothing.
			continue
		}
		var made *unstructured.Unstructured
		eventually(t, "the pod of a "+kind, func() bool {
			pods, err := r.dynamic.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(stored.GetNamespace()).List(testContext(t), metav1.ListOptions{})
			if err != nil || len(pods.Items) == 0 {
				return false
			}
			made = &pods.Items[0]
			return true
		})
		projected := w.Pod(stored.Object, stored.GetNamespace())
		for _, difference := range unlikePod(projected, made.Object, "") {
			t.Errorf("%s: %s", kind, difference)
		}
	}
}

// take returns the warnings since it was called last.
func (w *warnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	texts := w.texts
	w.texts = nil
	return texts
}

func workload(t *testing.T, kind string) *podtemplate.Workload {
	t.Helper()
	for _, w := range podtemplate.Workloads() {
		if w.Kind == kind {
			return &w
		}
	}
	t.Fatalf("%s is no workload", kind)
	return nil
}

// write creates a workload, and returns it as the API server stores it.
func (r *rig) write(t *testing.T, w *podtemplate.Workload, namespace, app string) *unstructured.Unstructured {
	t.Helper()
	restart := "Always"
	if w.Group == "batch" {
		restart = "Never"
	}
	template := fmt.Sprintf(`{metadata: {labels: {app: %s}, annotations: {a/b: c}}, spec: {restartPolicy: %s, hostNetwork: true, automountServiceAccountToken: false,
		securityContext: {runAsUser: 1000}, tolerations: [{operator: Exists}], containers: [{name: c, image: registry.example/web}]}}`, app, restart)
	var object map[string]any
	if err := yaml.Unmarshal(fmt.Appendf(nil, podsOfWorkloads[w.Kind], app, template), &object); err != nil {
		t.Fatal(err)
	}
	resource := schema.GroupVersionResource{Group: w.Group, Version: "v1", Resource: w.Resource}
	stored, err := r.dynamic.Resource(resource).Namespace(namespace).Create(testContext(t), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

// unlikePod returns in what the projected pod is another one than the one that was made: values that
// differ, and those that only one of them has.
func unlikePod(projected, made any, at string) []string {
	ofProjected, ok := projected.(map[string]any)
	ofMade, isMap := made.(map[string]any)
	if !ok || !isMap {
		switch {
		case at == "metadata.generateName" && extends(projected, made):
			return nil
		case at == "spec.tolerations" && extended(projected, made):
			return nil
		case at == "metadata.ownerReferences":
			return unlikeOwner(projected, made)
		}
		if diff := cmp.Diff(projected, made); diff != "" {
			return []string{at + ": -projected +made: " + diff}
		}
		return nil
	}
	var all []string
	keys := map[string]bool{}
	for _, m := range []map[string]any{ofProjected, ofMade} {
		for key := range m {
			keys[key] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		path := strings.TrimPrefix(at+"."+key, ".")
		if _, ok := ofProjected[key]; !ok && slices.Contains(addedToPods, path) {
			continue
		}
		all = append(all, unlikePod(ofProjected[key], ofMade[key], path)...)
	}
	return all
}

// extends reports whether a name begins with that of a workload: the pods of a Deployment have the name
// of a ReplicaSet.
func extends(projected, made any) bool {
	name, ok := projected.(string)
	longer, isString := made.(string)
	return ok && isString && strings.HasPrefix(longer, name)
}

// extended reports whether a list has all elements of another, as the tolerations of a DaemonSet's pod.
func extended(projected, made any) bool {
	few, _ := projected.([]any)
	all, _ := made.([]any)
	return !slices.ContainsFunc(few, func(a any) bool {
		return !slices.ContainsFunc(all, func(b any) bool { return cmp.Equal(a, b) })
	})
}

// unlikeOwner compares owners, which have a uid and perhaps a longer name.
func unlikeOwner(projected, made any) []string {
	owners, _ := projected.([]any)
	ofMade, _ := made.([]any)
	if len(owners) != 1 || len(ofMade) != 1 {
		return []string{fmt.Sprintf("the owners are %v and %v", projected, made)}
	}
	a, b := maps.Clone(owners[0].(map[string]any)), maps.Clone(ofMade[0].(map[string]any))
	if !extends(a["name"], b["name"]) {
		return []string{fmt.Sprintf("the owner is %s, not %s", b["name"], a["name"])}
	}
	for _, m := range []map[string]any{a, b} {
		delete(m, "uid")
		delete(m, "name")
	}
	if diff := cmp.Diff(a, b); diff != "" {
		return []string{"owner: -projected +made: " + diff}
	}
	return nil
}
