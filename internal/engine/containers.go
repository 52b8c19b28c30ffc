package engine

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/internal/podtemplate"
	"github.com/usher-dev/usher/internal/rule"

	usher "github.com/usher-dev/usher"
)

// podSpec returns the path of the spec of a pod in the object, nil if it has none.
func (s *state) podSpec() []string {
	kind := s.request.Kind.GroupKind()
	if kind.Empty() {
		version, _ := s.tree["apiVersion"].(string)
		name, _ := s.tree["kind"].(string)
		kind = schema.FromAPIVersionAndKind(version, name).GroupKind()
	}
	return podtemplate.Spec(kind)
}

// lacksContainers returns why an exemption for images is not for the request. It has the containers
// decoded.
func (j *judging) lacksContainers(images []rule.Pattern) string {
	at := j.podSpec()
	switch {
	case j.request.Phase != usher.Validate:
		return "its images are for validations: it does not exempt from changes"
	case at == nil:
		return "its images are for pods and workloads"
	}
	object, old := j.paths.Clone(), j.oldPaths.Clone()
	for _, field := range podtemplate.Containers() {
		object.Add(append(slices.Clone(at), field)...)
		old.Add(append(slices.Clone(at), field)...)
	}
	if j.widen(object) != nil || j.widenOld(old) != nil {
		return "the containers of the object cannot be read"
	}
	if _, removed := withoutContainers(j.tree, at, images); removed == 0 {
		return "its images are those of no container"
	}
	return ""
}

// withoutContainers returns an object without the containers of images in the spec of its pod, and
// how many these are. The object does not change.
func withoutContainers(object map[string]any, spec []string, images []rule.Pattern) (without map[string]any, removed int) {
	if len(spec) > 0 {
		inner, ok := object[spec[0]].(map[string]any)
		if !ok {
			return object, 0
		}
		inner, removed = withoutContainers(inner, spec[1:], images)
		if removed == 0 {
			return object, 0
		}
		without = maps.Clone(object)
		without[spec[0]] = inner
		return without, removed
	}
	without = maps.Clone(object)
	for _, field := range podtemplate.Containers() {
		list, ok := object[field].([]any)
		if !ok {
			continue
		}
		kept := slices.DeleteFunc(slices.Clone(list), func(container any) bool { return isOf(container, images) })
		removed += len(list) - len(kept)
		without[field] = kept
	}
	return without, removed
}

func isOf(container any, images []rule.Pattern) bool {
	fields, _ := container.(map[string]any)
	image, ok := fields["image"].(string)
	return ok && slices.ContainsFunc(images, func(p rule.Pattern) bool { return p.Matches(image) })
}
