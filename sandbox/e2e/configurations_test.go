package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/sandbox"
)

var update = flag.Bool("update", false, "write what the API server says into the tables that other tests read")

const configurations = root + "/simulate/testdata/configurations.yaml"

// What usher simulate is tested to say of webhook configurations is what the API server says.
func TestConfigurationsAreValidated(t *testing.T) {
	t.Parallel()
	r := newRig(t, sandbox.Options{})
	content, err := os.ReadFile(configurations)
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Reason string         `json:"reason"`
		Object map[string]any `json:"object"`
		Error  string         `json:"error,omitempty"`
	}
	if err := yaml.UnmarshalStrict(content, &rows); err != nil {
		t.Fatal(err)
	}
	var recorded bytes.Buffer
	for line := range strings.Lines(string(content)) {
		if strings.HasPrefix(line, "#") {
			recorded.WriteString(line)
		}
	}
	for _, row := range rows {
		said := r.refusal(t, row.Object)
		if diff := cmp.Diff(said, row.Error); diff != "" && !*update {
			t.Errorf("%s: -API server +recorded:\n%s", row.Reason, diff)
		}
		object, err := json.Marshal(row.Object)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&recorded, "- reason: %q\n  object: %s\n", row.Reason, object)
		if said != "" {
			fmt.Fprintf(&recorded, "  error: %q\n", said)
		}
	}
	if *update {
		if err := os.WriteFile(configurations, recorded.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// refusal is why the API server does not store an object, and empty if it does.
func (r *rig) refusal(t *testing.T, tree map[string]any) string {
	t.Helper()
	object := &unstructured.Unstructured{Object: tree}
	resource, err := r.of(object)
	if err != nil {
		t.Fatal(err)
	}
	_, err = resource.Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err == nil {
		return ""
	}
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || status.Status().Reason != metav1.StatusReasonInvalid {
		t.Fatalf("%s: %v", object.GetName(), err)
	}
	_, message, _ := strings.Cut(status.Status().Message, " is invalid: ")
	return message
}
