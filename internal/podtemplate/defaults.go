package podtemplate

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// imageName matches the names of images, without tag and digest, that API servers can parse.
var imageName = regexp.MustCompile(`^([A-Za-z0-9.:\[\]-]+/)?[a-z0-9]+([._/-]+[a-z0-9]+)*$`)

// Defaulted returns an object with the imagePullPolicy that API servers set in containers that have none, before they
// call webhooks: in a pod, or in the template of a workload. It depends on nothing but the image. The object itself is
// not changed.
func Defaulted(object map[string]any) map[string]any {
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	of := schema.FromAPIVersionAndKind(apiVersion, kind).GroupKind()
	if path := Spec(of); path != nil {
		return replaced(object, path, pullPolicies)
	}
	return object
}

// Spec returns the path of the spec of a pod in objects of a kind, which are pods or workloads; nil if they have none.
func Spec(of schema.GroupKind) []string {
	if of == (schema.GroupKind{Kind: "Pod"}) {
		return []string{"spec"}
	}
	if w, ok := Of(of); ok {
		return w.below("spec")
	}
	return nil
}

// Containers are the fields of the spec of a pod that have containers.
func Containers() []string { return []string{"containers", "initContainers", "ephemeralContainers"} }

// replaced returns a copy of a tree with what by returns of the map at a path, if there is one.
func replaced(tree map[string]any, path []string, by func(map[string]any) map[string]any) map[string]any {
	if len(path) == 0 {
		return by(tree)
	}
	below, ok := tree[path[0]].(map[string]any)
	if !ok {
		return tree
	}
	tree = maps.Clone(tree)
	tree[path[0]] = replaced(below, path[1:], by)
	return tree
}

// pullPolicies sets the imagePullPolicy in containers of the spec of a pod.
func pullPolicies(spec map[string]any) map[string]any {
	spec = maps.Clone(spec)
	for _, list := range Containers() {
		containers, ok := spec[list].([]any)
		if !ok {
			continue
		}
		containers = slices.Clone(containers)
		spec[list] = containers
		for i := range containers {
			container, ok := containers[i].(map[string]any)
			image, isText := container["image"].(string)
			if policy := container["imagePullPolicy"]; !ok || !isText && container["image"] != nil || policy != nil && policy != "" {
				continue
			}
			container = maps.Clone(container)
			container["imagePullPolicy"] = pullPolicy(image)
			containers[i] = container
		}
	}
	return spec
}

// pullPolicy returns the default for an image: Always for the tag latest, which an image without tag and digest has.
func pullPolicy(image string) string {
	named, _, pinned := strings.Cut(image, "@")
	tag := ""
	if at := strings.LastIndexByte(named, ':'); at > strings.LastIndexByte(named, '/') {
		named, tag = named[:at], named[at+1:]
	}
	if tag == "latest" || tag == "" && !pinned && imageName.MatchString(named) {
		return "Always"
	}
	return "IfNotPresent"
}
