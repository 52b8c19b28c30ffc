package interpret

import "strings"

// images returns what expressions read of the images of an object: by list and name of the container.
func images(object map[string]any) map[string]any {
	spec, _ := object["spec"].(map[string]any)
	switch kindOfObject(object).kind {
	case "Pod":
	case "CronJob":
		job, _ := spec["jobTemplate"].(map[string]any)
		spec, _ = job["spec"].(map[string]any)
		spec = template(spec)
	case "DaemonSet", "Deployment", "StatefulSet", "ReplicaSet", "ReplicationController", "Job":
		spec = template(spec)
	default:
		return nil
	}
	all := map[string]any{}
	for _, list := range []string{"initContainers", "containers", "ephemeralContainers"} {
		containers, _ := spec[list].([]any)
		of := map[string]any{}
		for _, c := range containers {
			container, _ := c.(map[string]any)
			name, _ := container["name"].(string)
			if image, ok := container["image"].(string); ok && image != "" {
				of[name] = imageOf(image)
			}
		}
		if len(of) > 0 {
			all[list] = of
		}
	}
	return all
}

func template(spec map[string]any) map[string]any {
	of, _ := spec["template"].(map[string]any)
	spec, _ = of["spec"].(map[string]any)
	return spec
}

// imageOf returns the parts of the name of an image.
func imageOf(image string) map[string]any {
	rest, digest, _ := strings.Cut(image, "@")
	tag := ""
	if at := strings.LastIndex(rest, ":"); at > strings.LastIndex(rest, "/") {
		rest, tag = rest[:at], rest[at+1:]
	}
	registry, path := "docker.io", rest
	if first, after, ok := strings.Cut(rest, "/"); ok && (strings.ContainsAny(first, ".:") || first == "localhost") {
		registry, path = first, after
	}
	name := path[strings.LastIndex(path, "/")+1:]
	if tag == "" && digest == "" {
		tag = "latest"
	}
	reference, tagged := registry+"/"+path, registry+"/"+path+":"+tag
	if digest != "" {
		reference += "@" + digest
	} else {
		reference = tagged
	}
	of := map[string]any{"registry": registry, "path": path, "name": name, "reference": reference, "referenceWithTag": tagged}
	if tag != "" {
		of["tag"] = tag
	}
	if digest != "" {
		of["digest"] = digest
	}
	return of
}
