package deploy_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

const (
	chart      = "deploy/helm/usher"
	everything = "deploy/testdata/everything.yaml"
	namespace  = "usher-system"
	// kubernetes is the version that charts are rendered for.
	kubernetes = "1.36.0"
)

// pinned is the file of the pinned helm: go takes longer to find it than it takes to render the chart.
var pinned = sync.OnceValues(func() (string, error) {
	command := exec.Command("go", "tool", "-modfile=tools/go.mod", "-n", "helm")
	command.Dir = ".."
	file, err := command.Output()
	return strings.TrimSpace(string(file)), err
})

// helm runs the pinned helm from the root of the module, without the user's settings.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	file, err := pinned()
	if err != nil {
		return "", err
	}
	home := t.TempDir()
	command := exec.Command(file, args...)
	command.Dir = ".."
	command.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return stdout.String() + stderr.String(), err
	}
	return stdout.String(), nil
}

// A rendering is the chart with some values.
type rendering struct {
	name string
	args []string

	once sync.Once
	text string
	err  error
}

// renderings are the ways in which people install Usher.
var renderings = []*rendering{
	{name: "default"},
	{name: "everything", args: []string{"--values", everything}},
	{name: "nothing", args: []string{
		"--set", "replicas=1,webhookConfiguration.enabled=false,metrics.enabled=false,facts.owners=false,serviceAccount.create=false",
		"--set", "priorityClassName=,goMemLimit=",
	}},
}

// objects renders the chart and decodes what comes out, strictly: unknown fields and keys
// that are written twice are errors.
func (r *rendering) objects(t *testing.T) []runtime.Object {
	t.Helper()
	r.once.Do(func() { r.text, r.err = template(t, r.args...) })
	if r.err != nil {
		t.Fatalf("helm template: %v\n%s", r.err, r.text)
	}
	return decode(t, []byte(r.text))
}

func template(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return helm(t, append([]string{"template", "usher", chart, "--namespace", namespace, "--kube-version", kubernetes}, args...)...)
}

func decode(t *testing.T, text []byte) []runtime.Object {
	t.Helper()
	reader := yamlutil.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	var objects []runtime.Object
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
		if len(tree) == 0 {
			continue
		}
		if tree["kind"] == "ServiceMonitor" || tree["kind"] == "PrometheusRule" {
			objects = append(objects, &unstructured.Unstructured{Object: tree})
			continue
		}
		object, _, err := decoder().Decode(document, nil, nil)
		if err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		objects = append(objects, object)
	}
}

// decoder knows the kinds of Kubernetes.
var decoder = sync.OnceValue(func() runtime.Decoder {
	kinds := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(kinds), apiextensionsv1.AddToScheme(kinds)); err != nil {
		panic(err)
	}
	return json.NewSerializerWithOptions(json.DefaultMetaFactory, kinds, kinds, json.SerializerOptions{Yaml: true, Strict: true})
})

// only returns the objects of one type.
func only[T runtime.Object](objects []runtime.Object) []T {
	var found []T
	for _, object := range objects {
		if o, ok := object.(T); ok {
			found = append(found, o)
		}
	}
	return found
}

// one returns the one object of a type.
func one[T runtime.Object](t *testing.T, objects []runtime.Object) T {
	t.Helper()
	found := only[T](objects)
	if len(found) != 1 {
		t.Fatalf("%d objects of type %T, want 1", len(found), *new(T))
	}
	return found[0]
}
