package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/sandbox"
)

// TestAPIServerTakesWhatInstalls sends everything that people install Usher with to an API
// server, as a dry run with strict validation: what it does not know or would change, such
// as a misspelt field, is an error or a warning there and nowhere else.
func TestAPIServerTakesWhatInstalls(t *testing.T) {
	t.Parallel()
	r := newRig(t, sandbox.Options{})
	r.ensureNamespace(t, "usher-system")
	manifests, err := os.ReadFile(filepath.Join(root, "deploy", "manifests", "usher.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, installation := range []struct {
		name string
		text []byte
		// foreign are kinds of others, whose definitions the cluster does not have.
		foreign []string
	}{
		{"manifests", manifests, nil},
		{"chart as it is", chart(t), nil},
		{"chart with every option", chart(t, "--values", "deploy/testdata/everything.yaml"), []string{"PrometheusRule", "ServiceMonitor"}},
	} {
		t.Run(installation.name, func(t *testing.T) {
			var foreign []string
			objects := documents(t, installation.text)
			if len(objects) < 5 {
				t.Errorf("%d objects, want an installation", len(objects))
			}
			for _, object := range objects {
				resource, err := r.of(object)
				if meta.IsNoMatchError(err) {
					foreign = append(foreign, object.GetKind())
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				_, err = resource.Apply(testContext(t), object.GetName(), object, metav1.ApplyOptions{
					FieldManager: "e2e", Force: true, DryRun: dryRun,
				})
				if err != nil {
					t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
				}
			}
			if !slices.Equal(foreign, installation.foreign) {
				t.Errorf("the API server does not know %v, want %v", foreign, installation.foreign)
			}
		})
	}
}

// chart renders the chart with the pinned helm, for the namespace usher-system.
func chart(t *testing.T, args ...string) []byte {
	t.Helper()
	home := t.TempDir()
	command := exec.Command("go", append([]string{
		"tool", "-modfile=tools/go.mod", "helm", "template", "usher", "deploy/helm/usher",
		"--namespace", "usher-system", "--kube-version", "1.36.0", "--include-crds",
	}, args...)...)
	command.Dir = root
	command.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("render chart: %v: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out
}

// documents are the objects in YAML text. A key that is written twice is an error.
func documents(t *testing.T, text []byte) []*unstructured.Unstructured {
	t.Helper()
	reader := yamlutil.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	var objects []*unstructured.Unstructured
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		var tree map[string]any
		if err := yaml.UnmarshalStrict(document, &tree); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if len(tree) > 0 {
			objects = append(objects, &unstructured.Unstructured{Object: tree})
		}
	}
}
