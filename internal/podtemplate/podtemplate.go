// Package podtemplate knows the pods that workloads make: Deployments, StatefulSets, DaemonSets,
// ReplicaSets, ReplicationControllers, Jobs, CronJobs and PodTemplates.
package podtemplate

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
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

// Pod returns the pod that the controller of the workload would create of an object, or nil if the
// object has no template, or is owned by another controller, which has a template of its own. The
// pod shares values with the object, which does not change.
//
// The pod is as a client sends it: it has a generateName and no name, and an owner whose uid is
// empty.
func (w *Workload) Pod(object map[string]any) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	template := at(object, w.Path)
	if template == nil || hasController(metadata) {
		return nil
	}
	pod := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": w.metadata(object, metadata, template)}
	if spec, ok := template["spec"]; ok {
		pod["spec"] = spec
	}
	return pod
}

// metadata is what a controller takes of the template, and adds.
func (w *Workload) metadata(object, metadata, template map[string]any) map[string]any {
	made := map[string]any{}
	written, _ := template["metadata"].(map[string]any)
	for _, field := range []string{"labels", "annotations", "finalizers"} {
		if value, ok := written[field]; ok {
			made[field] = value
		}
	}
	if namespace, ok := metadata["namespace"]; ok {
		made["namespace"] = namespace
	}
	name, _ := metadata["name"].(string)
	if name == "" {
		name, _ = metadata["generateName"].(string)
	}
	if name = strings.TrimSuffix(name, "-"); name != "" {
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

// With returns the object with the labels, annotations and spec of a pod in its template. The
// object does not change.
func (w *Workload) With(object, pod map[string]any) map[string]any {
	template := maps.Clone(at(object, w.Path))
	if template == nil {
		template = map[string]any{}
	}
	template["spec"] = pod["spec"]
	of, _ := pod["metadata"].(map[string]any)
	metadata, _ := template["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	for _, field := range []string{"labels", "annotations"} {
		if value, ok := of[field]; ok {
			if metadata == nil {
				metadata = map[string]any{}
			}
			metadata[field] = value
		}
	}
	if metadata != nil {
		template["metadata"] = metadata
	}
	return with(object, w.Path, template)
}

// Changed reports whether the templates of two objects differ in what their pods have.
func (w *Workload) Changed(object, old map[string]any) bool {
	return !reflect.DeepEqual(at(object, w.Path), at(old, w.Path))
}

// FieldPath returns the path in an object of a field of its pod. Fields that no template has are
// at the template.
func (w *Workload) FieldPath(ofPod string) string {
	template := strings.Join(w.Path, ".")
	for _, part := range []string{"spec", "metadata.labels", "metadata.annotations"} {
		if rest, ok := strings.CutPrefix(ofPod, part); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return template + "." + ofPod
		}
	}
	return template
}

func hasController(metadata map[string]any) bool {
	owners, _ := metadata["ownerReferences"].([]any)
	return slices.ContainsFunc(owners, func(owner any) bool {
		fields, _ := owner.(map[string]any)
		return fields["controller"] == true
	})
}

// at returns the map at a path, or nil.
func at(tree map[string]any, path []string) map[string]any {
	for _, name := range path {
		tree, _ = tree[name].(map[string]any)
	}
	return tree
}

// with returns a tree with another map at a path.
func with(tree map[string]any, path []string, value map[string]any) map[string]any {
	tree = maps.Clone(tree)
	if len(path) == 1 {
		tree[path[0]] = value
		return tree
	}
	below, _ := tree[path[0]].(map[string]any)
	if below == nil {
		below = map[string]any{}
	}
	tree[path[0]] = with(below, path[1:], value)
	return tree
}
