package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/internal/artifact/artifacttest"
)

// TestSignedPacks: what --signed-by asks for is verified by usher-verify, of the digest that is read and before
// anything is; without that program, or without its consent, nothing is written.
func TestSignedPacks(t *testing.T) {
	bin, dir := t.TempDir(), t.TempDir()
	t.Setenv("PATH", bin)
	r := artifacttest.Start(t)
	acme := filepath.Join(dir, "acme")
	writePack(t, acme, "")
	tagged := "oci://" + r.Host + "/policies/acme:1.2.0"
	stdout, stderr, _ := execute(t, []string{"library", "push", acme, tagged})
	pushed := strings.TrimSpace(stdout)
	_, digest, ok := strings.Cut(pushed, "@")
	if !ok {
		t.Fatal(stderr)
	}
	r.Sign(t, digest, []byte(`{"signed": "by acme"}`))
	// It trusts who is in the file, if the digest is the one of the pack.
	program := "#!/bin/sh\nread -r bundle\n[ \"$1 $2\" = \"--digest=" + digest + " --signed-by=" + filepath.Join(dir, "acme.pub") +
		"\" ] && [ \"$bundle\" = '{\"signed\": \"by acme\"}' ] && exit 0\nprintf 'nobody\\033[31m signed it\\n' >&2\nexit 1\n"
	for i, row := range []struct {
		reason  string
		program string
		args    []string
		want    int
		says    string
	}{
		{"there is no program", "", []string{"pull", tagged, "--signed-by", filepath.Join(dir, "acme.pub")}, cli.ExitUnusable, "usher-verify"},
		{"signed", program, []string{"pull", tagged, "--signed-by", filepath.Join(dir, "acme.pub")}, cli.ExitOK, ""},
		{"signed by somebody else", program, []string{"pull", tagged, "--signed-by", filepath.Join(dir, "other.pub")}, cli.ExitUnusable, "is not signed by"},
		{"installed", program, []string{"install", "acme", "--packs", pushed, "--signed-by", filepath.Join(dir, "acme.pub")}, cli.ExitOK, ""},
		{"not installed", program, []string{"install", "acme", "--packs", pushed, "--signed-by", filepath.Join(dir, "other.pub")}, cli.ExitUnusable, "nobody"},
		{"of a folder", program, []string{"install", "acme", "--packs", acme, "--signed-by", filepath.Join(dir, "acme.pub")}, cli.ExitUnusable, "--signed-by is for packs in registries"},
		{"the program says too much", "#!/bin/sh\ni=0\nwhile [ $i -lt 20000 ]; do echo no; i=$((i+1)); done >&2\nexit 3\n", []string{"pull", tagged, "--signed-by", "x"}, cli.ExitUnusable, "is not signed by"},
	} {
		if row.program != "" {
			if err := os.WriteFile(filepath.Join(bin, "usher-verify"), []byte(row.program), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		out := filepath.Join(dir, "out"+string(rune('a'+i)))
		args := append([]string{"library"}, row.args...)
		stdout, stderr, status := execute(t, append(args, "--out", out))
		if status != row.want || !strings.Contains(stderr, row.says) || strings.Contains(stderr, "\x1b") || len(stderr) > 10_000 {
			t.Errorf("%s: status %d: %s%s", row.reason, status, stdout, stderr)
		}
		if _, err := os.Stat(out); (err == nil) != (row.want == cli.ExitOK) {
			t.Errorf("%s: written: %v", row.reason, err)
		}
	}
}
