package convert

import (
	"encoding/json"
	"fmt"

	kjson "sigs.k8s.io/json"

	"github.com/usher-dev/usher/api"
)

// Documents returns policies as they are printed.
func Documents(policies []api.Object) ([]map[string]any, error) {
	var all []map[string]any
	for _, o := range policies {
		raw, err := json.Marshal(o)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", refOf(o), err)
		}
		var tree map[string]any
		if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &tree); err != nil {
			return nil, fmt.Errorf("encode %s: %w", refOf(o), err)
		}
		delete(tree, "status")
		if metadata, ok := tree["metadata"].(map[string]any); ok {
			delete(metadata, "creationTimestamp")
		}
		all = append(all, tree)
	}
	return all, nil
}
