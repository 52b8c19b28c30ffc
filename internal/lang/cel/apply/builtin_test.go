package apply_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kinds "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	yamlv3 "go.yaml.in/yaml/v3"

	"github.com/usher-dev/usher/internal/lang/cel/apply"
)

var update = flag.Bool("update", false, "write builtin.txt")

// upstream is what the mutating plugin merges with.
func upstream() managedfields.TypeConverter {
	return applyconfigurations.NewTypeConverter(scheme.Scheme)
}

// builtin returns the kinds of Kubernetes that have a structure, in order.
func builtin(t *testing.T, converter managedfields.TypeConverter) []kinds.GroupVersionKind {
	t.Helper()
	var found []kinds.GroupVersionKind
	for kind := range scheme.Scheme.AllKnownTypes() {
		if kind.Version == runtime.APIVersionInternal || strings.HasSuffix(kind.Kind, "Options") {
			continue
		}
		stub := &unstructured.Unstructured{}
		stub.SetGroupVersionKind(kind)
		if v, err := converter.ObjectToTyped(stub); err == nil && v.TypeRef().NamedType != nil {
			found = append(found, kind)
		}
	}
	slices.SortFunc(found, func(a, b kinds.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	return found
}

// TestBuiltinIsCurrent compares builtin.txt with the structures in client-go; -update writes it.
func TestBuiltinIsCurrent(t *testing.T) {
	t.Parallel()
	converter, lines := upstream(), map[string]string{}
	for _, kind := range builtin(t, converter) {
		stub := &unstructured.Unstructured{}
		stub.SetGroupVersionKind(kind)
		v, err := converter.ObjectToTyped(stub)
		if err != nil {
			t.Fatal(err)
		}
		lines[kind.Group+"/"+kind.Version+"/"+kind.Kind] = *v.TypeRef().NamedType
		if len(lines) > 1 {
			continue
		}
		for _, def := range v.Schema().Types {
			text, err := yamlv3.Marshal(def.Atom)
			if err != nil {
				t.Fatal(err)
			}
			converted, err := yaml.YAMLToJSON(text)
			if err != nil {
				t.Fatal(err)
			}
			lines[def.Name] = string(converted)
		}
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		fmt.Fprintf(&b, "%s\t%s\n", name, lines[name])
	}
	if *update {
		if err := os.WriteFile("builtin.txt", []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := os.ReadFile("builtin.txt")
	if err != nil {
		t.Fatal(err)
	}
	if string(stored) != b.String() {
		t.Error("builtin.txt is not that of this version of client-go: run go test ./internal/lang/cel/apply -run TestBuiltinIsCurrent -update")
	}
}

func TestSchemaOfUnknownKinds(t *testing.T) {
	t.Parallel()
	types := apply.NewTypes()
	for _, kind := range []kinds.GroupVersionKind{{}, {Group: "apps", Version: "v7", Kind: "Deployment"}, {Version: "v1", Kind: "__untyped_atomic_"}} {
		if s, err := types.Schema(kind); s != nil || err != nil {
			t.Errorf("%s: %v, %v", kind, s, err)
		}
	}
}
