package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/library"
)

// TestLibraryHasNoProblems installs all policies into a folder and checks it: no warning, nothing
// that fails on sample objects, and nothing that locks anybody out.
func TestLibraryHasNoProblems(t *testing.T) {
	t.Parallel()
	packs, err := library.Packs()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	args := []string{"library", "install", "--out", dir}
	policies := 0
	for _, pack := range packs {
		args = append(args, pack.Name)
		policies += len(pack.Policies)
	}
	if _, stderr, status := execute(t, args); status != cli.ExitOK || !strings.HasSuffix(stderr, " new, 0 changed, 0 unchanged\n") {
		t.Fatalf("install: status %d: %s", status, stderr)
	}
	stdout, stderr, status := execute(t, []string{"check", "--strict", "--policy-timeout=1m", "-f", "testdata/gateways.yaml", "-o", "json", dir})
	var report struct {
		Policies int
		Problems []any
		NotTried []any
		Lockout  []struct{ Effect string }
	}
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatalf("check: %v: %s", err, stderr)
	}
	if status != cli.ExitOK || report.Policies != policies || len(report.Problems)+len(report.NotTried) > 0 {
		t.Errorf("check: status %d, %d policies, problems %v, not tried %v", status, report.Policies, report.Problems, report.NotTried)
	}
}

// TestLibraryDeniesWithoutFailing checks the same policies as ones that deny. They may refuse
// requests without which a cluster cannot recover, which is said where they are installed, but none
// fails on one.
func TestLibraryDeniesWithoutFailing(t *testing.T) {
	t.Parallel()
	packs, err := library.Packs()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	args := []string{"library", "install", "--action", "Deny", "--out", dir}
	for _, pack := range packs {
		if pack.Name != "pod-security-labels" {
			// The bindings of that one have actions of their own.
			args = append(args, pack.Name)
		}
	}
	if _, stderr, status := execute(t, args); status != cli.ExitOK || !strings.Contains(stderr, "look at what --action Deny would refuse first") {
		t.Fatalf("install: status %d: %s", status, stderr)
	}
	stdout, stderr, _ := execute(t, []string{"check", "--strict", "--policy-timeout=1m", "-f", "testdata/gateways.yaml", "-o", "json", dir})
	var report struct{ Problems []struct{ What string } }
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatalf("check: %v: %s", err, stderr)
	}
	for _, p := range report.Problems {
		if !strings.Contains(p.What, "the rule refuses") || strings.Contains(p.What, "the rule fails") {
			t.Error(p.What)
		}
	}
}

// TestLibraryTryShowsNoControls: what others write into objects does not reach the terminal.
func TestLibraryTryShowsNoControls(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "role.json")
	object := `{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "a\u001b[2Jb", "namespace": "shop"}, "rules": [{"apiGroups": ["\u001b[31m"], "resources": ["*"], "verbs": ["*"]}]}`
	if err := os.WriteFile(file, []byte(object), 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, status := execute(t, []string{"library", "try", "rbac-hygiene", "-f", file})
	if status != cli.ExitNegative || !strings.Contains(stdout, `Role shop/a\x1b[2Jb`) || strings.ContainsRune(stdout+stderr, 0x1b) {
		t.Errorf("status %d: %q%q", status, stdout, stderr)
	}
}
