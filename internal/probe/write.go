package probe

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
)

// A Writer writes a question to an API server as a dry run, and returns the warnings that came
// with the answer.
type Writer interface {
	Write(ctx context.Context, question string) (warnings []string, err error)
}

// DeletedError reports that a policy with the name of the probe is being deleted: API servers do
// not send writes of it.
type DeletedError struct{}

// Error implements error.
func (DeletedError) Error() string {
	return fmt.Sprintf("the %s %s is being deleted: remove its finalizers, nothing of Usher needs it", kind, Name)
}

// Through returns a Writer that uses server-side apply, whose rights can be limited to the name of
// the object that it creates. It needs create and patch of the ClusterValidatePolicy [Name].
//
// After each write the connections of the client, which nobody else should use, are closed: of
// several API servers behind one address the next write may meet another one.
func Through(client rest.Interface, connections *http.Client) Writer {
	return &writer{client: client, connections: connections}
}

type writer struct {
	client      rest.Interface
	connections *http.Client
}

// Write implements [Writer].
func (w *writer) Write(ctx context.Context, question string) ([]string, error) {
	body, err := json.Marshal(map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": kind,
		"metadata": map[string]any{"name": Name, "labels": map[string]string{compat: "enabled"}, "annotations": map[string]string{Annotation: question}},
		// A replica with another key takes it for a policy, and denies it: the webhook was called.
		"spec": map[string]any{"validateRules": []any{map[string]any{"cue": "This does not compile."}}},
	})
	if err != nil {
		return nil, err
	}
	if w.connections != nil {
		defer utilnet.CloseIdleConnectionsFor(w.connections.Transport)
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	result := w.client.Patch(types.ApplyPatchType).
		AbsPath("/apis", v1alpha1.GroupVersion.Group, v1alpha1.GroupVersion.Version, resource, Name).
		Param("fieldManager", Name).Param("force", "true").Param("dryRun", metav1.DryRunAll).
		SetHeader("Accept", "application/json").WarningHandlerWithContext(rest.NoWarnings{}).
		MaxRetries(0).Body(body).Do(ctx)
	written, err := result.Raw()
	if err != nil {
		return nil, result.Error()
	}
	var stored metav1.PartialObjectMetadata
	if err := json.Unmarshal(written, &stored); err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	if stored.DeletionTimestamp != nil {
		return nil, DeletedError{}
	}
	var warnings []string
	for _, warning := range result.Warnings() {
		warnings = append(warnings, warning.Text)
	}
	return warnings, nil
}
