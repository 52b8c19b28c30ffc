package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestImportKyvernoProvesByHiddenTests: Kyverno's command looks for tests in folders .kyverno-test, which are found below
// those of --prove.
func TestImportKyvernoProvesByHiddenTests(t *testing.T) {
	t.Parallel()
	const policy = `apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: owners}
spec:
  validationFailureAction: Enforce
  rules:
  - name: owner
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    validate: {message: an owner is required, pattern: {metadata: {labels: {owner: "?*"}}}}
`
	const cases = `apiVersion: cli.kyverno.io/v1alpha1
kind: Test
metadata: {name: owners}
policies: [../policy.yaml]
resources: [resources.yaml]
results:
- {policy: owners, rule: owner, kind: ConfigMap, resources: [good], result: pass}
- {policy: owners, rule: owner, kind: ConfigMap, resources: [bad], result: RESULT}
`
	const resources = `apiVersion: v1
kind: ConfigMap
metadata: {name: good, namespace: shop, labels: {owner: a}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: bad, namespace: shop}
`
	for _, test := range []struct {
		result, says string
		status       int
	}{
		{"fail", "2 tests answer as before, 0 differ, 0 cannot be judged", 0},
		// Kyverno's webhook does not answer what this test expects: that proves nothing of the policy.
		{"pass", "1 test answers as before, 0 differ, 1 cannot be judged", 0},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{
			"owners/policy.yaml": policy, "owners/.kyverno-test/resources.yaml": resources,
			"owners/.kyverno-test/kyverno-test.yaml": strings.ReplaceAll(cases, "RESULT", test.result),
		} {
			file := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		stdout, stderr, status := execute(t, []string{"import", "kyverno", dir, "--prove", dir})
		if status != test.status || !strings.Contains(stderr, test.says) {
			t.Errorf("%s: status %d, expected %d and %q:\n%s\n%s", test.result, status, test.status, test.says, stderr, stdout)
		}
	}
}

// TestImportSaysWhichTestsItCannotRead: a test whose files cannot be read is named, with the reason.
func TestImportSaysWhichTestsItCannotRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"policy.yaml": "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: p}\nspec: {rules: [{name: r, match: {any: [{resources: {kinds: [ConfigMap]}}]}, validate: {message: m, pattern: {data: {a: b}}}}]}\n",
		"kyverno-test.yaml": "apiVersion: cli.kyverno.io/v1alpha1\nkind: Test\nmetadata: {name: t}\npolicies: [policy.yaml]\nresources: [gone.yaml]\n" +
			"results: [{policy: p, rule: r, kind: ConfigMap, resources: [c], result: fail}]\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, stderr, _ := execute(t, []string{"import", "kyverno", filepath.Join(dir, "policy.yaml"), "--prove", dir})
	if !strings.Contains(stderr, "tests of no policy here:\n") || !strings.Contains(stderr, "gone.yaml: no such file") {
		t.Errorf("the file that is not there is not named:\n%s", stderr)
	}
}
