package podtemplate_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/internal/podtemplate"
)

func tree(t *testing.T, text string) map[string]any {
	t.Helper()
	if text == "" {
		return nil
	}
	var m map[string]any
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return m
}

func TestPod(t *testing.T) {
	t.Parallel()
	const template = `{"metadata":{"labels":{"app":"web"},"name":"ignored"},"spec":{"hostNetwork":true}}`
	for _, test := range []struct{ reason, group, kind, object, want string }{
		{
			"a Deployment makes pods through a ReplicaSet", "apps", "Deployment",
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop","labels":{"of":"workload"}},"spec":{"template":` + template + `}}`,
			`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","generateName":"web-","labels":{"app":"web"},"ownerReferences":[
				{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"","controller":true,"blockOwnerDeletion":true}]},"spec":{"hostNetwork":true}}`,
		},
		{
			"a StatefulSet itself owns its pods", "apps", "StatefulSet",
			`{"apiVersion":"apps/v1","metadata":{"generateName":"db-"},"spec":{"template":{"spec":{}}}}`,
			`{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"db-","ownerReferences":[
				{"apiVersion":"apps/v1","kind":"StatefulSet","name":"db","uid":"","controller":true,"blockOwnerDeletion":true}]},"spec":{}}`,
		},
		{
			"the template of a CronJob is in that of its jobs", "batch", "CronJob",
			`{"apiVersion":"batch/v1","metadata":{"name":"n"},"spec":{"jobTemplate":{"spec":{"template":{"spec":{"a":1}}}}}}`,
			`{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"n-","ownerReferences":[
				{"apiVersion":"batch/v1","kind":"Job","name":"n","uid":"","controller":true,"blockOwnerDeletion":true}]},"spec":{"a":1}}`,
		},
		{
			"nobody makes pods of a PodTemplate", "", "PodTemplate", `{"metadata":{"name":"n"},"template":{"spec":{"a":1}}}`,
			`{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"n-"},"spec":{"a":1}}`,
		},
		{
			"the workload that owns a ReplicaSet has the template that counts", "apps", "ReplicaSet",
			`{"metadata":{"name":"n","ownerReferences":[{"kind":"Deployment","controller":true}]},"spec":{"template":` + template + `}}`, "",
		},
		{
			"an owner that is no controller", "batch", "Job",
			`{"apiVersion":"batch/v1","metadata":{"name":"n","ownerReferences":[{"kind":"App"}]},"spec":{"template":{}}}`,
			`{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"n-","ownerReferences":[
				{"apiVersion":"batch/v1","kind":"Job","name":"n","uid":"","controller":true,"blockOwnerDeletion":true}]}}`,
		},
		{"no template", "apps", "DaemonSet", `{"metadata":{"name":"n"},"spec":{"selector":{}}}`, ""},
		{"a template that is no map", "", "ReplicationController", `{"spec":{"template":[]}}`, ""},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			w, ok := podtemplate.Of(schema.GroupKind{Group: test.group, Kind: test.kind})
			if !ok {
				t.Fatalf("%s is no workload", test.kind)
			}
			object := tree(t, test.object)
			if diff := cmp.Diff(tree(t, test.want), w.Pod(object)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if diff := cmp.Diff(tree(t, test.object), object); diff != "" {
				t.Errorf("the object has changed:\n%s", diff)
			}
		})
	}
	if w, ok := podtemplate.Of(schema.GroupKind{Group: "example.com", Kind: "Deployment"}); ok {
		t.Errorf("another group's kind is %v", w)
	}
}

// TestWithIsTheInverseOfPod puts the pod of each kind back, changed.
func TestWithIsTheInverseOfPod(t *testing.T) {
	t.Parallel()
	for _, w := range podtemplate.Workloads() {
		empty := map[string]any{"metadata": map[string]any{"name": "n"}}
		pod := map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"a": "b"}, "generateName": "n-"},
			"spec":     map[string]any{"hostNetwork": true},
		}
		object := w.With(empty, pod)
		got := w.Pod(object)
		if diff := cmp.Diff(pod["spec"], got["spec"]); diff != "" {
			t.Errorf("%s: spec:\n%s", w.Kind, diff)
		}
		if diff := cmp.Diff(map[string]any{"a": "b"}, got["metadata"].(map[string]any)["labels"]); diff != "" {
			t.Errorf("%s: labels:\n%s", w.Kind, diff)
		}
		if len(empty) != 1 {
			t.Errorf("%s: the object has changed: %v", w.Kind, empty)
		}
		if !w.Changed(object, empty) || w.Changed(object, w.With(object, pod)) {
			t.Errorf("%s: which templates differ is wrong", w.Kind)
		}
	}
}

func TestFieldPath(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ group, kind, ofPod, want string }{
		{"apps", "Deployment", "spec.containers[0].image", "spec.template.spec.containers[0].image"},
		{"apps", "Deployment", "spec", "spec.template.spec"},
		{"batch", "CronJob", "spec.hostNetwork", "spec.jobTemplate.spec.template.spec.hostNetwork"},
		{"", "PodTemplate", "metadata.labels.app", "template.metadata.labels.app"},
		{"apps", "DaemonSet", "metadata.annotations[x/y]", "spec.template.metadata.annotations[x/y]"},
		{"apps", "DaemonSet", "metadata.namespace", "spec.template"},
		{"apps", "DaemonSet", "specials", "spec.template"},
	} {
		w, _ := podtemplate.Of(schema.GroupKind{Group: test.group, Kind: test.kind})
		if got := w.FieldPath(test.ofPod); got != test.want {
			t.Errorf("%s %s: %s, want %s", test.kind, test.ofPod, got, test.want)
		}
	}
}
