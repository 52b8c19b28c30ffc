package e2e

import (
	"bytes"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/internal/kind"
)

// TestRecordedKinds: policies are tried without a cluster by the kinds that this version of
// Kubernetes serves, and their schemas.
func TestRecordedKinds(t *testing.T) {
	t.Parallel()
	const file = root + "/internal/kind/recorded.jsonl"
	r := sharedRig(t)
	_, lists, err := r.kube.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	// What comes from CustomResourceDefinitions is not Kubernetes' own.
	lists = slices.DeleteFunc(lists, func(list *metav1.APIResourceList) bool {
		group, _, _ := strings.Cut(list.GroupVersion, "/")
		return strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io")
	})
	set := kind.Discovered(lists)
	paths, err := r.kube.Discovery().OpenAPIV3().Paths()
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		at := "apis/" + list.GroupVersion
		if list.GroupVersion == "v1" {
			at = "api/v1"
		}
		raw, err := paths[at].Schema(runtime.ContentTypeJSON)
		if err != nil {
			t.Fatal(err)
		}
		if err := set.AddDocument(raw); err != nil {
			t.Fatalf("%s: %v", at, err)
		}
	}
	defineOptions(t, set)
	want, err := set.Record()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("RECORD") != "" {
		if err := os.WriteFile(file, want, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the API server serves: run make trial-objects", file)
	}
}

// defineOptions adds the kinds that are sent to CONNECT, which OpenAPI has as query parameters only.
func defineOptions(t *testing.T, set *kind.Set) {
	t.Helper()
	for _, options := range []any{
		corev1.PodExecOptions{}, corev1.PodAttachOptions{}, corev1.PodPortForwardOptions{},
		corev1.PodProxyOptions{}, corev1.ServiceProxyOptions{}, corev1.NodeProxyOptions{},
	} {
		of := &kind.Schema{Type: "object", Properties: map[string]*kind.Schema{
			"apiVersion": {Type: "string"}, "kind": {Type: "string"},
		}}
		at := reflect.TypeOf(options)
		for field := range at.Fields() {
			name, more, _ := strings.Cut(field.Tag.Get("json"), ",")
			var typed kind.Schema
			switch field.Type.Kind() {
			case reflect.Bool:
				typed.Type = "boolean"
			case reflect.String:
				typed.Type = "string"
			case reflect.Slice:
				typed.Type, typed.Items = "array", &kind.Schema{Type: "string"}
				if field.Type.Elem().Kind() == reflect.Int32 {
					typed.Items.Type = "integer"
				}
			default:
				continue
			}
			of.Properties[name] = &typed
			if !strings.Contains(more, "omitempty") {
				of.Required = append(of.Required, name)
			}
		}
		if err := set.Define(schema.GroupVersionKind{Version: "v1", Kind: at.Name()}, of); err != nil {
			t.Fatal(err)
		}
	}
}
