package podtemplate_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
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
			`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","generateName":"db-","ownerReferences":[
				{"apiVersion":"apps/v1","kind":"StatefulSet","name":"db","uid":"","controller":true,"blockOwnerDeletion":true}]},"spec":{}}`,
		},
		{
			"the template of a CronJob is in that of its jobs", "batch", "CronJob",
			`{"apiVersion":"batch/v1","metadata":{"name":"n"},"spec":{"jobTemplate":{"spec":{"template":{"spec":{"a":1}}}}}}`,
			`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","generateName":"n-","ownerReferences":[
				{"apiVersion":"batch/v1","kind":"Job","name":"n","uid":"","controller":true,"blockOwnerDeletion":true}]},"spec":{"a":1}}`,
		},
		{
			"nobody makes pods of a PodTemplate", "", "PodTemplate", `{"metadata":{"name":"n"},"template":{"spec":{"a":1}}}`,
			`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","generateName":"n-"},"spec":{"a":1}}`,
		},
		{
			"the workload that owns a ReplicaSet has the template that counts", "apps", "ReplicaSet",
			`{"metadata":{"name":"n","ownerReferences":[{"kind":"Deployment","controller":true}]},"spec":{"template":` + template + `}}`, "",
		},
		{
			"an owner that is no controller", "batch", "Job",
			`{"apiVersion":"batch/v1","metadata":{"name":"n","ownerReferences":[{"kind":"App"}]},"spec":{"template":{}}}`,
			`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","generateName":"n-","ownerReferences":[
				{"apiVersion":"batch/v1","kind":"Job","name":"n","uid":"","controller":true,"blockOwnerDeletion":true}]}}`,
		},
		{
			"of the template's metadata a pod has labels, annotations and finalizers", "apps", "DaemonSet",
			`{"apiVersion":"apps/v1","metadata":{"name":"a-"},"spec":{"template":{"metadata":{"annotations":{"a":"b"},"finalizers":["x/y"],"generateName":"g-","namespace":"other"}}}}`,
			`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","generateName":"a--","annotations":{"a":"b"},"finalizers":["x/y"],"ownerReferences":[
				{"apiVersion":"apps/v1","kind":"DaemonSet","name":"a-","uid":"","controller":true,"blockOwnerDeletion":true}]}}`,
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
			if diff := cmp.Diff(tree(t, test.want), w.Pod(object, "shop")); diff != "" {
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

// TestReadPaths compares the pod of an object with the pod of what was decoded of it.
func TestReadPaths(t *testing.T) {
	t.Parallel()
	template := `{"metadata":{"labels":{"a":"b"},"annotations":{"c":"d"},"finalizers":["e"]},"spec":{"hostNetwork":true,"containers":[{"name":"f","image":"g"}]}}`
	reads := [][]string{
		{}, {"spec"}, {"spec", "hostNetwork"}, {"spec", "containers"}, {"metadata"}, {"metadata", "labels", "a"}, {"metadata", "annotations"}, {"metadata", "finalizers"},
		{"metadata", "generateName"}, {"metadata", "ownerReferences"}, {"status", "phase"}, {"kind"},
	}
	for _, w := range podtemplate.Workloads() {
		text := template
		for _, key := range slices.Backward(w.Path) {
			text = `{"` + key + `":` + text + `,"other":{"large":1}}`
		}
		text = `{"apiVersion":"v1","kind":"` + w.Kind + `","metadata":{"generateName":"web-","labels":{"z":"y"}},` + text[1:]
		for _, path := range reads {
			paths := &usher.Paths{}
			paths.Add(path...)
			part, err := usher.RawObject([]byte(text)).Part(w.ReadPaths(paths))
			if err != nil {
				t.Fatal(err)
			}
			got, err := usher.TreeObject(w.Pod(part, "shop")).Raw()
			if err != nil {
				t.Fatal(err)
			}
			if got == nil {
				t.Fatalf("%s, %v: there is no pod of %v", w.Kind, path, part)
			}
			want, err := usher.RawObject(got).Part(paths)
			if err != nil {
				t.Fatal(err)
			}
			whole, err := usher.TreeObject(w.Pod(tree(t, text), "shop")).Raw()
			if err != nil {
				t.Fatal(err)
			}
			read, err := usher.RawObject(whole).Part(paths)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(read, want); diff != "" {
				t.Errorf("%s, %v: -of all +of the part:\n%s", w.Kind, path, diff)
			}
			if _, ok := part["other"]; ok || part["spec"] != nil && part["spec"].(map[string]any)["other"] != nil {
				t.Errorf("%s, %v: too much is decoded: %v", w.Kind, path, part)
			}
		}
	}
}

func TestChanged(t *testing.T) {
	t.Parallel()
	w, _ := podtemplate.Of(schema.GroupKind{Group: "apps", Kind: "Deployment"})
	const old = `{"metadata":{"name":"n"},"spec":{"template":{"metadata":{"labels":{"a":"b"}},"spec":{"n":1,"list":[{"x":null}]}}}}`
	for _, test := range []struct {
		reason, now string
		want        bool
	}{
		{"nothing", old, false},
		{"what is no part of the template", `{"metadata":{"labels":{"a":"b"}},"spec":{"replicas":2,"template":{"metadata":{"labels":{"a":"b"}},"spec":{"n":1,"list":[{"x":null}]}}}}`, false},
		{"metadata of the template that pods do not have", `{"spec":{"template":{"metadata":{"name":"n","labels":{"a":"b"}},"spec":{"n":1,"list":[{"x":null}]}}}}`, false},
		{"a label", `{"spec":{"template":{"metadata":{"labels":{"a":"c"}},"spec":{"n":1,"list":[{"x":null}]}}}}`, true},
		{"another annotation, as by kubectl rollout restart", `{"spec":{"template":{"metadata":{"labels":{"a":"b"},"annotations":{"c":"d"}},"spec":{"n":1,"list":[{"x":null}]}}}}`, true},
		{"a value", `{"spec":{"template":{"metadata":{"labels":{"a":"b"}},"spec":{"n":2,"list":[{"x":null}]}}}}`, true},
		{"a key whose value is null", `{"spec":{"template":{"metadata":{"labels":{"a":"b"}},"spec":{"n":1,"list":[{"y":null}]}}}}`, true},
		{"an element", `{"spec":{"template":{"metadata":{"labels":{"a":"b"}},"spec":{"n":1,"list":[{"x":null},{}]}}}}`, true},
		{"another type", `{"spec":{"template":{"metadata":{"labels":{"a":"b"}},"spec":{"n":1,"list":{}}}}}`, true},
		{"a map in place of a scalar", `{"spec":{"template":{"metadata":{"labels":{"a":"b"}},"spec":{"n":{},"list":[{"x":null}]}}}}`, true},
		{"no template any more", `{"spec":{}}`, true},
	} {
		if got := w.Changed(tree(t, test.now), tree(t, old)); got != test.want {
			t.Errorf("%s: %t", test.reason, got)
		}
		if got := w.Changed(tree(t, old), tree(t, test.now)); got != test.want {
			t.Errorf("%s, the other way round: %t", test.reason, got)
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
		{"apps", "DaemonSet", "metadata.finalizers[0]", "spec.template.metadata.finalizers[0]"},
		{"apps", "DaemonSet", "metadata.namespace", "metadata.namespace"},
		{"apps", "DaemonSet", "metadata.generateName", "metadata.name"},
		{"apps", "DaemonSet", "metadata.ownerReferences", "spec.template"},
		{"apps", "DaemonSet", "specials", "spec.template"},
	} {
		w, _ := podtemplate.Of(schema.GroupKind{Group: test.group, Kind: test.kind})
		if got := w.FieldPath(test.ofPod); got != test.want {
			t.Errorf("%s %s: %s, want %s", test.kind, test.ofPod, got, test.want)
		}
	}
}
