package try

import (
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/usher/internal/user"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/podtemplate"
	"github.com/usher-dev/usher/internal/policytest"
)

// hashLabel is the label of ReplicaSets of a Deployment, and of their pods, with the hash that the
// name of the ReplicaSet ends in.
const hashLabel = "pod-template-hash"

// A workload is an object that has pods made: the Deployment, and not its ReplicaSets, which every
// rollout replaces.
type workload struct {
	schema.GroupVersionResource

	kind, namespace, name string
}

// String is the workload as messages name it.
func (w *workload) String() string {
	if w.namespace == "" {
		return w.kind + " " + w.name
	}
	return w.kind + " " + w.namespace + "/" + w.name
}

// workloadOf returns the workload of a request for an object that has a template of pods, and the
// request in which a controller creates one of them; nil if it has none.
func workloadOf(r *usher.Request) (*workload, *usher.Request) {
	kind, ok := podtemplate.Of(r.Kind.GroupKind())
	if !ok || !writesObject(r) {
		return nil, nil
	}
	object, err := r.Object.Tree()
	if err != nil {
		return nil, nil
	}
	pod := kind.Pod(object, r.Namespace)
	name := result.ToBe(object).Name
	if pod == nil || strings.HasSuffix(name, "*") || name == "" {
		return nil, nil
	}
	w := &workload{r.Resource, kind.Kind, r.Namespace, name}
	metadata, _ := pod["metadata"].(map[string]any)
	if metadata["ownerReferences"] == nil {
		// Nothing makes pods of a PodTemplate.
		return nil, nil
	}
	w.nameGeneration(metadata)
	created, err := (&policytest.Request{Operation: usher.Create, Namespace: r.Namespace, Object: pod}).For(usher.Mutate)
	if err != nil {
		return nil, nil
	}
	created.User = user.Complete(usher.User{Name: "system:serviceaccount:kube-system:" + w.controller()})
	return w, created
}

// writesObject reports whether a request creates or updates an object as a whole.
func writesObject(r *usher.Request) bool {
	return r.Subresource == "" && (r.Operation == usher.Create || r.Operation == usher.Update)
}

// controller is the service account of the controller that creates the pods.
func (w *workload) controller() string {
	switch w.kind {
	case "Deployment":
		return "replicaset-controller"
	case "CronJob":
		return "job-controller"
	case "ReplicationController":
		return "replication-controller"
	case "DaemonSet":
		return "daemon-set-controller"
	}
	return strings.ToLower(w.kind) + "-controller"
}

// nameGeneration gives the metadata of a pod the names that a controller would: those of a ReplicaSet, or
// of a Job, that belongs to the workload.
func (w *workload) nameGeneration(metadata map[string]any) {
	between := w.name
	switch w.kind {
	case "Deployment":
		const hash = "5d4f8c7b9d"
		between += "-" + hash
		labels, _ := metadata["labels"].(map[string]any)
		if labels = maps.Clone(labels); labels == nil {
			labels = map[string]any{}
		}
		labels[hashLabel] = hash
		metadata["labels"] = labels
	case "CronJob":
		between += "-29000000"
	}
	metadata["generateName"] = between + "-"
	if owners, ok := metadata["ownerReferences"].([]any); ok && len(owners) == 1 {
		owner, _ := owners[0].(map[string]any)
		owner["name"] = between
	}
}

// ownerOf returns the workload that owns the pod of a request; nil if nothing with a template of pods
// does.
func ownerOf(r *usher.Request) *workload {
	if r.Resource.Group != "" || r.Resource.Resource != "pods" || !writesObject(r) {
		return nil
	}
	pod, err := r.Object.Tree()
	if err != nil {
		return nil
	}
	owner := podtemplate.Controller(pod)
	if owner == nil {
		return nil
	}
	metadata, _ := pod["metadata"].(map[string]any)
	name := result.ToBe(map[string]any{"apiVersion": owner["apiVersion"], "kind": owner["kind"], "metadata": owner})
	gv, err := schema.ParseGroupVersion(name.APIVersion)
	if err != nil {
		return nil
	}
	labels, _ := metadata["labels"].(map[string]any)
	hash, _ := labels[hashLabel].(string)
	if prefix, ok := strings.CutSuffix(name.Name, "-"+hash); ok && hash != "" && name.Kind == "ReplicaSet" {
		name.Kind, name.Name = "Deployment", prefix
	}
	kind, ok := podtemplate.Of(schema.GroupKind{Group: gv.Group, Kind: name.Kind})
	if !ok || name.Name == "" {
		return nil
	}
	return &workload{gv.WithResource(kind.Resource), name.Kind, r.Namespace, name.Name}
}

// condition is the match condition that holds for the workload, and of all pods only for its own,
// whatever its ReplicaSets and Jobs are called. Others have kinds of the same names in groups of their own.
func (w *workload) condition() map[string]any {
	kind, named := w.kind, "o.name == "+strconv.Quote(w.name)
	switch w.kind {
	case "Deployment":
		kind, named = "ReplicaSet", fmt.Sprintf("o.name == %s + object.metadata.?labels[?'%s'].orValue('')", strconv.Quote(w.name+"-"), hashLabel)
	case "CronJob":
		kind, named = "Job", fmt.Sprintf("o.name.matches(%s)", strconv.Quote("^"+regexp.QuoteMeta(w.name)+"-[0-9]+$"))
	}
	version := "o.apiVersion == 'v1'"
	if w.Group != "" {
		version = fmt.Sprintf("o.apiVersion.startsWith('%s/')", w.Group)
	}
	return map[string]any{
		"name": "pods-of-" + strings.ToLower(w.kind),
		"expression": fmt.Sprintf("request.resource.resource != 'pods' || object.metadata.?ownerReferences.orValue([])"+
			".exists(o, o.?controller.orValue(false) && %s && o.kind == '%s' && %s)", version, kind, named),
	}
}
