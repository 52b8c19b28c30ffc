package decisionlog_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/observe/decisionlog"
)

// TestText: in text a reason is a sentence, and no Go value.
func TestText(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	d := usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) {
		return usher.Decision{Verdict: usher.Deny, Findings: []usher.Finding{{
			Policy: usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: "team"}, Rule: "spec.validations", Outcome: usher.Rejected,
			Checks: []usher.Check{{Name: "spec.validations[0]", Validation: "label", Field: "metadata.labels", Message: "label <team> is required", Actions: []usher.Action{usher.ActDeny}}},
		}}}, nil
	})
	if _, err := decisionlog.Wrap(d, slog.New(slog.NewTextHandler(&text, nil))).Decide(t.Context(), request("ConfigMap")); err != nil {
		t.Fatal(err)
	}
	want := `refused="ClusterObjectPolicy team spec.validations[0] (label), field metadata.labels: label <team> is required"`
	if !strings.Contains(text.String(), want) {
		t.Errorf("expected %s in %s", want, text.String())
	}
}
