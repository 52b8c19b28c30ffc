package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/cmd/internal/cli/clitest"
	"github.com/usher-dev/usher/cmd/usher/internal/format/formattest"
	"github.com/usher-dev/usher/internal/printable"
)

// hostile is text that forges colors, clears screens, sets titles, overwrites lines, reverses
// direction and hides itself.
const hostile = "\x1b[31mHOSTILE\x1b[0m\x1b[2J\x1b]0;x\a\r\b\x7f\u009b2J\u202e\u2066\u200b\u2028\U000e0041"

// ownColors are the colors of palettes.
var ownColors = regexp.MustCompile("\x1b\\[(?:[012]|3[1236])m")

// TestHostileTexts: whatever others write into names, messages, values and files, and whatever is wrong
// with these, no command prints a character that controls terminals or hides what it says.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	files := hostileFiles(t)
	policies, objects, broken := files["policies"], files["object.yaml"], files["broken"]
	own := []string{"-p", policies}
	// commands are the command lines of each command: with hostile files, or at least with hostile
	// arguments.
	commands := map[string][][]string{
		"usher admission config":       {{"--token-file", hostile, "--out", hostile}},
		"usher admission lint":         {{files["broken.yaml"]}, {hostile}},
		"usher admission rotate-paths": {{"--kubeconfig", hostile}},
		"usher audit": {
			append(own, objects), append(own, "-o", "json", objects), append(own, "-o", "yaml", objects), append(own, "-o", "sarif", objects),
			append(own, "-o", "markdown", objects), append(own, "-o", "junit", objects), append(own, "--group-by", "policy", objects),
			{"-p", broken, objects}, append(own, files["broken.yaml"]), {"--what-if", policies, objects},
		},
		"usher authz adopt":            {{"--kubeconfig", hostile}},
		"usher authz can-i":            {{"get", "secrets/" + hostile, "-n", "shop", "--as", hostile, "-p", files["authz"]}, {"get", hostile, "--as", hostile, "-p", broken}},
		"usher authz config":           {{"--server", hostile, "--ca-file", hostile}},
		"usher authz diff":             {{files["authz"], files["authz2"]}, {hostile, hostile}},
		"usher authz lint":             {{files["broken.yaml"]}, {hostile}},
		"usher authz rotate-proof-key": {{"--kubeconfig", hostile}},
		"usher authz what-can":         {{"--as", hostile, "-p", files["authz"]}},
		"usher authz who-can":          {{"get", "secrets/" + hostile, "-n", "shop", "-p", files["authz"]}},
		"usher bench":                  {{"https://" + hostile, "-f", objects}},
		"usher certs":                  {{"--dns", hostile, "--out", filepath.Join(filepath.Dir(objects), "certs")}},
		"usher check": {
			{policies}, {"--strict", "--verbose", policies}, {broken}, {"-o", "json", broken}, {"-o", "yaml", broken}, {files["broken.yaml"]},
			{files["syntax.yaml"]}, {hostile}, {"--reads", policies, broken}, {"-f", objects, policies}, {"-o", "sarif", broken}, {"-o", "sarif", "--verbose", policies},
		},
		"usher decide": {
			append(own, objects), append(own, objects, "-o", "json"), append(own, objects, "-o", "yaml"), {"-p", broken, objects},
			append(own, files["broken.yaml"]), append(own, hostile), append(own, objects, "--operation", hostile),
		},
		"usher console": {{"--no-open", "--open", hostile}, {"--no-open", "--open", "usher1:" + hostile}, {"--no-open", "-p", hostile}, {"--no-open", "--open", policies}, {"--no-open", "--kubeconfig", hostile}, {"--no-open", "--from-cluster", "-n", hostile}},
		"usher exempt": {
			append(own, "-f", objects, "--reason", hostile, "--owner", hostile), append(own, "-f", files["allowed.yaml"], "--reason", hostile, "--owner", hostile),
			append(own, "-f", files["syntax.yaml"], "--reason", "x", "--owner", "x"), {"-p", broken, "-f", objects, "--reason", "x", "--owner", "x"},
			{"-f", files["cases"], "--reason", "x", "--owner", "x"},
		},
		"usher explain": {append(own, objects), append(own, objects, "-o", "json"), append(own, objects, "--policy", hostile), {"-p", broken, objects}, {files["cases"]}},
		"usher impact": {
			{policies, broken, "--requests", objects}, {files["authz"], policies, "--requests", objects, "--requests", files["audit.log"], "--by", "namespace,resource,user,owner"},
			{files["authz"], policies, "--requests", files["audit.log"], "--by", "user", "-o", "markdown"}, {policies, policies, "--requests", hostile}, {policies, policies, "--requests", objects, "--by", hostile},
		},
		"usher init":            {{filepath.Join(filepath.Dir(objects), "init"), "--pack", hostile}, {objects}},
		"usher library install": {{hostile}, {"--kubeconfig", hostile, "best-practices"}},
		"usher library list":    {{hostile}, {"--packs", files["packs"]}},
		"usher library pull":    {{hostile, "--out", hostile}, {"oci://" + hostile, "--out", hostile}},
		"usher library push":    {{hostile, hostile}, {files["packs"], "oci://" + hostile}, {hostile, "oci://registry.example/a:1"}},
		"usher library show":    {{hostile}, {"--packs", files["packs"], "hostile"}},
		"usher library try":     {{"best-practices", "rbac-hygiene", "-f", objects}, {hostile, "-f", objects}, {"best-practices", "-f", files["syntax.yaml"]}},
		"usher import":          {{hostile}},
		"usher import gatekeeper": {
			{files["gatekeeper.yaml"]}, {"--report", "text", files["gatekeeper.yaml"]}, {"--report", "json", files["gatekeeper.yaml"]}, {"--report", "markdown", "--partial", files["gatekeeper.yaml"]}, {hostile}, {objects}, {files["syntax.yaml"]},
			{files["gatekeeper.yaml"], "--prove", files["gatekeeper.yaml"]}, {files["gatekeeper.yaml"], "--prove", objects}, {files["gatekeeper.yaml"], "--out", filepath.Join(filepath.Dir(objects), "imported")},
		},
		"usher import kyverno": {
			{files["kyverno.yaml"]}, {"--report", "text", files["kyverno.yaml"]}, {"--report", "json", files["kyverno.yaml"]}, {hostile}, {objects}, {files["syntax.yaml"]},
			{files["kyverno.yaml"], "--out", filepath.Join(filepath.Dir(objects), "from-kyverno")}, {"--report", "markdown", "--partial", files["kyverno.yaml"]},
			{files["kyverno.yaml"], "--prove", files["kyverno.yaml"]}, {files["kyverno.yaml"], "--prove", objects, "--report", "markdown"},
		},
		"usher import kubernetes": {{files["vap.yaml"]}, {files["broken-vap.yaml"]}, {files["syntax.yaml"]}, {hostile}},
		"usher lsp":               {{"-f", hostile}, {"-f", broken}, {}},
		"usher promote":           {{hostile}, {"pcand/" + hostile, "-n", hostile, "--kubeconfig", hostile}, {hostile + "/x"}},
		"usher render":            {{policies}, {"--cue", policies}, {broken}, {"--from", files["vap.yaml"]}, {"--from", files["broken-vap.yaml"]}, {"--from", files["syntax.yaml"]}, {"--to", "vap", files["policies/refuses.yaml"]}, {"--to", "vap", policies}, {"--to", hostile, policies}},
		"usher serve":             {{"-p", hostile}, {"-p", policies, "--bind-address", hostile}},
		"usher simulate":          {append(own, objects, "--cluster-files", files["cluster"]), append(own, objects, "--verbose", "--cluster-files", files["cluster"]), append(own, objects, "--cluster-files", files["cluster"], "-o", "json"), append(own, hostile)},
		"usher status":            {{"--kubeconfig", hostile}, {hostile}},
		"usher test":              {{files["cases"]}, {files["cases"], "-v", "--coverage"}, {files["cases"], "-o", "junit"}, {files["cases"], "-o", "json"}, {files["cases"], "-o", "yaml"}, {files["cases"], "--run", hostile}, {files["syntax.yaml"]}, {hostile}},
		"usher uninstall":         {{"--kubeconfig", hostile}},
		"usher version":           {{hostile}, {"--" + hostile}},
		"usher watch":             {{"--server", "https://" + hostile, "--once"}, {"-n", hostile}},
		"usher completion":        {{hostile}},
		"usher library":           {{hostile}},
		"usher authz":             {{hostile}},
		"usher admission":         {{hostile}},
		"usher":                   {{hostile}, {"--" + hostile}},
	}
	for _, cmd := range clitest.Commands(newRoot(silent())) {
		path := cmd.CommandPath()
		lines := commands[path]
		if len(lines) == 0 {
			t.Errorf("%s has no command line with hostile texts: add one", path)
		}
		for _, line := range lines {
			args := slices.Concat(strings.Fields(path)[1:], line)
			if cmd.Flags().Lookup("color") != nil {
				args = append(args, "--color", "always")
			}
			stdout, stderr, _ := execute(t, args)
			harmless(t, args, stdout)
			harmless(t, args, stderr)
			if slices.Contains(args, "sarif") {
				if err := formattest.SARIF([]byte(stdout)); err != nil {
					t.Errorf("%q: %v", args, err)
				}
			}
		}
	}
}

// harmless fails for output that has control characters.
func harmless(t *testing.T, args []string, output string) {
	t.Helper()
	if strings.Contains(output, "\x1b[31mHOSTILE") || strings.Contains(output, "HOSTILE\x1b[0m\x1b") {
		t.Errorf("%q: the text has colors:\n%q", args, output)
	}
	for _, r := range ownColors.ReplaceAllString(output, "") {
		if r != '\n' && r != '\t' && !printable.Printed(r) {
			t.Errorf("%q: %U in\n%q", args, r, output)
			return
		}
	}
}

// hostileFiles writes files with hostile texts into folders with hostile names, and returns their paths.
func hostileFiles(t *testing.T) map[string]string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), strings.ReplaceAll(hostile, "/", ""))
	files := map[string]string{}
	write := func(name string, documents ...any) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for _, document := range documents {
			switch d := document.(type) {
			case string:
				text.WriteString(d)
			default:
				encoded, err := printable.YAML(d)
				if err != nil {
					t.Fatal(err)
				}
				text.WriteString("---\n" + string(encoded))
			}
		}
		if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		files[name] = path
		if folder, _, ok := strings.Cut(name, "/"); ok {
			files[folder] = filepath.Join(dir, folder)
		}
	}
	refuses, changes, authz, pack := tree(t, hostilePolicy), tree(t, hostileChange), tree(t, hostileAccess), tree(t, hostilePack)
	write("policies/refuses.yaml", refuses, changes)
	write("policies/"+hostile+".txt", "nothing")
	broken := tree(t, hostilePolicy)
	broken["metadata"] = map[string]any{"name": hostile, "labels": map[string]any{hostile: hostile}}
	broken[hostile] = hostile
	unparsed := tree(t, hostilePolicy)
	unparsed["spec"].(map[string]any)["validations"] = []any{map[string]any{"expression": "object." + hostile + " == '" + hostile + "'", "message": hostile}}
	unchanged := tree(t, hostileChange)
	unchanged["spec"].(map[string]any)["overrideRules"] = []any{map[string]any{"overriders": map[string]any{"cue": "patches: [" + hostile + "]"}}}
	write("broken/"+hostile+".yaml", broken, unparsed, unchanged)
	write("broken.yaml", "a: [\n  "+hostile+": '\n")
	write("syntax.yaml", "apiVersion: usher.dev/v1alpha1\nkind: ObjectPolicy\nmetadata: {name: \"\\x1b[2J\\a\\u202e\"}\nspec: {\"\\e\": [}\n")
	write("object.yaml", map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": hostile, "namespace": "shop", "labels": map[string]any{"team": hostile}}, "data": map[string]any{hostile: hostile}})
	event, err := json.Marshal(map[string]any{
		"kind": "Event", "apiVersion": "audit.k8s.io/v1", "stage": "ResponseComplete", "verb": "create", "requestURI": "/api/v1/namespaces/shop/configmaps",
		"user": map[string]any{"username": hostile}, "responseStatus": map[string]any{"code": 201},
		"responseObject": map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{
			"name": hostile, "namespace": "shop", "labels": map[string]any{"team": hostile}, "ownerReferences": []any{map[string]any{"kind": hostile, "name": hostile, "controller": true}},
		}, "data": map[string]any{hostile: hostile}},
	})
	if err != nil {
		t.Fatal(err)
	}
	write("audit.log", string(event)+"\n"+hostile+"\n")
	write("allowed.yaml", map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": hostile}})
	write("cluster/namespace.yaml", map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "shop", "labels": map[string]any{"a": hostile}}})
	write("authz/policy.yaml", authz)
	authz["spec"].(map[string]any)["message"] = hostile + "again"
	write("authz2/policy.yaml", authz)
	write("vap.yaml", tree(t, hostileAdmission), tree(t, hostileBinding))
	admission := tree(t, hostileAdmission)
	admission["spec"].(map[string]any)["validations"] = []any{map[string]any{"expression": "object." + hostile, "message": hostile}}
	admission["metadata"] = map[string]any{"name": hostile}
	write("broken-vap.yaml", admission, tree(t, hostileBinding))
	template, constraint := tree(t, hostileTemplate), tree(t, hostileConstraint)
	other := tree(t, hostileConstraint)
	other["metadata"], other["kind"] = map[string]any{"name": hostile}, hostile
	unknown := tree(t, hostileTemplate)
	unknown["metadata"] = map[string]any{"name": hostile}
	unknown["spec"].(map[string]any)["targets"].([]any)[0].(map[string]any)["code"].([]any)[0].(map[string]any)["source"].(map[string]any)[hostile] = hostile
	write("gatekeeper.yaml", template, constraint, other, unknown, tree(t, hostileSuite))
	nameless, unread := tree(t, hostileKyverno), tree(t, hostileKyverno)
	nameless["metadata"] = map[string]any{"name": hostile}
	unread["metadata"], unread["spec"] = map[string]any{"name": "unread"}, map[string]any{hostile: hostile, "rules": hostile}
	write("kyverno.yaml", tree(t, hostileKyverno), nameless, unread, map[string]any{"apiVersion": "kyverno.io/v2", "kind": hostile, "metadata": map[string]any{"name": hostile}})
	write("packs/hostile/pack.yaml", pack)
	write("packs/hostile/policies/refuses.yaml", refuses)
	write("cases/policy.yaml", refuses)
	write("cases/case.yaml", map[string]any{"name": hostile, "phase": "validate", "policyFiles": []string{"policy.yaml"}, "expect": map[string]any{"allowed": false, "messageEquals": hostile}, "request": map[string]any{
		"operation": "CREATE", "namespace": "shop", "object": map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": hostile, "namespace": "shop", "labels": map[string]any{"team": hostile}}},
	}})
	return files
}

// tree reads a policy, with hostile text in place of HOSTILE.
func tree(t *testing.T, text string) map[string]any {
	t.Helper()
	var tree map[string]any
	if err := yaml.Unmarshal([]byte(text), &tree); err != nil {
		t.Fatal(err)
	}
	return replaced(tree).(map[string]any)
}

func replaced(value any) any {
	switch v := value.(type) {
	case string:
		return strings.ReplaceAll(v, "HOSTILE", hostile)
	case []any:
		for i := range v {
			v[i] = replaced(v[i])
		}
	case map[string]any:
		for _, key := range slices.Collect(maps.Keys(v)) {
			below := replaced(v[key])
			delete(v, key)
			v[strings.ReplaceAll(key, "HOSTILE", hostile)] = below
		}
	}
	return value
}

const hostilePolicy = `
apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: refuses, annotations: {a: "HOSTILE"}}
spec:
  category: "HOSTILE"
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  validations:
  - {name: first, expression: "!object.metadata.name.contains('HOST')", message: "HOSTILE"}
  - {name: second, expression: "false", messageExpression: "'found ' + object.metadata.name"}
  - {name: third, expression: "object.metadata.labels.team == 'a'"}
  bindings: [{name: all, validationActions: [Deny, Audit]}]
`

const hostileChange = `
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: ClusterOverridePolicy
metadata: {name: changes}
spec:
  resourceSelectors: [{apiVersion: v1, kind: ConfigMap}]
  overrideRules:
  - overriders: {plaintext: [{path: /data/changed, op: add, value: "HOSTILE"}]}
`

const hostileAccess = `
apiVersion: usher.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: access}
spec:
  effect: Deny
  message: "HOSTILE"
  subjects: [{users: ["HOSTILE"]}]
  rules: [{verbs: [get], apiGroups: [""], resources: [secrets], names: ["HOSTILE"], namespaces: [shop]}]
`

const hostileTemplate = `
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: refuses, annotations: {description: "HOSTILE"}}
spec:
  crd: {spec: {names: {kind: Refuses}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    code: [{engine: K8sNativeValidation, source: {validations: [{expression: "variables.params.a == 'b'", message: "HOSTILE"}]}}]
`

const hostileConstraint = `
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: Refuses
metadata: {name: refuses}
spec: {match: {kinds: [{apiGroups: [""], kinds: [Pod]}], name: "HOSTILE*", namespaces: ["HOSTILE"]}, parameters: {a: "HOSTILE", "HOSTILE": a}}
`

const hostileKyverno = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: kyverno, annotations: {policies.kyverno.io/description: "HOSTILE", policies.kyverno.io/severity: "HOSTILE"}}
spec:
  validationFailureAction: "HOSTILE"
  rules:
  - {name: "HOSTILE", match: {any: [{resources: {kinds: [ConfigMap], names: ["HOSTILE*"], namespaces: ["HOSTILE"]}, subjects: [{kind: User, name: "HOSTILE"}]}]}, validate: {message: "HOSTILE", pattern: {"(HOSTILE)": "HOSTILE|>1", data: {"=(HOSTILE)": "HOSTILE*"}}}}
`

const hostileSuite = `
apiVersion: test.gatekeeper.sh/v1alpha1
kind: Suite
metadata: {name: "HOSTILE"}
tests:
- {name: "HOSTILE", template: gatekeeper.yaml, constraint: gatekeeper.yaml, cases: [{name: "HOSTILE", object: "HOSTILE.yaml", assertions: [{violations: "HOSTILE", message: "HOSTILE"}]}]}
- {name: "HOSTILE", template: object.yaml, constraint: object.yaml, cases: [{name: "HOSTILE", object: object.yaml}]}
`

const hostileAdmission = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: admission, annotations: {a: "HOSTILE"}}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  validations: [{expression: "object.metadata.name != 'a'", message: "HOSTILE"}]
`

const hostileBinding = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: binding, annotations: {a: "HOSTILE"}}
spec: {policyName: admission, validationActions: [Deny]}
`

const hostilePack = `
apiVersion: usher.dev/v1alpha1
kind: PolicyPack
metadata: {name: hostile}
title: "HOSTILE"
description: "HOSTILE"
version: "1.0.0"
kubernetes: ">=1.30"
policies: ["HOSTILE"]
`
