package object

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Namespace returns the namespace of a name as an API server makes it of a manifest that has
// nothing else.
func Namespace(name string) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": name, "labels": map[string]any{corev1.LabelMetadataName: name}},
		"spec":     map[string]any{"finalizers": []any{string(corev1.FinalizerKubernetes)}},
		"status":   map[string]any{"phase": string(corev1.NamespaceActive)},
	}
}

// withNamespaces returns trees with the namespaces that API servers make, and with the label that
// they put on each namespace.
func withNamespaces(trees []map[string]any) []map[string]any {
	all := make([]map[string]any, 0, len(trees)+4)
	for _, name := range []string{metav1.NamespaceDefault, corev1.NamespaceNodeLease, metav1.NamespacePublic, metav1.NamespaceSystem} {
		all = append(all, Namespace(name))
	}
	all = append(all, trees...)
	for i, tree := range all {
		if kindOf(tree) == (kind{"v1", "Namespace"}) {
			all[i] = labeled(tree)
		}
	}
	return all
}

// labeled returns a namespace with the label that has its name.
func labeled(tree map[string]any) map[string]any {
	metadata, _ := tree["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	name := nameOf(tree).name
	if name == "" || labels[corev1.LabelMetadataName] == name {
		return tree
	}
	tree, metadata, labels = maps.Clone(tree), maps.Clone(metadata), maps.Clone(labels)
	if labels == nil {
		labels = map[string]any{}
	}
	labels[corev1.LabelMetadataName] = name
	metadata["labels"], tree["metadata"] = labels, metadata
	return tree
}
