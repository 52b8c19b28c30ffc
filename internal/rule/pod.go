package rule

import (
	"cmp"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/podtemplate"
)

// A Pod makes a rule one about the pods of workloads: its Match is for requests that write
// workloads, and its steps run on the pod that the workload would make, in a request that creates it.
// Such rules validate.
type Pod struct {
	// Match is the set of requests for pods for which the rule is.
	Match Match
	// Warns says that the rule denies nothing.
	Warns bool

	once sync.Once
	// reads are the paths that the rule reads in pods.
	reads *usher.Paths
	// paths are those in the workloads, by kind, of which there has been a request.
	paths sync.Map
}

// Skips returns why the rule says nothing about the pods of a workload; "" if it judges them. In kube-system
// controllers create pods in requests that API servers do not send: nothing denies these pods, so that a
// warning that they would be denied is wrong. Rules that deny the workload itself judge them everywhere.
func (p *Pod) Skips(w *Workload) string {
	if p.Warns && w.Namespace == "kube-system" {
		return "API servers do not send the requests in which controllers of kube-system create pods there: its pods are not denied"
	}
	return ""
}

// OfWorkloads returns the requests that write workloads, which is what the Match of a rule with a
// [Pod] has. Excluded are requests that do not match.
func OfWorkloads(excluded []ResourceRule) ResourceMatch {
	return ResourceMatch{Excluded: excluded, Rules: workloadRules()}
}

// workloadRules are for the requests that write workloads. They are shared.
var workloadRules = sync.OnceValue(func() []ResourceRule {
	var all []ResourceRule
	for _, group := range []string{"apps", "batch", ""} {
		r := ResourceRule{
			Operations: []usher.Operation{usher.Create, usher.Update}, Groups: []string{group}, Versions: []string{"*"}, Scope: Namespaced,
		}
		for _, w := range podtemplate.Workloads() {
			if w.Group == group {
				r.Resources = append(r.Resources, w.Resource)
			}
		}
		all = append(all, r)
	}
	return slices.Clip(all)
})

// PodPaths returns the paths that a rule with a [Pod] reads in the object and in the old object of a
// request that writes a workload.
func (r *Rule) PodPaths(of *usher.Request) (object, old *usher.Paths) {
	switch {
	case of.Operation == usher.Update:
		// Whether the template has changed is known from all of it.
		return WholePodPaths(of.Kind), WholePodPaths(of.Kind)
	case len(r.Exemptions) > 0:
		// They may be for any part of the pod.
		return WholePodPaths(of.Kind), nil
	}
	kind := of.Kind.GroupKind()
	if known, ok := r.Pod.paths.Load(kind); ok {
		object, _ = known.(*usher.Paths)
		return object, nil
	}
	w, ok := podtemplate.Of(kind)
	if !ok {
		return nil, nil
	}
	object = w.ReadPaths(r.readsOfPod())
	r.Pod.paths.Store(kind, object)
	return object, nil
}

// AddPodPaths adds the paths that a rule with a [Pod] reads in a workload which is created, or in
// one that changes if its operation is Update.
func (r *Rule) AddPodPaths(to *usher.Paths, w *podtemplate.Workload, operation usher.Operation) {
	if operation == usher.Update || len(r.Exemptions) > 0 {
		to.Merge(WholePodPaths(w.WithVersion("")))
		return
	}
	w.AddReadPaths(to, r.readsOfPod())
}

// wholes are the paths of everything that the pods of workloads have.
var wholes = sync.OnceValue(func() map[schema.GroupKind]*usher.Paths {
	all := map[schema.GroupKind]*usher.Paths{}
	for _, w := range podtemplate.Workloads() {
		all[w.GroupKind] = w.ReadPaths(usher.AllPaths())
	}
	return all
})

// WholePodPaths returns the paths of everything that the pod of a workload has. They are shared.
func WholePodPaths(of schema.GroupVersionKind) *usher.Paths { return wholes()[of.GroupKind()] }

// PodCreation returns a request that creates a pod, without the pod.
func PodCreation(phase usher.Phase) usher.Request {
	return usher.Request{
		Phase: phase, Operation: usher.Create,
		Kind:     schema.GroupVersionKind{Version: "v1", Kind: "Pod"},
		Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"},
	}
}

// readsOfPod are the paths that the rule reads in pods.
func (r *Rule) readsOfPod() *usher.Paths {
	r.Pod.once.Do(func() {
		reads := TargetPaths()
		for _, sel := range r.Pod.Match.Selectors {
			for _, field := range sel.Fields {
				reads.Add(field.Path...)
			}
		}
		object, _ := r.ReadPaths()
		reads.Merge(object)
		r.Pod.reads = reads
	})
	return r.Pod.reads
}

// A Workload is an object that is judged by the pod that it would make.
type Workload struct {
	Kind, Namespace, Name string
	// Unchanged, unless empty, says why the pod is as in the template, without the changes of
	// policies.
	Unchanged string

	kind *podtemplate.Workload
}

// WorkloadOf returns the workload that a request writes, and whether it writes one.
func WorkloadOf(r *usher.Request, object map[string]any) (*Workload, bool) {
	kind, ok := podtemplate.Of(r.Kind.GroupKind())
	if !ok || r.Subresource != "" || r.Operation != usher.Create && r.Operation != usher.Update {
		return nil, false
	}
	w := &Workload{Kind: kind.Kind, Namespace: r.Namespace, Name: r.Name, kind: kind}
	metadata, _ := object["metadata"].(map[string]any)
	for _, field := range []string{"name", "generateName"} {
		name, _ := metadata[field].(string)
		w.Name = cmp.Or(w.Name, name)
	}
	namespace, _ := metadata["namespace"].(string)
	w.Namespace = cmp.Or(w.Namespace, namespace)
	return w, true
}

// Pod returns the pod that the workload would make, or why it is not judged: old is nil unless the
// request is an update.
func (w *Workload) Pod(object, old map[string]any) (pod map[string]any, skipped string) {
	if podtemplate.Controlled(object) {
		return nil, "it is owned by a controller, whose own pod template is judged"
	}
	if pod = w.kind.Pod(object, w.Namespace); pod == nil {
		return nil, "it has no pod template"
	}
	if old != nil && !w.kind.Changed(object, old) {
		return nil, "the pod template has not changed"
	}
	return pod, ""
}

// FieldPath returns the path of the workload's field from which a field of the pod comes, such as
// spec.template.spec.hostNetwork.
func (w *Workload) FieldPath(ofPod string) string { return w.kind.FieldPath(ofPod) }

// String returns the kind, the namespace and the name, such as Deployment shop/web.
func (w *Workload) String() string {
	if w.Namespace == "" {
		return w.Kind + " " + w.Name
	}
	return w.Kind + " " + w.Namespace + "/" + w.Name
}
