package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strings"
)

// captured is a review that an API server sent.
const captured = "door/admission/testdata/reviews/v1-create-pods.json"

// review returns the captured review of a pod, in the compact form of the protocol, with as many
// containers and managed fields as size bytes need.
func review(size int) ([]byte, error) {
	content, err := os.ReadFile(captured)
	if err != nil {
		return nil, fmt.Errorf("read review (run this in the root of the project): %w", err)
	}
	// Numbers stay as they are written.
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	var tree map[string]any
	if err := decoder.Decode(&tree); err != nil {
		return nil, fmt.Errorf("read review: %w", err)
	}
	body, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	secure(tree)
	grow(tree, 1)
	once, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	more := max(size-len(body), 0)
	grow(tree, more/(len(once)-len(body)))
	return json.Marshal(tree)
}

// secure has the pod of a review comply with the restricted Pod Security Standard.
func secure(tree map[string]any) {
	spec := tree["request"].(map[string]any)["object"].(map[string]any)["spec"].(map[string]any)
	spec["securityContext"] = map[string]any{"runAsNonRoot": true, "seccompProfile": map[string]any{"type": "RuntimeDefault"}}
	for _, container := range spec["containers"].([]any) {
		container.(map[string]any)["securityContext"] = map[string]any{
			"allowPrivilegeEscalation": false, "capabilities": map[string]any{"drop": []any{"ALL"}},
		}
	}
}

// grow adds n containers to the pod of a review.
func grow(tree map[string]any, n int) {
	object := tree["request"].(map[string]any)["object"].(map[string]any)
	spec := object["spec"].(map[string]any)
	containers := spec["containers"].([]any)[:2]
	entry := object["metadata"].(map[string]any)["managedFields"].([]any)[0].(map[string]any)
	fields := entry["fieldsV1"].(map[string]any)["f:spec"].(map[string]any)["f:containers"].(map[string]any)
	for i := range n {
		name := fmt.Sprintf("side-%04d", i)
		copied := map[string]any{}
		maps.Copy(copied, containers[1].(map[string]any))
		copied["name"] = name
		containers = append(containers, copied)
		fields[fmt.Sprintf(`k:{"name":"%s"}`, name)] = fields[`k:{"name":"side"}`]
	}
	spec["containers"] = containers
}

// sizeName is 7 KB for 7000.
func sizeName(size int) string {
	if size >= 1e6 {
		return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(size)/1e6), ".0") + " MB"
	}
	return fmt.Sprintf("%d KB", size/1000)
}
