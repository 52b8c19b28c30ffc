package main

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

var install = flag.Bool("install", false, "compile usher from the module as published")

const path = "github.com/usher-dev/usher"

// published makes a module proxy in a folder, with the module as a tag of this tree would publish it.
func published(t *testing.T, version string) string {
	t.Helper()
	// What git does not know is not in a tag: built binaries, and what tests leave behind.
	tree := filepath.Join(t.TempDir(), "tree")
	files, err := exec.Command("git", "-C", "../..", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(files), "\x00"), "\x00") {
		content, err := os.ReadFile(filepath.Join("../..", name))
		if os.IsNotExist(err) {
			continue // it is deleted, and not yet committed
		}
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(tree, name)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(tree, name), content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	proxy := t.TempDir()
	dir := filepath.Join(proxy, filepath.FromSlash(path), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	archive, err := os.Create(filepath.Join(dir, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	if err := zip.CreateFromDir(archive, module.Version{Path: path, Version: version}, tree); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	requirements, err := os.ReadFile(filepath.Join(tree, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		version + ".mod": string(requirements), version + ".info": `{"Version": "` + version + `"}`, "list": version + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return proxy
}

// settings are those of somebody with an empty module cache: what was downloaded before comes from the cache of this
// machine, and the rest from its proxy.
func settings(t *testing.T, proxy string) []string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOMODCACHE", "GOPROXY").Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return append(os.Environ(),
		"GOPROXY=file://"+proxy+",file://"+filepath.Join(lines[0], "cache", "download")+","+lines[1],
		// Nobody else has this version, so no database of checksums has it.
		"GONOSUMDB="+path, "GOFLAGS=-mod=mod -modcacherw", "GOWORK=off", "GOTOOLCHAIN=local", "GOBIN="+t.TempDir(), "GOMODCACHE="+t.TempDir())
}

// TestPublishedModule: go install of a released version finds everything that it needs: no directive of go.mod that it
// refuses, no package of another module of this repository, each embedded file, and all checksums.
func TestPublishedModule(t *testing.T) {
	t.Parallel()
	const version = "v0.1.0"
	environment := settings(t, published(t, version))
	text, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	requirements, err := modfile.Parse("go.mod", text, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(requirements.Replace) > 0 || len(requirements.Exclude) > 0 {
		t.Errorf("go.mod has directives that go install refuses")
	}
	arguments := []string{"list", "-deps", "-f", "{{if .Module}}{{if not .DepsErrors}}{{.ImportPath}}{{end}}{{end}}", path + "/cmd/usher", path + "/plugin", path + "/webhook"}
	dir := t.TempDir()
	for _, command := range [][]string{{"mod", "init", "example.com/user"}, {"get", path + "/cmd/usher@" + version, path + "/plugin@" + version}, arguments} {
		run := exec.CommandContext(t.Context(), "go", command...)
		run.Dir, run.Env = dir, environment
		out, err := run.CombinedOutput()
		if err != nil {
			t.Fatalf("go %v: %v\n%s", command, err, out)
		}
		if command[0] == "list" && strings.Count(string(out), path) < 50 {
			t.Errorf("usher is made of\n%s", out)
		}
	}
	if !*install {
		return
	}
	run := exec.CommandContext(t.Context(), "go", "install", path+"/cmd/usher@"+version)
	run.Dir, run.Env = dir, environment
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("go install: %v\n%s", err, out)
	}
	for _, setting := range environment {
		if bin, ok := strings.CutPrefix(setting, "GOBIN="); ok {
			out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "usher"), "version").CombinedOutput()
			if err != nil || !strings.HasPrefix(string(out), "usher "+version+" (") {
				t.Errorf("usher version: %v: %s", err, out)
			}
		}
	}
}
