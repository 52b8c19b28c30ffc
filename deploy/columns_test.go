package deploy_test

import (
	"os"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// TestPoliciesOfExemptions: kubectl get -o wide shows from which policies an exemption is, all of them.
func TestPoliciesOfExemptions(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"crds/usher.dev_policyexemptions.yaml", "crds/usher.dev_clusterpolicyexemptions.yaml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(text, &crd); err != nil {
			t.Fatal(err)
		}
		columns, err := tableconvertor.New(crd.Spec.Versions[0].AdditionalPrinterColumns)
		if err != nil {
			t.Fatal(err)
		}
		var object unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(`spec: {policyRefs: [{kind: ObjectPolicy, name: a}, {kind: ClusterObjectPolicy, name: "*"}]}`), &object.Object); err != nil {
			t.Fatal(err)
		}
		table, err := columns.ConvertToTable(t.Context(), &object, nil)
		if err != nil {
			t.Fatal(err)
		}
		const want = `[{"kind":"ObjectPolicy","name":"a"},{"kind":"ClusterObjectPolicy","name":"*"}]`
		found := false
		for i, column := range table.ColumnDefinitions {
			if column.Name != "Policies" {
				continue
			}
			found = true
			if got := table.Rows[0].Cells[i]; got != want {
				t.Errorf("%s: got %v, want %s", file, got, want)
			}
		}
		if !found {
			t.Errorf("%s has no column with the policies", file)
		}
	}
}
