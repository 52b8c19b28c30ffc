//go:build unix

package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestSignalsEndCommands: a command that computes something, or waits for something, that never ends
// ends nevertheless.
func TestSignalsEndCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	object := filepath.Join(dir, "object.yaml")
	if err := os.WriteFile(object, []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// More than fits into a pipe: when it is written, the command reads.
	waiting := strings.Repeat("# comment\n", 20_000)
	var many strings.Builder
	for many.Len() < 64<<20 {
		many.WriteString("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
	}
	for _, row := range []struct {
		reason, input string
		closed        bool
		args          []string
		signal        syscall.Signal
		status        int
		stderr        string
	}{
		{"an endless read", waiting, false, []string{"check", "-"}, syscall.SIGTERM, 143, "usher: terminated\n"},
		{"from the keyboard", waiting, false, []string{"check", "-"}, syscall.SIGINT, 130, "usher: interrupted\n"},
		{"for programs", waiting, false, []string{"decide", "-o", "json", "-p", "-", object}, syscall.SIGTERM, 143, `{"error":{"code":"Canceled","message":"terminated","command":"usher decide"}}` + "\n"},
		{"more documents than can be read in a second", many.String(), true, []string{"decide", "-p", "-", object}, syscall.SIGTERM, 143, "usher: terminated\n"},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			// A command that does not end is killed, and has no exit status.
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			command := exec.CommandContext(ctx, "usher", row.args...)
			var stderr bytes.Buffer
			command.Stderr = &stderr
			stdin, err := command.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := stdin.Write([]byte(row.input)); err != nil {
				t.Fatal(err)
			}
			if row.closed {
				if err := stdin.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if err := command.Process.Signal(row.signal); err != nil {
				t.Fatal(err)
			}
			_ = command.Wait()
			if status := command.ProcessState.ExitCode(); status != row.status {
				t.Errorf("exit status %d, want %d", status, row.status)
			}
			// What the command found out before may come first.
			if got := stderr.String(); !strings.HasSuffix(got, row.stderr) || !row.closed && got != row.stderr {
				t.Errorf("stderr %q, want %q", got, row.stderr)
			}
		})
	}
}

// TestHostileFilesEnd: whatever a policy and an object make rules compute, a command tells of both.
func TestHostileFilesEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	hostile := func(expression string) string {
		return "apiVersion: usher.dev/v1alpha1\nkind: ClusterObjectPolicy\nmetadata: {name: hostile}\nspec:\n  matchConstraints: " +
			"{resourceRules: [{apiGroups: [\"\"], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}\n" +
			"  validations:\n  - expression: |\n      " + expression + "\n  bindings: [{name: all, validationActions: [Deny]}]\n"
	}
	object := write("object.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: '1e-999999999'}\n")
	runs := write("runs.yaml", hostile("quantity(object.data.a).isGreaterThan(quantity('1'))"))
	folds := write("folds.yaml", hostile("isQuantity('1e-999999999')"))
	for _, row := range []struct {
		reason string
		args   []string
	}{
		{"an expression that runs long", []string{"decide", "-p", runs, object}},
		{"when it is explained", []string{"explain", "-p", runs, object}},
		{"when objects are audited", []string{"audit", "-p", runs, object}},
		{"when it is tried", []string{"check", "-f", object, runs}},
		{"a constant that is computed", []string{"check", folds}},
		{"before a decision", []string{"decide", "-p", folds, object}},
		{"before it is rendered", []string{"render", "--to", "vap", folds}},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			command := exec.CommandContext(ctx, "usher", append(row.args, "--policy-timeout", "1s")...)
			output, _ := command.CombinedOutput()
			if status := command.ProcessState.ExitCode(); status < 0 || status > 2 {
				t.Errorf("exit status %d", status)
			}
			if !strings.Contains(string(output), "hostile") {
				t.Errorf("the policy is not named:\n%s", output)
			}
		})
	}
}
