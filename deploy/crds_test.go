package deploy_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api"
)

// API servers refuse definitions whose rules could take too long, among other things.
func TestCRDsAreValid(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("crds/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d definitions, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			definition := &apiextensionsv1.CustomResourceDefinition{}
			if err := yaml.UnmarshalStrict(text, definition); err != nil {
				t.Fatal(err)
			}
			apiextensionsv1.SetDefaults_CustomResourceDefinition(definition)
			apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&definition.Spec)
			internal := &apiextensions.CustomResourceDefinition{}
			if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(definition, internal, nil); err != nil {
				t.Fatal(err)
			}
			internal.Status.StoredVersions = []string{"v1alpha1"}
			for _, err := range validation.ValidateCustomResourceDefinition(t.Context(), internal) {
				t.Error(err)
			}
		})
	}
}

// TestNamesDiffer: no two kinds have a name in common, so that kubectl finds the one that is meant;
// and "kubectl get usher" lists all kinds of policies.
func TestNamesDiffer(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("helm/usher/*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const least = 11 // those of policies, and those of reports
	taken, kinds := map[string]string{}, 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(text, definition); err != nil || definition.Kind != "CustomResourceDefinition" {
			continue
		}
		kinds++
		names := &definition.Spec.Names
		for _, name := range append([]string{names.Plural, names.Singular}, names.ShortNames...) {
			if by := taken[name]; by != "" {
				t.Errorf("%s and %s have the name %s", by, definition.Name, name)
			}
			taken[name] = definition.Name
		}
		categories := []string{"usher"}
		kind, ours := api.KindServed(schema.GroupResource{Group: definition.Spec.Group, Resource: names.Plural})
		switch {
		case kind.Candidate:
			categories = append(categories, "candidates")
		case kind.Exempts:
			categories = append(categories, "exemptions")
		}
		if ours && !slices.Equal(names.Categories, categories) {
			t.Errorf("%s has the categories %v", definition.Name, names.Categories)
		}
	}
	if kinds < least {
		t.Errorf("%d kinds, want at least %d", kinds, least)
	}
}
