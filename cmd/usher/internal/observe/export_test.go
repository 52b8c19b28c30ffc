package observe

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// Pages is pages.
func Pages(ctx context.Context, from dynamic.ResourceInterface, each func(*unstructured.UnstructuredList) error) error {
	return pages(ctx, from, each)
}
