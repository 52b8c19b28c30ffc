package try

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

// resourceRule returns the rule for one object. The exemption of an object that is created is also
// for its updates: controllers and users make them.
func resourceRule(r *usher.Request, name string, parts partsFunc) map[string]any {
	resources := []any{r.Resource.Resource}
	switch {
	case r.Subresource != "":
		resources = []any{r.Resource.Resource + "/" + r.Subresource}
	case writesObject(r):
		resources = parts(r.Resource, r.Kind)
	}
	operations := []any{string(r.Operation)}
	if r.Operation == usher.Create && r.Subresource == "" {
		operations = append(operations, string(usher.Update))
	}
	matched := map[string]any{
		"apiGroups": []any{r.Resource.Group}, "apiVersions": []any{r.Resource.Version},
		"resources": resources, "operations": operations,
	}
	if name != "" {
		matched["resourceNames"] = []any{name}
	}
	return matched
}

// rules are the resource rules for the workload and its pods.
func (w *workload) rules(parts partsFunc) []any {
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	operations := []any{string(usher.Create), string(usher.Update)}
	return []any{
		map[string]any{
			"apiGroups": []any{w.Group}, "apiVersions": []any{w.Version}, "resources": parts(w.GroupVersionResource, w.GroupVersion().WithKind(w.kind)),
			"operations": operations, "resourceNames": []any{w.name},
		},
		map[string]any{
			"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "resources": parts(pods, schema.GroupVersionKind{Version: "v1", Kind: "Pod"}), "operations": operations,
		},
	}
}

// A partsFunc returns a resource, of a kind, and those of its subresources that an exemption from it is for.
type partsFunc func(schema.GroupVersionResource, schema.GroupVersionKind) []any

// partsOf returns the scale of objects, through which kubectl scale and autoscalers change them, and what subresources
// the policies are for in which the object itself is updated: kubectl debug updates pods/ephemeralcontainers.
func (v *verdict) partsOf(refs []exemptRef) partsFunc {
	return func(resource schema.GroupVersionResource, kind schema.GroupVersionKind) []any {
		all := []any{resource.Resource}
		switch resource.Resource {
		case "deployments", "replicasets", "replicationcontrollers", "statefulsets":
			all = append(all, resource.Resource+"/scale")
		}
		parts := []string{"status"}
		if resource.Group == "" && resource.Resource == "pods" {
			parts = []string{"ephemeralcontainers", "resize", "status"}
		}
		for _, part := range parts {
			r := &usher.Request{Operation: usher.Update, Kind: kind, Resource: resource, Subresource: part, Namespace: v.request.Namespace, Name: v.request.Name}
			if slices.ContainsFunc(v.rules, func(candidate rule.Rule) bool { return reaches(&candidate, r, refs) }) {
				all = append(all, resource.Resource+"/"+part)
			}
		}
		return all
	}
}

// reaches reports whether a rule is one of policies, and for the endpoint of a request, whatever its object is.
func reaches(candidate *rule.Rule, r *usher.Request, refs []exemptRef) bool {
	if !slices.ContainsFunc(refs, func(ref exemptRef) bool {
		return ref.kind == candidate.Policy.Kind && ref.name == candidate.Policy.Name
	}) {
		return false
	}
	apiVersion, kind := r.Kind.ToAPIVersionAndKind()
	target := rule.TargetOf(r, map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": r.Name, "namespace": r.Namespace},
	})
	return candidate.Match.Matches(&target) || candidate.Match.NearlyMatches(&target)
}
