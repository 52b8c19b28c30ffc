package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/cmd/internal/cli"
)

// TestWorkflowInstallsARelease runs the step of the workflow that init writes with a curl that has the files of
// a release.
func TestWorkflowInstallsARelease(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "repository")
	if _, stderr, status := execute(t, []string{"init", dir}); status != cli.ExitOK {
		t.Fatalf("init: status %d: %s", status, stderr)
	}
	text, err := os.ReadFile(filepath.Join(dir, ".github", "workflows", "policies.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var workflow struct {
		Env  map[string]string
		Jobs map[string]struct {
			Steps []struct{ Name, Run, Uses string }
		}
	}
	if err := yaml.Unmarshal(text, &workflow); err != nil {
		t.Fatal(err)
	}
	script, caches := "", false
	for _, step := range workflow.Jobs["test"].Steps {
		caches = caches || strings.HasPrefix(step.Uses, "actions/cache@")
		if step.Name == "install usher" {
			script = step.Run
		}
	}
	if script == "" || !caches || workflow.Env["USHER_VERSION"] != "latest" {
		t.Fatalf("the workflow of a development version does not install the latest release, or caches none:\n%s", text)
	}
	for _, test := range []struct{ reason, version, tampered, from string }{
		{"a release", "v1.2.3", "", "https://github.com/usher-dev/usher/releases/download/v1.2.3/usher_linux_amd64.tar.gz"},
		{"no release of its own", "latest", "", "https://github.com/usher-dev/usher/releases/latest/download/usher_linux_amd64.tar.gz"},
		{"another archive than the release has", "v1.2.3", "x", ""},
	} {
		home, asked, err := install(t, script, test.version, test.tampered)
		program, missing := os.ReadFile(filepath.Join(home, ".usher", "usher"))
		if test.tampered != "" {
			if err == nil || missing == nil {
				t.Errorf("%s: it is installed: %v", test.reason, err)
			}
			continue
		}
		if err != nil || string(program) != "a program" || !strings.Contains(asked, test.from+"\n") {
			t.Errorf("%s: %v, installed %q, asked for\n%s", test.reason, err, program, asked)
		}
	}
}

// install runs a script with a curl that has the files of a release, and returns the home directory and
// what curl was asked for.
func install(t *testing.T, script, version, tampered string) (home, asked string, err error) {
	t.Helper()
	home = t.TempDir()
	var archive bytes.Buffer
	zipped := gzip.NewWriter(&archive)
	files := tar.NewWriter(zipped)
	const program = "a program"
	if err := files.WriteHeader(&tar.Header{Name: "usher", Mode: 0o755, Size: int64(len(program))}); err != nil {
		t.Fatal(err)
	}
	if _, err := files.Write([]byte(program)); err != nil {
		t.Fatal(err)
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"usher_linux_amd64.tar.gz": archive.String() + tampered,
		"checksums.txt":            fmt.Sprintf("%x  usher_linux_amd64.tar.gz\n%x  usher_darwin_arm64.tar.gz\n", sha256.Sum256(archive.Bytes()), sha256.Sum256(nil)),
		// The last argument is the address, the one before it the file.
		"curl": "#!/bin/bash\necho \"${@: -1}\" >> \"$HOME/asked\"\nexec cp \"$HOME/${@: -2:1}\" .\n",
	} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	// As GitHub runs it.
	command := exec.Command("bash", "-e", "-c", script)
	command.Env = append(os.Environ(), "HOME="+home, "PATH="+home+":"+os.Getenv("PATH"), "USHER_VERSION="+version)
	out, err := command.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	text, missing := os.ReadFile(filepath.Join(home, "asked"))
	if missing != nil {
		t.Fatalf("curl was not asked: %s", out)
	}
	return home, string(text), err
}

// TestPreCommitHooks runs the hooks on the files of the examples that pre-commit would pass.
func TestPreCommitHooks(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../.pre-commit-hooks.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var hooks []struct{ ID, Language, Entry, Files string }
	if err := yaml.UnmarshalStrict(regexp.MustCompile(`(?m)^  (name|description):.*\n`).ReplaceAll(text, nil), &hooks); err != nil {
		t.Fatal(err)
	}
	all, err := filepath.Glob("../../examples/object-policies/*/*.yaml")
	if err != nil || len(hooks) != 2 {
		t.Fatalf("%d hooks: %v", len(hooks), err)
	}
	broken := filepath.Join(t.TempDir(), "broken.yaml")
	if err := os.WriteFile(broken, []byte("apiVersion: usher.dev/v1alpha1\nkind: ClusterObjectPolicy\nmetadata: {name: a}\nspec: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, hook := range hooks {
		files := slices.DeleteFunc(slices.Clone(all), func(path string) bool { return !regexp.MustCompile(hook.Files).MatchString(path) })
		entry := strings.Fields(hook.Entry)
		if len(files) < 10 || entry[0] != "usher" || hook.Language != "system" {
			t.Errorf("%s: runs %q in %s on %d files of the examples", hook.ID, hook.Entry, hook.Language, len(files))
		}
		if stdout, stderr, status := execute(t, slices.Concat(entry[1:], files)); status != cli.ExitOK {
			t.Errorf("%s: status %d: %s%s", hook.ID, status, stdout, stderr)
		}
		if _, _, status := execute(t, slices.Concat(entry[1:], []string{broken})); status == cli.ExitOK {
			t.Errorf("%s finds nothing wrong with a policy without rules", hook.ID)
		}
	}
}
