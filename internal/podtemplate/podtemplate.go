// Package podtemplate knows the pods that workloads make: Deployments, StatefulSets, DaemonSets,
// ReplicaSets, ReplicationControllers, Jobs, CronJobs and PodTemplates.
package podtemplate

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
)

// A Workload is a kind whose objects have a template of pods.
type Workload struct {
	schema.GroupKind

	// Resource is the plural name of the kind.
	Resource string
	// Path is where the template is in an object.
	Path []string
	// owner is the kind of the object that owns the pods; empty if the workload itself does.
	owner schema.GroupVersionKind
	// unowned says that nothing makes pods of it.
	unowned bool
}

// workloads is a constant table.
var workloads = []Workload{
	{
		GroupKind: schema.GroupKind{Group: "apps", Kind: "Deployment"}, Resource: "deployments", Path: []string{"spec", "template"},
		owner: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSet"},
	},
	{GroupKind: schema.GroupKind{Group: "apps", Kind: "StatefulSet"}, Resource: "statefulsets", Path: []string{"spec", "template"}},
	{GroupKind: schema.GroupKind{Group: "apps", Kind: "DaemonSet"}, Resource: "daemonsets", Path: []string{"spec", "template"}},
	{GroupKind: schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}, Resource: "replicasets", Path: []string{"spec", "template"}},
	{GroupKind: schema.GroupKind{Kind: "ReplicationController"}, Resource: "replicationcontrollers", Path: []string{"spec", "template"}},
	{GroupKind: schema.GroupKind{Group: "batch", Kind: "Job"}, Resource: "jobs", Path: []string{"spec", "template"}},
	{
		GroupKind: schema.GroupKind{Group: "batch", Kind: "CronJob"}, Resource: "cronjobs", Path: []string{"spec", "jobTemplate", "spec", "template"},
		owner: schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"},
	},
	{GroupKind: schema.GroupKind{Kind: "PodTemplate"}, Resource: "podtemplates", Path: []string{"template"}, unowned: true},
}

// taken are the fields of a template's metadata that its pods have.
var taken = [...]string{"labels", "annotations", "finalizers"}

// Workloads returns all kinds that have a template of pods.
func Workloads() []Workload { return slices.Clone(workloads) }

// Of returns the workload of a kind, and whether there is one.
func Of(kind schema.GroupKind) (*Workload, bool) {
	for i := range workloads {
		if workloads[i].GroupKind == kind {
			return &workloads[i], true
		}
	}
	return nil, false
}

// Pod returns the pod that the controller of the workload would create of an object in a namespace,
// or nil if the object has no template, or is owned by another controller, which has a template of
// its own. The pod shares values with the object, which does not change.
//
// The pod is as a client sends it: it has a generateName and no name, and an owner whose uid is
// empty. It has nothing that controllers and API servers add, such as the label pod-template-hash,
// the volumes of claim templates or the token of a service account.
func (w *Workload) Pod(object map[string]any, namespace string) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	template := at(object, w.Path)
	if template == nil || Controlled(object) {
		return nil
	}
	pod := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": w.metadata(object, metadata, template, namespace)}
	if spec, ok := template["spec"]; ok {
		pod["spec"] = spec
	}
	return pod
}

// metadata is what a controller takes of the template, and adds.
func (w *Workload) metadata(object, metadata, template map[string]any, namespace string) map[string]any {
	made := map[string]any{}
	written, _ := template["metadata"].(map[string]any)
	for _, field := range taken {
		if value, ok := written[field]; ok {
			made[field] = value
		}
	}
	if namespace != "" {
		made["namespace"] = namespace
	}
	name, _ := metadata["name"].(string)
	if name == "" {
		name, _ = metadata["generateName"].(string)
		name = strings.TrimSuffix(name, "-")
	}
	if name != "" {
		made["generateName"] = name + "-"
	}
	if w.unowned {
		return made
	}
	owner := map[string]any{"apiVersion": object["apiVersion"], "kind": w.Kind, "name": name, "uid": "", "controller": true, "blockOwnerDeletion": true}
	if w.owner.Kind != "" {
		owner["apiVersion"], owner["kind"] = w.owner.GroupVersion().String(), w.owner.Kind
	}
	made["ownerReferences"] = []any{owner}
	return made
}

// Changed reports whether the templates of two objects differ in what their pods have.
func (w *Workload) Changed(object, old map[string]any) bool {
	now, before := at(object, w.Path), at(old, w.Path)
	if !equal(now["spec"], before["spec"]) {
		return true
	}
	ofNow, _ := now["metadata"].(map[string]any)
	ofBefore, _ := before["metadata"].(map[string]any)
	return slices.ContainsFunc(taken[:], func(field string) bool { return !equal(ofNow[field], ofBefore[field]) })
}

// ReadPaths returns the paths in an object that Pod and Controlled read of it if ofPod is what is
// read in the pod.
func (w *Workload) ReadPaths(ofPod *usher.Paths) *usher.Paths {
	paths := &usher.Paths{}
	w.AddReadPaths(paths, ofPod)
	return paths
}

// AddReadPaths adds them to others.
func (w *Workload) AddReadPaths(paths, ofPod *usher.Paths) {
	paths.Add("apiVersion")
	for _, field := range []string{"name", "generateName", "ownerReferences"} {
		paths.Add("metadata", field)
	}
	// With a path below it, the template itself is there.
	paths.Add(w.below("metadata", "labels")...)
	for _, field := range taken {
		paths.MergeAt(w.below("metadata", field), ofPod, "metadata", field)
	}
	paths.MergeAt(w.below("spec"), ofPod, "spec")
}

// below is a path in an object that leads through the template.
func (w *Workload) below(path ...string) []string { return slices.Concat(w.Path, path) }

// FieldPath returns the path in an object of a field of its pod. Fields that no template has are
// at the template.
func (w *Workload) FieldPath(ofPod string) string {
	template := strings.Join(w.Path, ".")
	switch ofPod {
	case "metadata.name", "metadata.generateName":
		return "metadata.name"
	case "metadata.namespace":
		return ofPod
	}
	for _, part := range []string{"spec", "metadata.labels", "metadata.annotations", "metadata.finalizers"} {
		if rest, ok := strings.CutPrefix(ofPod, part); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return template + "." + ofPod
		}
	}
	return template
}

// Controlled reports whether an object is owned by a controller.
func Controlled(object map[string]any) bool { return Controller(object) != nil }

// Controller returns the reference to the controller that owns an object, nil if there is none.
func Controller(object map[string]any) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	owners, _ := metadata["ownerReferences"].([]any)
	for _, owner := range owners {
		if fields, _ := owner.(map[string]any); fields["controller"] == true {
			return fields
		}
	}
	return nil
}

// at returns the map at a path, or nil.
func at(tree map[string]any, path []string) map[string]any {
	for _, name := range path {
		tree, _ = tree[name].(map[string]any)
	}
	return tree
}

// equal reports whether two trees are equal, faster than package reflect does.
func equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for key, value := range a {
			if other, ok := b[key]; !ok || !equal(value, other) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equal)
	}
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	return a == b
}
