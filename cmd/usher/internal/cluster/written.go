package cluster

import (
	"context"
	"io"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
)

// writtenKey is the key of the name of the policy that requests of a context write.
type writtenKey struct{}

// Writes returns the context of requests that write a policy, whose name warnings are to have.
func Writes(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, writtenKey{}, name)
}

// Warnings prints what API servers warn of as kubectl does, with the policy that it is about. It
// prints each once: a policy may be written in two requests.
func Warnings(out io.Writer) rest.WarningHandlerWithContext {
	return warnings{rest.NewWarningWriter(out, rest.WarningWriterOptions{Deduplicate: true})}
}

type warnings struct{ rest.WarningHandler }

// HandleWarningHeaderWithContext implements [rest.WarningHandlerWithContext].
func (w warnings) HandleWarningHeaderWithContext(ctx context.Context, code int, agent, text string) {
	if name, ok := ctx.Value(writtenKey{}).(string); ok {
		text = name + ": " + text
	}
	w.HandleWarningHeader(code, agent, text)
}

// Same reports whether two versions of a policy differ in their status at most.
func Same(a, b *unstructured.Unstructured) bool {
	return a.GetUID() == b.GetUID() && a.GetGeneration() == b.GetGeneration() &&
		maps.Equal(a.GetLabels(), b.GetLabels()) && maps.Equal(a.GetAnnotations(), b.GetAnnotations())
}
