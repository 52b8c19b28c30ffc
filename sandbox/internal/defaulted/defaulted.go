// Package defaulted fills in the defaults of Kubernetes' objects with the code of the API server.
package defaulted

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	// What the API server serves.
	_ "k8s.io/kubernetes/pkg/controlplane"
	"sigs.k8s.io/yaml"
)

// Objects returns the objects of a list in YAML with their names and defaults, one per line.
func Objects(list []byte) ([]byte, error) {
	var seeds []map[string]any
	if err := yaml.UnmarshalStrict(list, &seeds); err != nil {
		return nil, fmt.Errorf("decode seeds: %w", err)
	}
	var out []byte
	for _, seed := range seeds {
		object, err := withDefaults(seed)
		if err != nil {
			return nil, fmt.Errorf("default %v %v: %w", seed["apiVersion"], seed["kind"], err)
		}
		line, err := json.Marshal(object)
		if err != nil {
			return nil, err
		}
		out = append(append(out, line...), '\n')
	}
	return out, nil
}

func withDefaults(seed map[string]any) (map[string]any, error) {
	raw, err := json.Marshal(seed)
	if err != nil {
		return nil, err
	}
	object, kind, err := legacyscheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
	if err != nil {
		return nil, err
	}
	legacyscheme.Scheme.Default(object)
	object.(metav1.Object).SetName("x")
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	tree["apiVersion"], tree["kind"] = kind.ToAPIVersionAndKind()
	// The status is not part of the defaults: controllers set it later.
	delete(tree, "status")
	delete(tree["metadata"].(map[string]any), "creationTimestamp")
	return tree, nil
}
