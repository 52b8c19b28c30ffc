package simulate_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/simulate"
)

// Webhook configurations that an API server refuses are refused with its words.
func TestConfigurationsAreValidated(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("testdata/configurations.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Reason string         `json:"reason"`
		Object map[string]any `json:"object"`
		Error  string         `json:"error"`
	}
	if err := yaml.UnmarshalStrict(content, &rows); err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, row := range rows {
		t.Run(row.Reason, func(t *testing.T) {
			want, got := "", ""
			if row.Error != "" {
				refused++
				want = "admissionregistration.k8s.io/v1 " + row.Object["kind"].(string) + " " + row.Object["metadata"].(map[string]any)["name"].(string) + ": " + row.Error
			}
			if _, err := simulate.FromObjects([]map[string]any{row.Object}); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-API server +simulate:\n%s", diff)
			}
		})
	}
	if refused < 60 {
		t.Errorf("%d configurations are refused, want 60 or more", refused)
	}
}
