package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/internal/convert/kyverno/corpus"
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
		// A folder that is named twice has its tests once.
		stdout, stderr, status := execute(t, []string{"import", "kyverno", dir, "--prove", filepath.Join(dir, "owners/.kyverno-test"), "--prove", dir, "--prove", filepath.Join(dir, "owners")})
		if status != test.status || !strings.Contains(stderr, test.says) {
			t.Errorf("%s: status %d, expected %d and %q:\n%s\n%s", test.result, status, test.status, test.says, stderr, stdout)
		}
	}
}

// TestImportWritesCasesOfItsFiles: cases that are written are about the policies that are written, all their rules together.
func TestImportWritesCasesOfItsFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"in/policy.yaml": "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: p}\nspec: {rules: [" +
			"{name: a, match: {any: [{resources: {kinds: [ConfigMap]}}]}, validate: {message: m, pattern: {data: {a: x}}}}, " +
			"{name: b, match: {any: [{resources: {kinds: [ConfigMap]}}]}, validate: {message: m, pattern: {data: {b: x}}}}, " +
			"{name: c, match: {any: [{resources: {kinds: [Secret]}}]}, validate: {message: m, pattern: {data: {c: x}}}}]}\n",
		"in/kyverno-test.yaml": "apiVersion: cli.kyverno.io/v1alpha1\nkind: Test\nmetadata: {name: t}\npolicies: [policy.yaml]\nresources: [resources.yaml]\n" +
			"results: [{policy: p, rule: a, kind: ConfigMap, resources: [both, a], result: pass}, {policy: p, rule: b, kind: ConfigMap, resources: [a], result: fail}, {policy: p, rule: c, kind: Secret, resources: [c], result: pass}]\n",
		"in/resources.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: both}, data: {a: x, b: x}}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: x}}\n---\n{apiVersion: v1, kind: Secret, metadata: {name: c}, data: {c: x}}\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	_, stderr, status := execute(t, []string{"import", "kyverno", in, "--prove", in, "--out", out})
	if status != cli.ExitOK || !strings.Contains(stderr, "4 tests answer as before, 0 differ") || !strings.Contains(stderr, "not written as cases: 1 test of one rule") {
		t.Fatalf("status %d\n%s", status, stderr)
	}
	if stdout, stderr, status := execute(t, []string{"test", out}); status != cli.ExitOK || !strings.Contains(stdout, "3 passed, 0 failed") {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}
	names, err := filepath.Glob(filepath.Join(out, "*.yaml"))
	if err != nil || len(names) != 2 {
		t.Fatalf("wrote %q, %v", names, err)
	}
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, regexp.MustCompile(`expression: .*`).ReplaceAll(content, []byte(`expression: "false"`)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if stdout, stderr, status := execute(t, []string{"test", out}); status != cli.ExitNegative || !strings.Contains(stdout, "1 passed, 2 failed") {
		t.Errorf("after a change of the policies: status %d\n%s%s", status, stdout, stderr)
	}
}

// TestImportProvesWithoutTests: where there are no tests, policies are compared on generated requests. Where these prove nothing,
// it says so.
func TestImportProvesWithoutTests(t *testing.T) {
	t.Parallel()
	const rule = "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: p}\nspec: {rules: [{name: r, match: {any: [{resources: {kinds: [ConfigMap]}}]}, validate: {message: m, "
	const deny = rule + "deny: {conditions: {all: [{key: \"{{ request.object.metadata.labels.owner || '' }}\", operator: Equals, value: \"VALUE\"}]}}}}]}\n"
	const inCEL = "apiVersion: policies.kyverno.io/v1\nkind: ValidatingPolicy\nmetadata: {name: p}\nspec: {matchConstraints: {resourceRules: [{apiGroups: [\"\"], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}, validations: [{expression: \"has(object.metadata.labels)\"}]}\n"
	const deletions = "deletions are denied, too, as by Kyverno"
	for _, row := range []struct {
		policy string
		status int
		says   string
		note   bool
	}{
		{rule + "pattern: {metadata: {labels: {owner: \"?*\"}}}}}]}\n", cli.ExitOK, "1 test answers as before, 0 differ", false},
		{deny, cli.ExitOK, "1 test answers as before, 0 differ", true},
		{strings.Replace(deny, "kinds: [ConfigMap]", "kinds: [ConfigMap], operations: [CREATE, DELETE]", 1), cli.ExitOK, "1 test answers as before, 0 differ", false},
		{strings.Replace(deny, "[{key", "[{key: \"{{ request.object.metadata.labels.owner || '' }}\", operator: Equals, value: a}, {key", 1), cli.ExitNegative, "unjudged: nothing is proved: none of ", true},
		{strings.Replace(deny, "[ConfigMap]", "[Gadget, Widget]", 1), cli.ExitNegative, "unjudged: nothing is proved: no requests are generated about Gadget, Widget; name files with the CustomResourceDefinitions", true},
		{strings.Replace(rule, "[ConfigMap]", "[Deployment]", 1) + "pattern: {metadata: {labels: {owner: \"?*\"}}}}}]}\n", cli.ExitOK, "1 test answers as before, 0 differ", false},
		{inCEL, cli.ExitNegative, "unjudged: nothing is proved: no requests are generated for a policy of this kind; write a test for it", false},
	} {
		policies := filepath.Join(t.TempDir(), "policy.yaml")
		if err := os.WriteFile(policies, []byte(row.policy), 0o600); err != nil {
			t.Fatal(err)
		}
		stdout, stderr, status := execute(t, []string{"import", "kyverno", policies, "--prove", policies, "--strict", "--report", "text"})
		if status != row.status || !strings.Contains(stdout, row.says) || strings.Contains(stdout, deletions) != row.note {
			t.Errorf("%s: status %d, expected %d, %q, and a note about deletions %t:\n%s%s", row.policy, status, row.status, row.says, row.note, stdout, stderr)
		}
	}
}

// TestImportProvesWithinATimeout: what is not judged in time is named, and the exit status says so.
func TestImportProvesWithinATimeout(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"policy.yaml":       "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: p}\nspec: {rules: [{name: r, match: {any: [{resources: {kinds: [ConfigMap]}}]}, validate: {message: m, pattern: {data: {a: b}}}}]}\n",
		"kyverno-test.yaml": "apiVersion: cli.kyverno.io/v1alpha1\nkind: Test\nmetadata: {name: t}\npolicies: [policy.yaml]\nresources: [policy.yaml]\nresults: [{policy: p, rule: r, kind: ConfigMap, resources: [c], result: fail}]\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stdout, stderr, status := execute(t, []string{"import", "kyverno", dir, "--prove", dir, "--timeout", "1ns", "--report", "text"})
	for _, expected := range []string{"1 converted, 0 left out", "kyverno-test.yaml) unjudged: --timeout ended", "generated requests (" + filepath.Join(dir, "policy.yaml") + ") unjudged: --timeout ended"} {
		if status != cli.ExitNegative || !strings.Contains(stdout, expected) {
			t.Errorf("status %d, expected %q\n%s%s", status, expected, stdout, stderr)
		}
	}
}

// TestImportProvesStrictly: a test with a misspelled name proves nothing, and the exit status says so.
func TestImportProvesStrictly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"policy.yaml":       "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: p}\nspec: {rules: [{name: r, match: {any: [{resources: {kinds: [ConfigMap]}}]}, validate: {message: m, pattern: {data: {a: b}}}}]}\n",
		"resources.yaml":    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: d}\ndata: {a: c}\n",
		"kyverno-test.yaml": "apiVersion: cli.kyverno.io/v1alpha1\nkind: Test\nmetadata: {name: t}\npolicies: [policy.yaml]\nresources: [resources.yaml]\nresults: [{policy: p, rule: r, kind: ConfigMap, resources: [c, cc], result: fail}]\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"--prove", dir}, cli.ExitNegative, "1 test answers as before, 0 differ, 1 cannot be judged"},
		{[]string{"--prove", dir, "--strict"}, cli.ExitNegative, "misnamed: there is no ConfigMap cc in its files"},
		{[]string{"--prove", "--strict"}, cli.ExitUnusable, "--prove --strict: name the file or folder with the tests: --prove PATH"},
	} {
		stdout, stderr, status := execute(t, append([]string{"import", "kyverno", filepath.Join(dir, "policy.yaml")}, row.args...))
		if status != row.status || !strings.Contains(stdout+stderr, row.says) {
			t.Errorf("%q: status %d, expected %d and %q:\n%s%s", row.args, status, row.status, row.says, stderr, stdout)
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

// TestImportReadsNothingElse: a test may name any file, and messages of policies may tell what is in it. Only those in
// folders of the command line are read, and no devices.
func TestImportReadsNothingElse(t *testing.T) {
	t.Parallel()
	const secret = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bad, namespace: shop}\ndata: {token: hush}\n"
	const policy = "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: p}\nspec: {validationFailureAction: Enforce, rules: [{name: r, match: {any: [{resources: {kinds: [ConfigMap]}}]}, " +
		"validate: {message: \"a {{ request.object.data.token }}\", deny: {conditions: {all: [{key: \"{{ request.object.metadata.name }}\", operator: Equals, value: good}]}}}}]}\n"
	const cases = "apiVersion: cli.kyverno.io/v1alpha1\nkind: Test\nmetadata: {name: t}\npolicies: [../policy.yaml]\nresources: [RESOURCE]\nresults: [{policy: p, rule: r, kind: ConfigMap, resources: [bad], result: pass}]\n"
	root := t.TempDir()
	for name, text := range map[string]string{"outside.yaml": secret, "in/policy.yaml": policy, "in/tests/inside.yaml": secret, "in/tests/sub/c.yaml": secret} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Their names are none that commands read by themselves.
	for link, to := range map[string]string{"out.link": "../../outside.yaml", "zero.link": "/dev/zero", "sub.link": "sub", "up.link": "../.."} {
		if err := os.Symlink(to, filepath.Join(root, "in/tests", link)); err != nil {
			t.Fatal(err)
		}
	}
	const elsewhere, held = "in none of the folders that the command names", "1 test answers as before"
	for _, row := range []struct {
		resource, says string
		more           []string
	}{
		{"inside.yaml", held, nil},
		{"sub.link/c.yaml", held, nil},
		{"../../outside.yaml", elsewhere, nil},
		{"out.link", elsewhere, nil},
		{"up.link/outside.yaml", elsewhere, nil},
		{"zero.link", elsewhere, nil},
		{"../../../../../../../../../../etc/passwd", elsewhere, nil},
		{"sub", "it is no regular file", nil},
		{"gone.yaml", "no such file", nil},
		{"../../outside.yaml", held, []string{"--prove", root}},
	} {
		file := filepath.Join(root, "in/tests/kyverno-test.yaml")
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(cases, "RESOURCE", row.resource)), 0o600); err != nil {
			t.Fatal(err)
		}
		stdout, stderr, status := execute(t, append([]string{"import", "kyverno", filepath.Join(root, "in/policy.yaml"), "--prove", file, "--report", "text"}, row.more...))
		if !strings.Contains(stdout, row.says) || row.more == nil && row.says != held && strings.Contains(stdout+stderr, "hush") {
			t.Errorf("%s: status %d, expected %q:\n%s%s", row.resource, status, row.says, stdout, stderr)
		}
	}
}

// TestImportReadsHostileFiles: files that are made to take time or memory are errors, whether they are policies, tests or
// what tests name, and names in them are no paths.
func TestImportReadsHostileFiles(t *testing.T) {
	t.Parallel()
	const policy = "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: p}\nspec: {rules: [{name: r, match: {any: [{resources: {kinds: [ConfigMap]}}]}, RULE}]}\n"
	const pattern, yaml = "validate: {message: m, pattern: {data: {a: b}}}", "validate: {message: m, deny: {conditions: {all: [{key: \"{{ parse_yaml(request.object.data.y).a }}\", operator: Equals, value: b}]}}}"
	const cases = "apiVersion: cli.kyverno.io/v1alpha1\nkind: Test\nmetadata: {name: t}\npolicies: [policy.yaml]\nresources: [resources.yaml]\nresults: [{policy: p, rule: r, kind: ConfigMap, resources: [c], result: fail}]\n"
	const resource = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: d}\ndata: {a: c}\n"
	laughs, inside := "\nx:\n  a0: &a0 [x]\n", "\ndata:\n  y: |\n    a: b\n    a0: &a0 [x]\n"
	for i := range 12 {
		line := fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), i)
		laughs, inside = laughs+"  "+line, inside+"    "+line
	}
	deep := "\nx: " + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + "\n"
	const aliases, depth, judged = "excessive aliasing", "max depth", "1 test answers as before, 0 differ, 0 cannot be judged"
	const twice = "\"kind\" is given twice: keep one of them"
	patch := func(of string) string { return strings.Replace(policy, "RULE", "mutate: "+of, 1) }
	validate := strings.Replace(policy, "RULE", pattern, 1)
	for _, test := range []struct{ name, policy, cases, resource, says string }{
		{"aliases in a policy", validate + laughs, cases, resource, aliases},
		{"aliases in a test", validate, cases + laughs, resource, aliases},
		{"aliases in an object", validate, cases, resource + laughs, aliases},
		{"depth of a policy", validate + deep, cases, resource, depth},
		{"depth of a test", validate, cases + deep, resource, depth},
		{"depth of an object", validate, cases, resource + deep, depth},
		{"a field twice in a policy", validate + "kind: ClusterPolicy\n", cases, resource, twice},
		{"a field twice in a test", validate, cases + "kind: Test\n", resource, twice},
		{"a field twice in an object", validate, cases, resource + "kind: ConfigMap\n", twice},
		{"merged keys", validate, "x: &x {name: t}\n" + strings.Replace(cases, "{name: t}", "{<<: *x}", 1), resource, judged},
		{"a name that is a path", validate, strings.ReplaceAll(cases, "rule: r", "rule: ../../r"), resource, "p has no rule ../../r"},
		{"a test that is named as a path", validate, strings.ReplaceAll(cases, "name: t", "name: ../../../t"), resource, judged},
		{"aliases in YAML in a text", strings.Replace(policy, "RULE", yaml, 1), cases, strings.Replace(resource, "data: {a: c}\n", inside, 1), "0 differ"},
		{"depth in YAML in a text", strings.Replace(policy, "RULE", yaml, 1), cases, strings.Replace(resource, "{a: c}", "{y: \"a: "+strings.Repeat("[", 20_000)+"\"}", 1), "0 differ"},
		{"a place far behind the end", patch(`{patchesJson6902: "- {op: add, path: /metadata/finalizers/999999999, value: b}"}`), "", resource, "is of an element of a list that may not be there"},
		{"aliases in a patch", patch("{patchesJson6902: " + strconv.Quote("- op: add\n  path: /data\n  value:\n"+strings.ReplaceAll(laughs, "\n", "\n    ")) + "}"), "", resource, "it is no JSON patch"},
		{"many operations", patch(`{patchesJson6902: "` + strings.Repeat(`- {op: add, path: /data/a, value: b}\n`, 1000) + `"}`), "", resource, "it has more than 100 operations"},
		{"a variable in itself", strings.Replace(policy, "RULE", `context: [{name: x, variable: {value: {a: ["{{ x }}", "{{ x }}"]}}}], mutate: {patchStrategicMerge: {data: "{{ x }}"}}`, 1), "", resource, "a map with variables as a value is not imported"},
	} {
		dir := t.TempDir()
		in := filepath.Join(dir, "a", "in")
		if err := os.MkdirAll(in, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"policy.yaml": test.policy, "kyverno-test.yaml": test.cases, "resources.yaml": test.resource} {
			if err := os.WriteFile(filepath.Join(in, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, stderr, _ := execute(t, []string{"import", "kyverno", in, "--prove", in, "--out", filepath.Join(dir, "a", "out")})
		if !strings.Contains(stderr, test.says) {
			t.Errorf("%s: expected %q:\n%s", test.name, test.says, stderr)
		}
		for folder, names := range map[string]string{dir: "a", filepath.Join(dir, "a"): "in out"} {
			entries, err := os.ReadDir(folder)
			var found []string
			for _, e := range entries {
				found = append(found, e.Name())
			}
			if got := strings.Join(found, " "); err != nil || got != names && got != "in" {
				t.Errorf("%s: %s has %s", test.name, folder, got)
			}
		}
	}
}

// TestImportWritesNowhereElse: no name leads out of the folder of --out, nor does a link that is in it.
func TestImportWritesNowhereElse(t *testing.T) {
	t.Parallel()
	const policy = "apiVersion: kyverno.io/v1\nkind: KIND\nmetadata: {name: NAME}\nspec: {rules: [{name: 'RULE', match: {any: [{resources: {kinds: [ConfigMap]}}]}, validate: {message: m, pattern: {data: {a: b}}}}, " +
		"{name: other, match: {any: [{resources: {kinds: [Secret]}}]}, validate: {message: m, pattern: {data: {a: b}}}}]}\n---\n"
	of := func(kind, name, rule string) string {
		return strings.NewReplacer("KIND", kind, "NAME", name, "RULE", rule).Replace(policy)
	}
	root := t.TempDir()
	in, out := filepath.Join(root, "in.yaml"), filepath.Join(root, "a", "out")
	text := of("ClusterPolicy", "../../x", "r") + of("ClusterPolicy", "/x", "r") + of("ClusterPolicy", `"a\\..\\b"`, "r") + of("ClusterPolicy", "cases/x", "r") +
		of("ClusterPolicy", "good", "../../r") + of("ClusterPolicy", "link", "r") + of("Policy", "good-r, namespace: ../../../n", "r") + of("Policy", "good-r, namespace: n", "r") + of("ClusterPolicy", "\"x\\ty\"", "r") + of("ClusterPolicy", "..", "r")
	if err := os.WriteFile(in, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"import", "kyverno", in, "--out", out}
	if _, stderr, status := execute(t, args); status != cli.ExitNegative || !strings.Contains(stderr, "3 converted, 7 left out") {
		t.Errorf("status %d\n%s", status, stderr)
	}
	var found []string
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			found = append(found, strings.TrimPrefix(path, root+"/"))
		}
		return err
	})
	if got, want := strings.Join(found, " "), "a/out/good-other.yaml a/out/good-r-other.yaml a/out/good-r-r.yaml a/out/good-r.yaml a/out/link-other.yaml a/out/link-r.yaml in.yaml"; err != nil || got != want {
		t.Errorf("files %s, want %s; %v", got, want, err)
	}
	if err := os.Remove(filepath.Join(out, "link-r.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../in.yaml", filepath.Join(out, "link-r.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, stderr, status := execute(t, append(args, "--force")); status != cli.ExitUnusable {
		t.Errorf("a link out of the folder: status %d\n%s", status, stderr)
	}
	if content, err := os.ReadFile(in); err != nil || string(content) != text {
		t.Errorf("a file outside is overwritten: %v\n%s", err, content)
	}
}

// TestImportPassesTheCheck: what is written passes 'usher check --strict'. A policy that has an error is left out, and of a
// message that is one the message alone. What fails on requests without which a cluster cannot recover lets them pass, unless
// policies are to deny.
func TestImportPassesTheCheck(t *testing.T) {
	t.Parallel()
	const head, pods = "apiVersion: policies.kyverno.io/v1\nkind: KIND\nmetadata: {name: NAME}\nspec:\n", "  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}\n"
	const validating, mutating = "  validationActions: [Audit]\n  validations:\n  - ", "  mutations:\n  - patchType: JSONPatch\n    jsonPatch: {expression: "
	for _, test := range []struct{ name, kind, spec, says, wrote string }{
		{
			"message", "ValidatingPolicy", pods + validating + "{expression: has(object.metadata.labels), message: no labels, messageExpression: \"'labels: ' + string(object.metadata.labels)\"}\n",
			"the message is not that of the expression, which fails", "message: no labels",
		},
		{
			"fails", "MutatingPolicy", pods + mutating + "\"[JSONPatch{op: 'add', path: '/metadata/labels/a', value: object.metadata.annotations['a']}]\"}\n",
			"an error lets an object pass as it is, where it was refused: the rule fails on ", "failurePolicy: Ignore",
		},
		{
			"enforced", "MutatingPolicy", pods + mutating + "\"[JSONPatch{op: 'add', path: '/metadata/labels/a', value: object.metadata.annotations['a']}]\"}\n",
			"the rule fails on, and so refuses,", "",
		},
		{
			"placeholder", "MutatingPolicy", pods + mutating + "\"[JSONPatch{op: 'test', path: '/', value: null}].filter(p, p.op != 'test') + [JSONPatch{op: 'add', path: '/spec/hostname', value: 'a'}]\"}\n",
			"1 converted, 0 left out", "hostname",
		},
		{
			"exec", "ValidatingPolicy", "  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CONNECT], resources: [pods/exec]}]}\n" + validating + "{expression: \"request.namespace != 'pci'\", message: m}\n",
			"1 converted, 0 left out", "request.namespace",
		},
	} {
		dir := t.TempDir()
		file, out := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "out")
		if err := os.WriteFile(file, []byte(strings.NewReplacer("KIND", test.kind, "NAME", test.name).Replace(head)+test.spec), 0o600); err != nil {
			t.Fatal(err)
		}
		args := []string{"import", "kyverno", file, "--out", out}
		if test.name == "enforced" {
			args = append(args, "--enforce")
		}
		_, stderr, _ := execute(t, args)
		if !strings.Contains(stderr, test.says) {
			t.Errorf("%s: expected %q:\n%s", test.name, test.says, stderr)
		}
		written, err := os.ReadFile(filepath.Join(out, test.name+".yaml"))
		if test.wrote == "" {
			if err == nil {
				t.Errorf("%s: it is not left out:\n%s", test.name, written)
			}
			continue
		}
		if !strings.Contains(string(written), test.wrote) || strings.Contains(string(written), "messageExpression") {
			t.Errorf("%s: %v\n%s", test.name, err, written)
		}
		if stdout, stderr, _ := execute(t, []string{"check", "--lockout", out}); strings.Contains(stdout+stderr, ": error: ") {
			t.Errorf("%s: %s%s", test.name, stdout, stderr)
		}
	}
}

// TestImportNotesWhatMayLockOut: a policy that is to deny is noted with the requests that it denies and without which a
// cluster cannot recover, as 'usher check --strict' finds them; one that warns is not.
func TestImportNotesWhatMayLockOut(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	const policy = `apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: team}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validationActions: [Deny]
  validations: [{expression: "has(object.metadata.labels) && 'team' in object.metadata.labels", message: label team is required}]
`
	if err := os.WriteFile(file, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, enforce := range []bool{false, true} {
		written, stderr, status := execute(t, []string{"import", "kyverno", file, "--enforce=" + strconv.FormatBool(enforce)})
		if status != cli.ExitOK {
			t.Errorf("--enforce=%t: status %d\n%s", enforce, status, stderr)
		}
		out := filepath.Join(t.TempDir(), "out.yaml")
		if err := os.WriteFile(out, []byte(written), 0o600); err != nil {
			t.Fatal(err)
		}
		checked, problems, _ := execute(t, []string{"check", "--strict", out})
		_, finding, found := strings.Cut(checked+problems, "the rule refuses ")
		finding, _, _ = strings.Cut(finding, "\n")
		_, note, noted := strings.Cut(stderr, "ValidatingPolicy team: the rule refuses ")
		if note, _, _ = strings.Cut(note, "\n"); found != enforce || noted != enforce || note != finding {
			t.Errorf("--enforce=%t notes %q, and check finds %q\n%s", enforce, note, finding, stderr)
		}
	}
}

// TestImportedCorpusPassesTheCheck: so does every fourth policy with which the importer is compared with Kyverno's engine, and
// with USHER_CORPUS=all every one. Their names begin with the form that they have, so each form of four policies is among them.
func TestImportedCorpusPassesTheCheck(t *testing.T) {
	t.Parallel()
	files, err := corpus.Load("../../internal/convert/kyverno/testdata/corpus")
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("USHER_CORPUS") != "all" {
		sample := files[:0]
		for i := 0; i < len(files); i += 4 {
			sample = append(sample, files[i])
		}
		files = sample
	}
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	if err := os.Mkdir(in, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range files {
		metadata, _ := files[i].Policy["metadata"].(map[string]any)
		metadata["name"] = files[i].Name
		text, err := json.Marshal(files[i].Policy)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(in, files[i].Name+".json"), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, stderr, _ := execute(t, []string{"import", "kyverno", in, "--enforce", "--policy-timeout", "5m", "--out", out})
	if strings.Count(stderr, ": converted to ") < len(files)/2 {
		t.Errorf("less than half of it is converted:\n%s", stderr)
	}
	stdout, stderr, _ := execute(t, []string{"check", out, "-o", "json", "--policy-timeout", "5m"})
	var report struct{ Errors, Policies int }
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || report.Errors > 0 || report.Policies == 0 {
		t.Errorf("%v, %d errors in %d policies:\n%s%s", err, report.Errors, report.Policies, stdout, stderr)
	}
}
