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
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// action returns the steps of the action, with the values of its inputs.
func action(t *testing.T, with map[string]any) []step {
	t.Helper()
	text, err := os.ReadFile("../../action.yml")
	if err != nil {
		t.Fatal(err)
	}
	var a struct {
		Inputs map[string]struct{ Default string }
		Runs   struct {
			Using string
			Steps []step
		}
	}
	if err := yaml.Unmarshal(text, &a); err != nil {
		t.Fatal(err)
	}
	for _, step := range a.Runs.Steps {
		if step.Shell != "bash" || step.Uses != "" || strings.Contains(step.Run, "${{") {
			t.Errorf("%s: what is not bash, an action of others, or an expression in a script: %+v", step.Name, step)
		}
		for name, value := range step.Env {
			input, isInput := strings.CutPrefix(strings.TrimSuffix(value, " }}"), "${{ inputs.")
			if !isInput {
				delete(step.Env, name)
				continue
			}
			step.Env[name] = a.Inputs[input].Default
			if given, ok := with[input]; ok {
				step.Env[name] = fmt.Sprint(given)
			}
		}
	}
	return a.Runs.Steps
}

// TestActionInstallsARelease runs the step of the action with a curl that has the files of a release.
func TestActionInstallsARelease(t *testing.T) {
	t.Parallel()
	first := action(t, nil)[0]
	script := first.Run
	if first.Name != "install usher" || first.Env["USHER_VERSION"] != "" {
		t.Fatalf("the action does not install the latest release: %+v", first)
	}
	for _, test := range []struct{ reason, version, tampered, from string }{
		{"a release", "v1.2.3", "", "https://github.com/usher-dev/usher/releases/download/v1.2.3/usher_linux_amd64.tar.gz"},
		{"no release of its own", "", "", "https://github.com/usher-dev/usher/releases/latest/download/usher_linux_amd64.tar.gz"},
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
	command.Env = append(os.Environ(), "HOME="+home, "PATH="+home+":"+os.Getenv("PATH"), "USHER_VERSION="+version, "GITHUB_PATH="+filepath.Join(home, "path"))
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

// TestActionComparesPolicies runs the steps of the action on a pull request: what the change would do is in the summary
// of the job and in a comment, which a later run replaces.
func TestActionComparesPolicies(t *testing.T) {
	t.Parallel()
	dir, _ := repository(t, "--pack", "image-tags", "--action", "Deny")
	git := func(script string) string {
		out, status := inShell(t, dir, script)
		if status != 0 {
			t.Fatalf("%s: %s", script, out)
		}
		return strings.TrimSpace(out)
	}
	const commit = " && git add -A && git -c user.name=a -c user.email=a@example.com commit -qm a"
	git("git init -q . && git remote add origin ." + commit)
	base := git("git rev-parse HEAD")
	file := filepath.Join(dir, "policies", "image-tags.yaml")
	policy, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "manifests", "pod.yaml"), "apiVersion: v1\nkind: Pod\nmetadata: {name: cart, namespace: shop}\nspec: {containers: [{name: main, image: \"cart:1\"}]}\n")
	writeFile(t, file, strings.Replace(string(policy), "variables.moving.size() == 0", "variables.moving.size() == 0 && object.metadata.name != 'cart'", 1))
	git("true" + commit)
	temp := t.TempDir()
	// A gh with a comment of somebody else, and one of an earlier run.
	writeFile(t, filepath.Join(temp, "gh"), "#!/bin/bash\necho \"$*\" >> \"$ASKED\"\ncase \"$*\" in *--paginate*) cat \"$COMMENTS\";; esac\n")
	if err := os.Chmod(filepath.Join(temp, "gh"), 0o700); err != nil {
		t.Fatal(err)
	}
	asked, summary, comments := filepath.Join(temp, "asked"), filepath.Join(temp, "summary"), filepath.Join(temp, "comments")
	writeFile(t, comments, "")
	env := []string{"BASE=" + base, "RUNNER_TEMP=" + temp, "GITHUB_STEP_SUMMARY=" + summary, "GH_TOKEN=x", "REPOSITORY=a/b", "NUMBER=7", "ASKED=" + asked, "COMMENTS=" + comments}
	run := func(name string) (string, int) {
		for _, step := range action(t, map[string]any{"requests": "manifests\nnone"}) {
			if step.Name == name {
				return inShell(t, dir, "PATH="+temp+":$PATH\n"+step.Run, slices.Concat(env, environment(step.Env))...)
			}
		}
		t.Fatalf("the action has no step %s", name)
		return "", 0
	}
	out, status := run("compare policies")
	text, err := os.ReadFile(summary)
	if err != nil || status != 1 || !strings.Contains(string(text), "| newly denied | 1 | `ClusterObjectPolicy image-tags` | `pods in shop: cart` |") {
		t.Fatalf("status %d, %v: %s\n%s", status, err, out, text)
	}
	if out, status := run("comment"); status != 0 {
		t.Fatalf("status %d: %s", status, out)
	}
	writeFile(t, comments, "12\n13\n")
	run("comment")
	calls, err := os.ReadFile(asked)
	body := " -F body=@" + filepath.Join(temp, "usher-comment.md")
	if err != nil || !strings.Contains(string(calls), "api --silent repos/a/b/issues/7/comments"+body+"\n") || !strings.HasSuffix(string(calls), "api --silent --method PATCH repos/a/b/issues/comments/12"+body+"\n") {
		t.Errorf("%v: gh was asked\n%s", err, calls)
	}
	if written, err := os.ReadFile(filepath.Join(temp, "usher-comment.md")); err != nil || !strings.HasPrefix(string(written), "<!-- usher impact -->\n### Impact") {
		t.Errorf("%v: the comment is %q", err, written)
	}
}
