package manifest

import (
	"fmt"
	"strings"
)

// Each calls visit with an object, or with each item of one that is a list, and of the lists in
// it. Items of a list of one kind, which API servers send without apiVersion and kind, get those.
// It stops at the first error, and says where the item is.
func Each(object map[string]any, visit func(object map[string]any) error) error {
	kind, _ := object["kind"].(string)
	items, isList := object["items"].([]any)
	itemKind, ok := strings.CutSuffix(kind, "List")
	if !ok || !isList {
		return visit(object)
	}
	for i, item := range items {
		tree, ok := item.(map[string]any)
		if !ok {
			return fmt.Errorf("items[%d]: not an object", i)
		}
		if tree["apiVersion"] == nil && tree["kind"] == nil && itemKind != "" {
			tree["apiVersion"], tree["kind"] = object["apiVersion"], itemKind
		}
		if err := Each(tree, visit); err != nil {
			return fmt.Errorf("items[%d]: %w", i, err)
		}
	}
	return nil
}
