package objects

import (
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// An Origin is the file from which a tool made an object that was read from the standard input.
type Origin struct {
	// Path is relative and has slashes; empty if it is not known.
	Path string
	// Chart says that Path begins with the name of a Helm chart, in place of its folder.
	Chart bool
}

// In returns the path of the file in a folder, which is that of the chart, or of the kustomization.
// It is empty if the file is not known, or not among the files that the folder's path leads to.
func (o Origin) In(folder string) string {
	switch {
	case o.Path == "":
		return ""
	case folder != "" && o.Chart:
		_, below, _ := strings.Cut(o.Path, "/")
		return local(path.Join(folder, below))
	}
	return local(path.Join(folder, o.Path))
}

// local returns a path that does not lead out of the folder that it begins in; empty if it does.
func local(name string) string {
	if path.IsAbs(name) || !filepath.IsLocal(filepath.FromSlash(name)) {
		return ""
	}
	return name
}

// helmSource is the comment that helm writes above what a template renders.
var helmSource = regexp.MustCompile(`(?m)^# Source: ([^\s].*?)\s*$`)

// originAnnotation is where kustomize writes the origin of an object, with buildMetadata: [originAnnotations].
const originAnnotation = "config.kubernetes.io/origin"

// originOf returns the origin of an object in a document.
func originOf(document []byte, object map[string]any) Origin {
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if text, ok := annotations[originAnnotation].(string); ok {
		var origin struct{ Path, Repo string }
		if yaml.Unmarshal([]byte(text), &origin) == nil && origin.Repo == "" && !path.IsAbs(origin.Path) {
			return Origin{Path: origin.Path}
		}
		return Origin{}
	}
	found := helmSource.FindSubmatch(document)
	if found == nil {
		return Origin{}
	}
	return Origin{Path: local(string(found[1])), Chart: true}
}
