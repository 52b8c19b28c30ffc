package spec_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/conformance/internal/spec"
)

func TestNewDropsTags(t *testing.T) {
	t.Parallel()
	text := "[sig-api-machinery] AdmissionWebhook [Privileged:ClusterAdmin] should mutate everything except 'skip-me' configmaps [Conformance]"
	got := spec.New(text, "webhook.go:874")
	want := spec.Spec{Text: text, Name: "AdmissionWebhook should mutate everything except 'skip-me' configmaps", Location: "webhook.go:874"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	if want := "admissionwebhook-should-mutate-everything-except-skip-me-configmaps"; got.Slug() != want {
		t.Errorf("slug %q, want %q", got.Slug(), want)
	}
}
