package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/usher-dev/usher/cmd/internal/cli"
)

// TestPolicyTimeout: all commands that compile policies give up one that takes too long, and name it.
func TestPolicyTimeout(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var text strings.Builder
	text.WriteString("apiVersion: usher.dev/v1alpha1\nkind: ClusterObjectPolicy\nmetadata: {name: long}\nspec:\n" +
		"  matchConstraints: {resourceRules: [{apiGroups: [\"\"], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}\n" +
		"  bindings: [{name: all, validationActions: [Deny]}]\n  validations:\n")
	for i := range 300 {
		fmt.Fprintf(&text, "  - expression: object.metadata.name.size() < %d\n", i+1000)
	}
	files := map[string]string{
		"policy.yaml": text.String(),
		"object.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
		"case.yaml":   "name: long\nphase: validate\npolicyFiles: [policy.yaml]\nrequest: {operation: CREATE, object: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}}\nexpect: {allowed: true}\n",
	}
	for name, content := range files {
		files[name] = filepath.Join(dir, name)
		if err := os.WriteFile(files[name], []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	policy, object := files["policy.yaml"], files["object.yaml"]
	for _, row := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"check", policy}, cli.ExitNegative, "policy.yaml:4: error: ClusterObjectPolicy long: spec: compiling it takes longer than 1ns; "},
		{[]string{"check", "--reads", policy}, cli.ExitOK, "POLICY"},
		{[]string{"decide", "-p", policy, object}, cli.ExitUnusable, "ClusterObjectPolicy long: spec: compiling it takes longer than 1ns; "},
		{[]string{"explain", "-p", policy, object}, cli.ExitUnusable, "ClusterObjectPolicy long: spec: compiling it takes longer than 1ns; "},
		{[]string{"simulate", "-p", policy, object}, cli.ExitUnusable, "ClusterObjectPolicy long: spec: compiling it takes longer than 1ns; "},
		{[]string{"audit", "-p", policy, object}, cli.ExitUnusable, "ClusterObjectPolicy long: spec: compiling it takes longer than 1ns; "},
		{[]string{"exempt", "-p", policy, "-f", object, "--reason", "x", "--owner", "x"}, cli.ExitUnusable, "ClusterObjectPolicy long: spec: compiling it takes longer than 1ns; "},
		{[]string{"test", files["case.yaml"]}, cli.ExitNegative, "it takes longer than 1ns"},
		{[]string{"render", policy}, cli.ExitUnusable, "ClusterObjectPolicy long: it takes longer than 1ns"},
		// Either step may be the one whose time is over.
		{[]string{"render", "--to", "vap", policy}, cli.ExitUnusable, "convert policies: it takes longer than 1ns|compare both forms: it takes longer than 1ns"},
		{[]string{"library", "try", "best-practices", "-f", object}, cli.ExitUnusable, "is left out, since it does not compile: compiling it takes longer than 1ns"},
	} {
		stdout, stderr, status := execute(t, append(row.args, "--policy-timeout", "1ns"))
		said := func(want string) bool { return strings.Contains(stdout+stderr, want) }
		if status != row.status || !slices.ContainsFunc(strings.Split(row.want, "|"), said) {
			t.Errorf("%v: status %d, want %d and %q:\n%s%s", row.args, status, row.status, row.want, stdout, stderr)
		}
		if stdout, stderr, status := execute(t, append(row.args, "--policy-timeout", "0")); strings.Contains(stdout+stderr, "takes longer") {
			t.Errorf("%v: without a limit, status %d:\n%s%s", row.args, status, stdout, stderr)
		}
	}
}
