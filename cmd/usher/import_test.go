package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usher-dev/usher/cmd/internal/cli"
)

// suitesOf are Gatekeeper's templates with tests, one construct each.
const suitesOf = "../../internal/convert/gatekeeper/testdata/"

// What is imported is written with the tests of the original as cases, which pass.
func TestImportGatekeeper(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "policies")
	args := []string{"import", "gatekeeper", suitesOf + "conditions", "--prove", suitesOf + "conditions", "--out", dir}
	stdout, stderr, status := execute(t, append(args, "--enforce"))
	if status != cli.ExitOK || stdout != "" || !strings.HasSuffix(stderr, "1 converted, 0 left out\n5 tests answer as before, 0 differ, 0 cannot be judged\n"+
		"wrote "+filepath.Join(dir, "conditions.yaml")+"\nwrote "+filepath.Join(dir, "cases", "conditions.yaml")+"\nnext: usher check --strict "+dir+" && usher test "+filepath.Join(dir, "cases")+"\n") {
		t.Fatalf("status %d\n%s%s", status, stdout, stderr)
	}
	if stdout, stderr, status := execute(t, []string{"test", dir}); status != cli.ExitOK || !strings.Contains(stdout, "5 passed, 0 failed") {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}
	if stdout, stderr, status := execute(t, []string{"check", "--strict", dir}); status != cli.ExitOK {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}
	file := filepath.Join(dir, "conditions.yaml")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, stderr, status := execute(t, args); status != cli.ExitUnusable || !strings.Contains(stderr, "conditions.yaml: choose another folder, or overwrite them with --force") && !strings.Contains(stderr, "overwrite them with --force") {
		t.Errorf("status %d: %s", status, stderr)
	}
	if content, err := os.ReadFile(file); err != nil || string(content) != "mine" {
		t.Errorf("a file that exists is now %q, %v", content, err)
	}
	if _, stderr, status := execute(t, append(args, "--force")); status != cli.ExitOK {
		t.Errorf("status %d: %s", status, stderr)
	}
	if content, err := os.ReadFile(file); err != nil || !strings.Contains(string(content), "- Warn") || strings.Contains(string(content), "Deny") {
		t.Errorf("%v\n%s", err, content)
	}
}

// A test that differs marks its policy, and leaves it out if that is asked for.
func TestImportTestsThatDiffer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(suitesOf+"conditions")); err != nil {
		t.Fatal(err)
	}
	suite := filepath.Join(dir, "suite.yaml")
	content, err := os.ReadFile(suite)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(suite, []byte(strings.Replace(string(content), "violations: no", "violations: yes", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"import", "gatekeeper", dir, "--prove", dir, "--report", "json"}
	for _, strict := range []bool{false, true} {
		if strict {
			args = append(args, "--strict")
		}
		stdout, stderr, status := execute(t, args)
		var report struct {
			Converted int
			Policies  []struct {
				Failed []struct{ Outcome, Why string }
			}
		}
		if err := json.Unmarshal([]byte(stdout), &report); err != nil || status != cli.ExitNegative || len(report.Policies[0].Failed) != 1 || (report.Converted == 0) != strict {
			t.Errorf("strict %t: status %d, %v\n%s%s", strict, status, err, stdout, stderr)
		}
	}
}

// What is not converted fails with --strict and without it; a test that cannot be judged only with --strict.
func TestImportGatekeeperStrictly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(suitesOf+"conditions")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "c-meets.yaml")); err != nil {
		t.Fatal(err)
	}
	rego, untested := filepath.Join(t.TempDir(), "rego.yaml"), filepath.Join(t.TempDir(), "untested.yaml")
	if err := os.WriteFile(untested, []byte("{apiVersion: mutations.gatekeeper.sh/v1, kind: AssignMetadata, metadata: {name: team}, spec: {match: {kinds: [{apiGroups: [''], kinds: [Pod]}]}, location: metadata.labels.team, parameters: {assign: {value: a}}}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	const template = `{apiVersion: templates.gatekeeper.sh/v1, kind: ConstraintTemplate, metadata: {name: x}, spec: {crd: {spec: {names: {kind: X}}}, targets: [{target: a, rego: "package x"}]}}`
	if err := os.WriteFile(rego, []byte(template), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{rego}, cli.ExitNegative, "0 converted, 1 left out"},
		{[]string{rego, "--strict"}, cli.ExitNegative, "0 converted, 1 left out"},
		{[]string{dir, "--prove", dir}, cli.ExitOK, "1 cannot be judged"},
		{[]string{dir, "--prove", dir, "--strict"}, cli.ExitNegative, "1 cannot be judged"},
		{[]string{dir, untested, "--prove", dir}, cli.ExitOK, "unjudged: nothing is proved: no requests are generated for a policy of this kind; write a test for it"},
	} {
		stdout, stderr, status := execute(t, append([]string{"import", "gatekeeper", "--report", "text"}, row.args...))
		if status != row.status || !strings.Contains(stdout, row.says) {
			t.Errorf("%q: status %d, expected %d and %q:\n%s%s", row.args, status, row.status, row.says, stdout, stderr)
		}
	}
}

// Policies of one name have a file each, in whatever files and of whatever kinds they are; only those are left out whose names are the same for
// Kyverno, too.
func TestImportPoliciesOfOneName(t *testing.T) {
	t.Parallel()
	const cluster = "apiVersion: kyverno.io/v1\nkind: KIND\nmetadata: {name: NAME, namespace: SPACE}\nspec: {rules: [{name: r, match: {any: [{resources: {kinds: [ConfigMap]}}]}, validate: {message: m, pattern: {data: {a: VALUE}}}}]}\n---\n"
	const inCEL = "apiVersion: policies.kyverno.io/v1\nkind: ValidatingPolicy\nmetadata: {name: NAME}\nspec: {matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}, validations: [{expression: \"has(object.data)\"}]}\n---\n"
	of := func(kind, namespace, name, value string) string {
		return strings.NewReplacer("KIND", kind, "NAME", name, ", namespace: SPACE", strings.Replace(", namespace: "+namespace, ", namespace: -", "", 1), "VALUE", value).Replace(cluster)
	}
	in, dir := filepath.Join(t.TempDir(), "policies.yaml"), filepath.Join(t.TempDir(), "out")
	text := of("ClusterPolicy", "-", "p", "b") + strings.ReplaceAll(inCEL, "NAME", "p") + of("ClusterPolicy", "-", "p", "b") + strings.ReplaceAll(inCEL, "NAME", "p-2") +
		of("Policy", "one", "p", "b") + of("Policy", "two", "p", "b") + of("Policy", "two", "p", "b") + of("Policy", "one", "q", "b") + of("Policy", "one", "q", "c")
	if err := os.WriteFile(in, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, stderr, status := execute(t, []string{"import", "kyverno", in, "--out", dir})
	for _, says := range []string{
		"5 converted, 2 left out\n", "called p-3: ClusterPolicy p becomes a policy of the name p, too",
		in + ":38: error: Policy one/q: metadata.name: another Policy has the same name and other contents: " + in + ":43;", in + ":43: error: Policy one/q: metadata.name: another Policy has the same name and other contents: " + in + ":38;",
		"ValidatingPolicy p: converted to ClusterObjectPolicy p-3\n", "Policy two/p: converted to ObjectPolicy two/p\n",
	} {
		if status != cli.ExitNegative || !strings.Contains(stderr, says) {
			t.Errorf("status %d, expected %q:\n%s", status, says, stderr)
		}
	}
	written, err := filepath.Glob(filepath.Join(dir, "*"))
	for i := range written {
		written[i] = filepath.Base(written[i])
	}
	if got := strings.Join(written, " "); err != nil || got != "p-2.yaml p-3.yaml p.one.yaml p.two.yaml p.yaml" {
		t.Errorf("files %s, %v", got, err)
	}
	if stdout, stderr, status := execute(t, []string{"check", "--strict", dir}); status != cli.ExitOK || !strings.HasPrefix(stdout+stderr, "5 policies: no problems") {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}
}

// With --partial the rest of a policy is written, and what is missing is in its description and in the report, whatever texts
// there are. That is no success.
func TestImportPartial(t *testing.T) {
	t.Parallel()
	const policy = "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: p}\nspec: {rules: [{name: '<b>@team', match: {any: [{resources: {kinds: [ConfigMap], 'ag|e<': 1}}]}, generate: {}}, " +
		"{name: images, match: {any: [{resources: {kinds: [ConfigMap]}}]}, verifyImages: [{}]}, {name: r, match: {any: [{resources: {kinds: [ConfigMap]}}]}, validate: {message: m, pattern: {data: {a: b}}}}]}\n"
	for _, row := range []struct {
		reason, policy string
		args           []string
		status         int
		says           []string
	}{
		{"not asked for", strings.Replace(policy, ", 'ag|e<': 1", "", 1), nil, cli.ExitNegative, []string{"0 converted, 1 left out\n"}},
		{
			"asked for", strings.Replace(policy, ", 'ag|e<': 1", "", 1), []string{"--partial"}, cli.ExitNegative,
			[]string{"0 converted, 1 in part, 0 left out\n", "ClusterPolicy p: converted in part to ClusterObjectPolicy p\n    missing: ", ":4: ClusterPolicy p: spec.rules[0]: it generates objects; keep it", "    Of ClusterPolicy p is missing:\n    * spec.rules[0]: it generates objects\n    * spec.rules[1]: it verifies images\n"},
		},
		{"as JSON", strings.Replace(policy, ", 'ag|e<': 1", "", 1), []string{"--partial", "--report", "json"}, cli.ExitNegative, []string{"\"partial\": 1", "\"missing\": ["}},
		{
			"as Markdown", strings.Replace(policy, ", 'ag|e<': 1", "", 1), []string{"--partial", "--report", "markdown"}, cli.ExitNegative,
			[]string{"### Import of Kyverno's policies\n\n0 converted, 1 in part, 0 left out\n", "| **in part** | `ClusterPolicy p` | `ClusterObjectPolicy p` | `", "it generates objects; keep it"},
		},
		{"hostile Markdown", policy, []string{"--report", "markdown"}, cli.ExitNegative, []string{"| **left out** | `ClusterPolicy p` |  | ", `ag\x7ce<`}},
		{"all of it", strings.Replace(policy, "rules: [", "rules: [], x: [", 1), []string{"--partial"}, cli.ExitNegative, []string{"0 converted, 1 left out"}},
	} {
		in := filepath.Join(t.TempDir(), "policy.yaml")
		if err := os.WriteFile(in, []byte(row.policy), 0o600); err != nil {
			t.Fatal(err)
		}
		stdout, stderr, status := execute(t, append([]string{"import", "kyverno", in}, row.args...))
		for _, says := range row.says {
			if status != row.status || !strings.Contains(stdout+stderr, says) {
				t.Errorf("%s: status %d, expected %q:\n%s%s", row.reason, status, says, stdout, stderr)
			}
		}
	}
}

// However many tests name a large file, it is read once, and all of them together have a bound.
func TestImportTestsOfLargeFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(suitesOf+"conditions")); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, "c-violates.yaml"), 65<<20); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, status := execute(t, []string{"import", "gatekeeper", filepath.Join(dir, "template.yaml"), filepath.Join(dir, "constraint-c.yaml"), "--prove", filepath.Join(dir, "suite.yaml"), "--report", "text"})
	if status != cli.ExitOK || !strings.Contains(stdout, "the files that tests name have more than 64 MiB together") {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}
}

func TestImportWithoutPolicies(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"import", "gatekeeper"}, "no policies given: name files or folders"},
		{[]string{"import", "gatekeeper", "../../examples/objects/pod.yaml"}, "no objects of Gatekeeper in ../../examples/objects/pod.yaml"},
		{[]string{"import", "gatekeeper", suitesOf + "objects/template.yaml", "--prove", "../../examples/objects/pod.yaml"}, "no tests in ../../examples/objects/pod.yaml"},
		{[]string{"import", "kyverno"}, "no policies given: name files or folders"},
		{[]string{"import", "opa"}, "unknown command"},
	} {
		if _, stderr, status := execute(t, row.args); status == cli.ExitOK || !strings.Contains(stderr, row.want) {
			t.Errorf("%q: status %d: %s", row.args, status, stderr)
		}
	}
}

// TestImportKyverno: what is imported passes the check, and overwrites nothing.
func TestImportKyverno(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "policies")
	args := []string{"import", "kyverno", "../../examples/kyverno/policies", "--out", dir}
	stdout, stderr, status := execute(t, args)
	if status != cli.ExitNegative || stdout != "" || !strings.Contains(stderr, "2 converted, 1 left out\nwrote ") || !strings.Contains(stderr, "spec.rules[0]: it generates objects") {
		t.Fatalf("status %d\n%s%s", status, stdout, stderr)
	}
	if stdout, stderr, status := execute(t, []string{"check", "--strict", dir}); status != cli.ExitOK {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}
	content, err := os.ReadFile(filepath.Join(dir, "memory-limits.yaml"))
	if err != nil || !strings.Contains(string(content), "- Warn") || strings.Contains(string(content), "- Deny") {
		t.Errorf("%v\n%s", err, content)
	}
	if _, stderr, status := execute(t, append(args, "--enforce")); status != cli.ExitUnusable || !strings.Contains(stderr, "overwrite them with --force") {
		t.Errorf("status %d: %s", status, stderr)
	}
	if _, stderr, status := execute(t, append(args, "--enforce", "--force")); status != cli.ExitNegative {
		t.Errorf("status %d: %s", status, stderr)
	}
	if content, err := os.ReadFile(filepath.Join(dir, "memory-limits.yaml")); err != nil || !strings.Contains(string(content), "- Deny") {
		t.Errorf("%v\n%s", err, content)
	}
}
