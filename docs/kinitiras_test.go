package docs_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
)

// pages returns the reference of the language, by path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("kinitiras/*.md")
	if err != nil || len(paths) == 0 {
		t.Fatalf("there are no pages below docs/kinitiras: %v", err)
	}
	texts := map[string]string{}
	for _, path := range append(paths, "kinitiras.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts[path] = string(text)
	}
	return texts
}

// code matches what a page shows as code: fenced blocks, and spans in tables and sentences.
var code = regexp.MustCompile("(?s)```.*?\n```|`[^`\n]+`")

// documented returns the words that the pages show as code.
func documented(t *testing.T) map[string]bool {
	t.Helper()
	words := map[string]bool{}
	for _, text := range pages(t) {
		for _, span := range code.FindAllString(text, -1) {
			for _, word := range regexp.MustCompile(`[^\w*+/-]+`).Split(span, -1) {
				words[word] = true
			}
		}
	}
	return words
}

// TestEveryFieldIsDocumented compares the API types with the reference.
func TestEveryFieldIsDocumented(t *testing.T) {
	t.Parallel()
	words := documented(t)
	seen := map[reflect.Type]bool{}
	fields := 0
	var walk func(reflect.Type, string)
	walk = func(of reflect.Type, path string) {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
			of = of.Elem()
		}
		// What Kubernetes defines is documented there.
		if of.Kind() != reflect.Struct || of.PkgPath() != reflect.TypeFor[v1alpha1.OverridePolicy]().PkgPath() || seen[of] {
			return
		}
		seen[of] = true
		for field := range fieldsOf(of) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name != "" {
				fields++
			}
			if name != "" && !words[name] {
				t.Errorf("%s.%s occurs on no page below docs/kinitiras: describe it", path, name)
			}
			walk(field.Type, path+"."+name)
		}
	}
	for _, kind := range []any{v1alpha1.OverridePolicy{}, v1alpha1.ClusterOverridePolicy{}, v1alpha1.ClusterValidatePolicy{}} {
		walk(reflect.TypeOf(kind), reflect.TypeOf(kind).Name())
	}
	if fields < 80 {
		t.Errorf("only %d fields were found", fields)
	}
}

func fieldsOf(of reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for field := range of.Fields() {
			if !yield(field) {
				return
			}
		}
	}
}

// TestEveryValueIsDocumented compares the enumerations of the CRDs with the reference.
func TestEveryValueIsDocumented(t *testing.T) {
	t.Parallel()
	words := documented(t)
	paths, err := filepath.Glob("../deploy/crds/policy.kcloudlabs.io_*.yaml")
	if err != nil || len(paths) != 3 {
		t.Fatalf("found %d CRDs of policy.kcloudlabs.io, want 3: %v", len(paths), err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var crd any
		if err := yaml.Unmarshal(text, &crd); err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, value := range enumerated(crd) {
			found++
			if !words[value] {
				t.Errorf("%s: the value %s occurs on no page below docs/kinitiras: describe it", path, value)
			}
		}
		if found < 8 {
			t.Errorf("%s: only %d values were found", path, found)
		}
	}
}

// enumerated returns the strings in all enumerations of a schema.
func enumerated(schema any) []string {
	var values []string
	switch schema := schema.(type) {
	case map[string]any:
		for key, value := range schema {
			list, _ := value.([]any)
			if key == "enum" {
				for _, item := range list {
					if text, ok := item.(string); ok {
						values = append(values, text)
					}
				}
			}
			values = append(values, enumerated(value)...)
		}
	case []any:
		for _, item := range schema {
			values = append(values, enumerated(item)...)
		}
	}
	return values
}

// TestEveryExampleIsAFile checks that what pages show is in a file, which the console test
// compares, and that every file with policies is shown or named.
func TestEveryExampleIsAFile(t *testing.T) {
	t.Parallel()
	texts := pages(t)
	for path, text := range texts {
		lines := strings.Split(text, "\n")
		for i, line := range lines {
			if line == "```yaml" && (i == 0 || !strings.HasPrefix(lines[i-1], "<!-- file: ")) {
				t.Errorf("docs/%s:%d: the example is no file: name one in a comment above, <!-- file: PATH -->", path, i+1)
			}
		}
	}
	all := strings.Join(slices.Collect(maps.Values(texts)), "\n")
	for _, dir := range []string{"docs/kinitiras/testdata", "examples/cookbook"} {
		err := fs.WalkDir(os.DirFS(root), dir, func(path string, entry fs.DirEntry, err error) error {
			isCase := strings.HasSuffix(path, "_test.yaml") || strings.HasSuffix(path, "/cases.yaml")
			if err == nil && !entry.IsDir() && !isCase && !named(all, path, dir) {
				t.Errorf("%s is on no page below docs/kinitiras: show it, or remove it", path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func named(pages, path, dir string) bool {
	return strings.Contains(pages, path) || strings.Contains(pages, strings.TrimPrefix(path, filepath.Dir(dir)+"/"))
}

// TestEveryFieldIsExplained checks what kubectl explain says: something about each field of
// the spec, which no limit has cut off.
func TestEveryFieldIsExplained(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../deploy/crds/policy.kcloudlabs.io_*.yaml")
	if err != nil || len(paths) != 3 {
		t.Fatalf("found %d CRDs of policy.kcloudlabs.io, want 3: %v", len(paths), err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var crd struct {
			Spec struct {
				Versions []struct {
					Schema struct{ OpenAPIV3Schema schema }
				}
			}
		}
		if err := yaml.Unmarshal(text, &crd); err != nil {
			t.Fatal(err)
		}
		for _, version := range crd.Spec.Versions {
			spec := version.Schema.OpenAPIV3Schema.Properties["spec"]
			if fields := spec.explained(t, path+": spec"); fields < 50 {
				t.Errorf("%s: only %d fields were found", path, fields)
			}
		}
	}
}

// A schema is what matters here of the schema of a field.
type schema struct {
	Description string
	Properties  map[string]schema
	Items       *schema
}

// explained reports fields without a whole sentence, and returns how many there are.
func (s *schema) explained(t *testing.T, path string) int {
	t.Helper()
	if s.Items != nil {
		return s.Items.explained(t, path+"[]")
	}
	fields := 0
	for name, field := range s.Properties {
		fields++
		if !strings.HasSuffix(field.Description, ".") {
			t.Errorf("%s.%s: explained by %q, which is no whole sentence", path, name, field.Description)
		}
		// What Kubernetes defines is explained there.
		if !slices.Contains([]string{"affinity", "labelSelector", "resourceRequirements", "resources", "tolerations", "topologySpreadConstraints"}, name) {
			fields += field.explained(t, path+"."+name)
		}
	}
	return fields
}
