// Package crds has the CustomResourceDefinitions of the kinds of policies.
package crds

import (
	"embed"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

//go:embed *.yaml
var files embed.FS

// Of returns the CustomResourceDefinition of a resource, as YAML.
func Of(resource schema.GroupResource) ([]byte, error) {
	text, err := files.ReadFile(resource.Group + "_" + resource.Resource + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("read CustomResourceDefinition: %w", err)
	}
	return text, nil
}
