package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// A worst is a policy of a tenant who tries to keep others from being served.
type worst struct {
	policy *unstructured.Unstructured
	// meets is what the policy is evaluated for: the ConfigMap that somebody creates, or nil if the policy is
	// about access to the ConfigMap that has the name of the policy.
	meets *unstructured.Unstructured
}

// worstFiles are templates, since most of these policies are long: the first line of each says what it does.
const worstFiles = "testdata/tenant"

// worstHeads are the beginnings of documents: of policies, and of objects that meet them. %N is the name, which
// objects have in a label, and %S the namespace. An object with the label "all" meets all of them.
var worstHeads = map[string]string{
	"policy": `---
apiVersion: usher.dev/v1alpha1
kind: ObjectPolicy
metadata: {name: %N, namespace: %S}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
    objectSelector: {matchExpressions: [{key: meets, operator: In, values: [%N, all]}]}`,
	"override": `---
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: OverridePolicy
metadata: {name: %N, namespace: %S}
spec:
  resourceSelectors: [{apiVersion: v1, kind: ConfigMap, labelSelector: {matchExpressions: [{key: meets, operator: In, values: [%N, all]}]}}]
  overrideRules:
  - targetOperations: [CREATE]
    overriders:`,
	"authorization": `---
apiVersion: usher.dev/v1alpha1
kind: AuthorizationPolicy
metadata: {name: %N, namespace: %S}
spec:
  effect: Allow
  subjects: [{users: [bob]}]
  rules: [{verbs: [get], apiGroups: [""], resources: [configmaps], names: [%N]}]`,
	"object": `---
apiVersion: v1
kind: ConfigMap
metadata: {name: %N, namespace: %S, labels: {meets: %N}}`,
}

// worstPolicies returns the policies in the files, as policies of a namespace.
func worstPolicies(t *testing.T, namespace string) []worst {
	t.Helper()
	files, err := fs.Glob(os.DirFS(worstFiles), "*.yaml.tmpl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in %s: %v", worstFiles, err)
	}
	var all []worst
	for _, file := range files {
		for _, o := range renderWorst(t, file, namespace) {
			switch last := len(all) - 1; {
			case o.GetKind() != "ConfigMap":
				all = append(all, worst{policy: o})
			case last < 0 || all[last].policy.GetName() != o.GetName():
				t.Fatalf("%s: the object %s follows no policy of that name", file, o.GetName())
			default:
				all[last].meets = o
			}
		}
	}
	return all
}

// renderWorst returns the objects in a file.
func renderWorst(t *testing.T, file, namespace string) []*unstructured.Unstructured {
	t.Helper()
	stem := strings.TrimSuffix(file, ".yaml.tmpl")
	functions := template.FuncMap{
		"next":   func(n int) int { return n + 1 },
		"repeat": func(n int, text string) string { return strings.Repeat(text, n) },
		"text":   func(n int) string { return strings.Repeat("a", n) },
	}
	for kind, head := range worstHeads {
		functions[kind] = func(variant ...int) string {
			name := stem
			for _, n := range variant {
				name += fmt.Sprint("-", n)
			}
			return strings.NewReplacer("%N", name, "%S", namespace).Replace(head)
		}
	}
	parsed, err := template.New(file).Funcs(functions).ParseFiles(filepath.Join(worstFiles, file))
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := parsed.Execute(&text, nil); err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for documents := yaml.NewYAMLOrJSONDecoder(&text, 4096); ; {
		object := &unstructured.Unstructured{}
		err := documents.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}
