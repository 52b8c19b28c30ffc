package deploy_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// TestFieldsOnlyGrow holds the promise of docs/upgrading.md: within a version of the API, fields are
// added, and none is removed, renamed, given another type, or made required. Fields that users
// have seen are in testdata/fields.txt; with $RECORD those that are new are added.
func TestFieldsOnlyGrow(t *testing.T) {
	t.Parallel()
	const recorded = "testdata/fields.txt"
	now := fields(t)
	text, err := os.ReadFile(recorded)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, kind, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		seen[name] = kind
		switch got, ok := now[name]; {
		case !ok:
			t.Errorf("%s is gone: keep the field, or serve a new version of the API beside this one", name)
		case got != kind:
			t.Errorf("%s is %s and was %s: policies that were written for it would be refused, or mean something else", name, got, kind)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		parent := strings.TrimRight(name[:strings.LastIndex(name, ".")], "[]{}")
		if _, ok := seen[name]; !ok && strings.HasSuffix(now[name], "required") && seen[parent] != "" {
			t.Errorf("%s is new and required: policies that exist do not have it", name)
		}
	}
	if os.Getenv("RECORD") != "" {
		maps.Copy(seen, now)
		lines := []string{"# Fields that users have seen. Written by: RECORD=1 go test ./deploy -run TestFieldsOnlyGrow"}
		for _, name := range slices.Sorted(maps.Keys(seen)) {
			lines = append(lines, name+" "+seen[name])
		}
		if err := os.WriteFile(recorded, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// fields returns every field of every version of the definitions, with its type.
func fields(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("crds/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d definitions, %v", len(files), err)
	}
	all := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var definition apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(text, &definition); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, version := range definition.Spec.Versions {
			addFields(all, definition.Spec.Group+"/"+version.Name+"/"+definition.Spec.Names.Kind, version.Schema.OpenAPIV3Schema)
		}
	}
	return all
}

func addFields(all map[string]string, path string, schema *apiextensionsv1.JSONSchemaProps) {
	for name, property := range schema.Properties {
		kind := property.Type
		if kind == "" {
			kind = "any"
		}
		if slices.Contains(schema.Required, name) {
			kind += " required"
		}
		all[path+"."+name] = kind
		addFields(all, path+"."+name, &property)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		addFields(all, path+"[]", schema.Items.Schema)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		addFields(all, path+"{}", schema.AdditionalProperties.Schema)
	}
}
