package deploy_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// TestAlertRules: the chart installs the rules of the plain file.
func TestAlertRules(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("helm/usher/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]any
	if err := yaml.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	found := false
	rendered, err := template(t, "--set", "metrics.prometheusRule.enabled=true")
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range decode(t, []byte(rendered)) {
		tree, ok := object.(*unstructured.Unstructured)
		if !ok || tree.GetKind() != "PrometheusRule" {
			continue
		}
		found = true
		if diff := cmp.Diff(want, tree.Object["spec"]); diff != "" {
			t.Errorf("-file +chart:\n%s", diff)
		}
	}
	if !found {
		t.Error("the chart has no PrometheusRule")
	}
}
