package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/internal/artifact/artifacttest"
)

// TestRegistry: a pack is pushed, installed by its digest, and pulled; a tag is not enough to install, and
// nothing is written of what is no pack.
func TestRegistry(t *testing.T) {
	t.Parallel()
	r, dir := artifacttest.Start(t), t.TempDir()
	run := func(want int, args ...string) (string, string) {
		t.Helper()
		stdout, stderr, status := execute(t, append([]string{"library"}, args...))
		if status != want {
			t.Fatalf("%v: status %d: %s", args, status, stderr)
		}
		return stdout, stderr
	}
	tagged := "oci://" + r.Host + "/policies/acme:1.2.0"
	acme := filepath.Join(dir, "acme")
	writePack(t, acme, "")
	pushed, _ := run(cli.ExitOK, "push", acme, tagged)
	pushed = strings.TrimSpace(pushed)
	digest := strings.TrimPrefix(pushed, "oci://"+r.Host+"/policies/acme@")
	if !strings.HasPrefix(digest, "sha256:") {
		t.Fatalf("push prints %q", pushed)
	}

	if installed, _ := run(cli.ExitOK, "install", "acme", "--packs", pushed); !strings.Contains(installed, "usher.dev/pack: acme") {
		t.Errorf("installed:\n%s", installed)
	}
	if _, stderr := run(cli.ExitUnusable, "install", "acme", "--packs", tagged); !strings.Contains(stderr, digest) {
		t.Errorf("a tag is installed, or the digest is not named: %s", stderr)
	}
	out := filepath.Join(dir, "out")
	if pulled, _ := run(cli.ExitOK, "pull", tagged, "--out", out); strings.TrimSpace(pulled) != pushed {
		t.Errorf("pull prints %q", pulled)
	}
	if again, _ := run(cli.ExitOK, "push", out, tagged); strings.TrimSpace(again) != pushed {
		t.Errorf("what was pulled has another digest: %s", again)
	}
	if _, stderr := run(cli.ExitUnusable, "pull", tagged, "--out", out); !strings.Contains(stderr, out+" has ") {
		t.Errorf("files are replaced: %s", stderr)
	}

	broken := filepath.Join(dir, "broken")
	writePack(t, broken, "{}")
	run(cli.ExitUnusable, "push", broken, tagged)
	r.Put("broken", "application/vnd.oci.image.manifest.v1+json", []byte(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","artifactType":"application/vnd.usher.policypack.v1","layers":[]}`))
	none := filepath.Join(dir, "none")
	run(cli.ExitUnusable, "pull", "oci://"+r.Host+"/policies/acme:broken", "--out", none)
	if _, err := os.Stat(none); err == nil {
		t.Error("a folder is made for what is no pack")
	}
}

// acmePack is a pack of one's own.
var acmePack = map[string]string{
	"pack.yaml": `{apiVersion: usher.dev/v1alpha1, kind: PolicyPack, metadata: {name: acme}, title: Acme, description: For us., version: "1.2.0", kubernetes: ">=1.30", policies: [owner]}`,
	"owner.yaml": `apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: acme-owner}
spec:
  description: Namespaces have an owner.
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [namespaces]}]}
  validations: [{expression: "has(object.metadata.labels) && 'owner' in object.metadata.labels", message: set the label owner}]
  bindings: [{name: all, validationActions: [Warn]}]
`,
	"cases/owner.yaml": "cases: []\n",
}

// writePack writes the pack, with another pack.yaml unless that is empty.
func writePack(t *testing.T, to, description string) {
	t.Helper()
	for name, text := range acmePack {
		if name == "pack.yaml" && description != "" {
			text = description
		}
		file := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
