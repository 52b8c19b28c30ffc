package probe

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
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
	return &writer{client, connections, []string{v1alpha1.GroupVersion.Group, v1alpha1.GroupVersion.Version, resource}, map[string]any{
		"kind": kind, "metadata": map[string]any{"labels": map[string]string{compat: "enabled"}},
		// A replica with another key takes it for a policy, and denies it: the webhook was called.
		"spec": map[string]any{"validateRules": []any{map[string]any{"cue": "This does not compile."}}},
	}}
}

// ThroughClosed is like [Through], with an object that goes to an entry which API servers always fail closed: a
// ClusterPolicyExemption that names no policy.
func ThroughClosed(client rest.Interface, connections *http.Client) Writer {
	version := usherv1alpha1.GroupVersion
	return &writer{client, connections, []string{version.Group, version.Version, "clusterpolicyexemptions"}, map[string]any{
		"kind": "ClusterPolicyExemption", "metadata": map[string]any{}, "spec": map[string]any{},
	}}
}

type writer struct {
	client      rest.Interface
	connections *http.Client
	path        []string
	object      map[string]any
}

// Write implements [Writer].
func (w *writer) Write(ctx context.Context, question string) ([]string, error) {
	object := maps.Clone(w.object)
	metadata, _ := object["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	metadata["name"], metadata["annotations"] = Name, map[string]string{Annotation: question}
	object["metadata"], object["apiVersion"] = metadata, w.path[0]+"/"+w.path[1]
	body, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	if w.connections != nil {
		defer utilnet.CloseIdleConnectionsFor(w.connections.Transport)
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	result := w.client.Patch(types.ApplyPatchType).
		AbsPath("/apis").Suffix(append(slices.Clip(w.path), Name)...).
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
