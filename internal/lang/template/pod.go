package template

// A pod is where an object has its pod: itself, or a template in it.
type pod struct {
	at   string
	spec map[string]any
}

// podPlaces are the places of the spec of a pod; the first that exists is used: Deployment and
// similar kinds, CronJob, Pod, PodTemplate. The structure decides, not the kind, so that custom
// workloads work, too.
var podPlaces = []spot{
	inObject("spec", "template", "spec"),
	inObject("spec", "jobTemplate", "spec", "template", "spec"),
	inObject("spec"),
	inObject("template", "spec"),
}

// noPod is the pod of objects without one: edits of it fail because the parent is missing.
const noPod = "/spec"

func podOf(object map[string]any) pod {
	for i := range podPlaces {
		v, _ := follow(object, podPlaces[i].keys)
		if spec, ok := v.(map[string]any); ok {
			return pod{at: podPlaces[i].path, spec: spec}
		}
	}
	return pod{at: noPod}
}

// podField is podOf in CUE.
func podField() field {
	var items []string
	for i := range podPlaces {
		c := condition{at: podPlaces[i], form: aMap}
		items = append(items, comprehension("", []string{c.cue()}, []field{
			{"at", literal(podPlaces[i].path)},
			{"spec", podPlaces[i].expr},
		}))
	}
	items = append(items, block([]field{{"at", literal(noPod)}, {"spec", "{}"}}))
	return field{"pod", first(items...)}
}
