package policytest_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/policytest"
)

// TestPoliciesBeside: a policy without a case is told if the cases of a folder are run.
func TestPoliciesBeside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	policy := func(name string) string {
		return `{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: ` + name + `}, spec: {
matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}, validations: [{expression: "true"}]}}
`
	}
	for name, text := range map[string]string{
		"policies/named.yaml":  policy("named") + "---\n" + policy("second"),
		"policies/other.yaml":  policy("other"),
		"policies/notes.yaml":  "{apiVersion: v1, kind: ConfigMap, metadata: {name: notes}}",
		"policies/exempt.yaml": "{apiVersion: usher.dev/v1alpha1, kind: ClusterPolicyExemption, metadata: {name: exempt}}",
		"policies/broken.yaml": "{",
		"elsewhere/far.yaml":   policy("far"),
		"cases/case.yaml": `{name: a, phase: validate, policyFiles: [../elsewhere/used.yaml], policies: [` + policy("named") + `],
request: {operation: CREATE, object: {apiVersion: v1, kind: Pod, metadata: {name: a}}}, expect: {allowed: true}}`,
		"elsewhere/used.yaml": policy("used"),
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cases := filepath.Join(dir, "cases")
	tests, err := policytest.Tests(cases)
	if err != nil {
		t.Fatal(err)
	}
	unnamed := func(file, name string) policytest.Unnamed {
		return policytest.Unnamed{Policy: usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: name}, File: filepath.Join(dir, file)}
	}
	want := policytest.Beside{Total: 5, Unnamed: []policytest.Unnamed{unnamed("elsewhere/far.yaml", "far"), unnamed("policies/named.yaml", "second"), unnamed("policies/other.yaml", "other")}}
	if diff := cmp.Diff(want, policytest.PoliciesBeside([]string{cases}, tests)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := policytest.PoliciesBeside([]string{filepath.Join(cases, "case.yaml")}, tests); got.Total != 0 {
		t.Errorf("one file is meant: got %v", got)
	}
}
