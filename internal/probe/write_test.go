package probe_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/usher-dev/usher/internal/probe"
)

// TestWriter: what is written is a dry run of one object, and the warnings come back.
func TestWriter(t *testing.T) {
	t.Parallel()
	type seen struct {
		Method, Path, Query, ContentType string
		Object                           map[string]any
	}
	var got seen
	answer := func(w http.ResponseWriter) {}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = seen{Method: r.Method, Path: r.URL.Path, Query: r.URL.Query().Encode(), ContentType: r.Header.Get("Content-Type")}
		if err := json.NewDecoder(r.Body).Decode(&got.Object); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		answer(w)
	}))
	t.Cleanup(server.Close)
	client, err := rest.UnversionedRESTClientFor(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{
		NegotiatedSerializer: scheme.Codecs.WithoutConversion(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	w := probe.Through(client, client.Client)

	answer = func(w http.ResponseWriter) {
		w.Header().Add("Warning", `299 - "one"`)
		w.Header().Add("Warning", `299 - "two"`)
		_, _ = w.Write([]byte(`{"metadata": {"name": "usher-probe"}}`))
	}
	warnings, err := w.Write(t.Context(), "the question")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"one", "two"}, warnings); d != "" {
		t.Errorf("warnings (-want +got):\n%s", d)
	}
	want := seen{
		Method: http.MethodPatch, Path: "/apis/policy.kcloudlabs.io/v1alpha1/clustervalidatepolicies/usher-probe",
		Query: "dryRun=All&fieldManager=usher-probe&force=true", ContentType: "application/apply-patch+yaml",
		Object: map[string]any{
			"apiVersion": "policy.kcloudlabs.io/v1alpha1", "kind": "ClusterValidatePolicy",
			"metadata": map[string]any{
				"name": "usher-probe", "labels": map[string]any{"kinitiras.kcloudlabs.io/webhook": "enabled"}, "annotations": map[string]any{"usher.dev/probe": "the question"},
			},
			"spec": map[string]any{"validateRules": []any{map[string]any{"cue": "This does not compile."}}},
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("write (-want +got):\n%s", d)
	}

	answer = func(w http.ResponseWriter) {
		_, _ = w.Write([]byte(`{"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}`))
	}
	if _, err := w.Write(t.Context(), "x"); !errors.As(err, &probe.DeletedError{}) {
		t.Errorf("a policy that is being deleted: %v", err)
	}
	answer = func(w http.ResponseWriter) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403, "message": "cannot patch"}`))
	}
	if _, err := w.Write(t.Context(), "x"); !apierrors.IsForbidden(err) || err.Error() != "cannot patch" {
		t.Errorf("a refusal: %v", err)
	}
}
