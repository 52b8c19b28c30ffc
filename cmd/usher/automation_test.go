package main

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	diff "github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/format/formattest"
)

// A step is one of a workflow.
type step struct {
	Name, Run, Uses, If string

	ContinueOnError bool              `json:"continue-on-error"`
	With            map[string]any    `json:"with"`
	Env             map[string]string `json:"env"`
	Shell           string            `json:"shell"`
}

// repository makes one with usher init, and returns its folder and the steps of its workflow, with those of the action.
func repository(t *testing.T, args ...string) (dir string, steps []step) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "repository")
	if stdout, stderr, status := execute(t, slices.Concat([]string{"init", dir}, args)); status != cli.ExitOK || !strings.HasPrefix(stdout, "wrote ") {
		t.Fatalf("init %v: status %d: %s%s", args, status, stdout, stderr)
	}
	text, err := os.ReadFile(filepath.Join(dir, ".github", "workflows", "policies.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var workflow struct {
		Permissions map[string]string
		Jobs        map[string]struct{ Steps []step }
	}
	if err := yaml.Unmarshal(text, &workflow); err != nil {
		t.Fatal(err)
	}
	if workflow.Permissions["security-events"] != "write" || workflow.Permissions["pull-requests"] != "write" {
		t.Errorf("the workflow may not write results: %v", workflow.Permissions)
	}
	for _, step := range workflow.Jobs["test"].Steps {
		if ref, ours := strings.CutPrefix(step.Uses, "usher-dev/usher@"); ours {
			if ref != "main" || step.With["version"] != "" {
				t.Errorf("a development version has a workflow with %+v", step)
			}
			steps = append(steps, action(t, step.With)...)
			continue
		}
		steps = append(steps, step)
	}
	return dir, steps
}

// inShell runs a script as GitHub and pre-commit run it, in a folder, with usher in the PATH.
func inShell(t *testing.T, dir, script string, env ...string) (out string, status int) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(program, filepath.Join(bin, "usher")); err != nil {
		t.Fatal(err)
	}
	command := exec.Command("bash", "-e", "-c", script)
	command.Dir = dir
	command.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+bin, "GITHUB_PATH="+filepath.Join(bin, "path"), "NO_COLOR=1")
	command.Env = append(command.Env, env...)
	printed, err := command.CombinedOutput()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatalf("%s: %v", script, err)
	}
	return string(printed), command.ProcessState.ExitCode()
}

func environment(of map[string]string) []string {
	var all []string
	for name, value := range of {
		all = append(all, name+"="+value)
	}
	return all
}

// uploads runs all steps, as GitHub does when the conditions of steps allow it after one that failed, and returns
// the names or scripts of those that fail, and which files are uploaded.
func uploads(t *testing.T, dir string, steps []step) (failed, uploaded []string) {
	t.Helper()
	for i, step := range steps {
		file, _ := step.With["sarif_file"].(string)
		// Conditions name files that have to be there: hashFiles is empty without any.
		for _, needed := range regexp.MustCompile(`hashFiles\('([^'*]+)`).FindAllStringSubmatch(step.If, -1) {
			if _, err := os.Stat(filepath.Join(dir, needed[1])); err != nil {
				step.Run, file = "", ""
			}
		}
		if strings.Contains(step.If, "'pull_request'") {
			continue
		}
		if (file != "" || step.Run != "" && i > 2) && !strings.Contains(step.If, "!cancelled()") {
			t.Errorf("step %d is not run if one before it fails: %+v", i, step)
		}
		switch {
		case file != "":
			text, err := os.ReadFile(filepath.Join(dir, file))
			if err == nil {
				err = formattest.SARIF(text)
			}
			if err != nil || !strings.HasPrefix(step.Uses, "github/codeql-action/upload-sarif@") || step.With["category"] == nil {
				t.Errorf("%v: %+v", err, step)
			}
			uploaded = append(uploaded, file)
		case step.Run != "" && step.Name != "install usher":
			if out, status := inShell(t, dir, step.Run, environment(step.Env)...); status != 0 {
				t.Logf("%s: status %d: %s", step.Run, status, out)
				failed = append(failed, cmp.Or(step.Name, step.Run))
			}
		}
	}
	return failed, uploaded
}

// TestInit runs what the workflow of a new repository runs: whatever the settings of its policies are, nothing fails.
func TestInit(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		nil,
		{"--pack", "supply-chain", "--pack", "wildcard-roles", "--pack", "seccomp-default"},
		{"--pack", "supply-chain", "--params", "registries=[registry.acme.example]"},
		{"--pack", "supply-chain", "--action", "Deny", "--params", "registries=[registry.acme.example]"},
		{"--pack", "supply-chain", "--action", "Deny", "--infrastructure-namespaces", "kube-system,cilium,longhorn-system"},
		{"--pack", "image-tags", "--pack", "pull-secrets", "--params", "names=[ours]", "--action", "Deny"},
		{"--pack", "pod-security-baseline-sysctls", "--pack", "pod-security-baseline-host-ports", "--params", "exemptRuntimeClasses=[gvisor]", "--params", "version=v1.30"},
	} {
		dir, steps := repository(t, args...)
		if failed, uploaded := uploads(t, dir, steps); len(failed) > 0 || !slices.Equal(uploaded, []string{"policies.sarif"}) {
			t.Errorf("init %v: steps %q fail, and %q are uploaded", args, failed, uploaded)
		}
		if _, stderr, status := execute(t, slices.Concat([]string{"init", dir}, args)); status == cli.ExitOK || !strings.Contains(stderr, "repository has policies/") {
			t.Errorf("init %v again: status %d: %s", args, status, stderr)
		}
	}
}

// TestInitKeepsFiles: what a new repository has already stays, and is no reason to write nothing.
func TestInitKeepsFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{"README.md": "ours", "LICENSE": "ours", ".gitignore": "ours"} {
		writeFile(t, filepath.Join(dir, name), content)
	}
	_, stderr, status := execute(t, []string{"init", "--pack", "image-tags", dir})
	readme, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if _, missing := os.Stat(filepath.Join(dir, "policies", "image-tags.yaml")); err != nil || missing != nil || status != cli.ExitOK || string(readme) != "ours" || stderr != "note: "+filepath.Join(dir, "README.md")+" exists, and stays as it is: it differs from what would be written\n" {
		t.Errorf("status %d: %s, README has %q: %v, %v", status, stderr, readme, err, missing)
	}
	// Policies of another pack are added.
	if _, stderr, status := execute(t, []string{"init", "--pack", "image-digests", dir}); status != cli.ExitOK {
		t.Errorf("a second pack: status %d: %s", status, stderr)
	}
}

// TestWorkflowUploadsWhatFails: results are uploaded although, and because, steps fail.
func TestWorkflowUploadsWhatFails(t *testing.T) {
	t.Parallel()
	dir, steps := repository(t, "--pack", "image-tags")
	for _, row := range []struct {
		reason, file, content string
		failed, uploaded      []string
	}{
		{
			"a policy warns of an object", "manifests/pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: cart, namespace: shop}\nspec: {containers: [{name: main, image: cart}]}\n",
			[]string{"audit manifests"}, []string{"policies.sarif", "manifests.sarif"},
		},
		{
			"a policy does not compile, and nothing can be audited", "policies/broken.yaml", "apiVersion: usher.dev/v1alpha1\nkind: ClusterObjectPolicy\nmetadata: {name: a}\nspec: {}\n",
			[]string{"check policies", "audit manifests"}, []string{"policies.sarif"},
		},
	} {
		writeFile(t, filepath.Join(dir, row.file), row.content)
		failed, uploaded := uploads(t, dir, steps)
		if text := diff.Diff(row.failed, failed) + diff.Diff(row.uploaded, uploaded); text != "" {
			t.Errorf("%s: failed and uploaded, -want +got:\n%s", row.reason, text)
		}
	}
}

// writeFile writes a file, and makes its folder.
func writeFile(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A hook is one of .pre-commit-hooks.yaml.
type hook struct {
	ID, Language, Entry, Files string

	Args          []string
	PassFilenames *bool `json:"pass_filenames"`
}

func hooks(t *testing.T) map[string]hook {
	t.Helper()
	text, err := os.ReadFile("../../.pre-commit-hooks.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var list []hook
	if err := yaml.UnmarshalStrict(regexp.MustCompile(`(?m)^  (name|description|require_serial):.*\n`).ReplaceAll(text, nil), &list); err != nil {
		t.Fatal(err)
	}
	byID := map[string]hook{}
	for _, h := range list {
		if h.Language != "system" || !strings.HasPrefix(h.Entry, "usher ") {
			t.Errorf("%s: runs %q in %s", h.ID, h.Entry, h.Language)
		}
		byID[h.ID] = h
	}
	return byID
}

// TestPreCommitHooksRunWhenTheyHaveTo is about which files of a commit concern which hook.
func TestPreCommitHooksRunWhenTheyHaveTo(t *testing.T) {
	t.Parallel()
	all := hooks(t)
	for _, row := range []struct{ reason, file, want string }{
		{"a policy may make cases fail and refuse manifests", "policies/a.yaml", "usher-audit usher-check usher-test"},
		{"folders may be anywhere", "deploy/policies/team/a.yml", "usher-audit usher-check usher-test"},
		{"a case", "cases/a.yaml", "usher-test"},
		{"a case in JSON", "deploy/cases/a.json", "usher-test"},
		{"an object", "manifests/shop/a.yaml", "usher-audit"},
		{"a document", "policies/README.md", ""},
		{"another folder that ends alike", "old-policies/a.yaml", ""},
		{"a workflow of that name", ".github/workflows/policies.yaml", ""},
	} {
		var runs []string
		for id, h := range all {
			if regexp.MustCompile(h.Files).MatchString(row.file) {
				runs = append(runs, id)
			}
		}
		slices.Sort(runs)
		if got := strings.Join(runs, " "); got != row.want {
			t.Errorf("%s: %s runs %q, expected %q", row.reason, row.file, got, row.want)
		}
	}
}

// TestPreCommitHooks commits what is right and what is wrong to a new repository: the hooks run with the files that
// pre-commit passes.
func TestPreCommitHooks(t *testing.T) {
	t.Parallel()
	dir, _ := repository(t, "--pack", "image-tags", "--infrastructure-namespaces", "kube-system,cilium")
	text, err := os.ReadFile(filepath.Join(dir, ".pre-commit-config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var config struct{ Repos []struct{ Hooks []hook } }
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	args := map[string][]string{}
	for _, h := range config.Repos[0].Hooks {
		args[h.ID] = h.Args
	}
	for _, match := range regexp.MustCompile(`- id: (\S+)`).FindAllStringSubmatch(string(text), -1) {
		if _, ok := hooks(t)[match[1]]; !ok {
			t.Errorf("usher init writes the hook %s, which there is not", match[1])
		}
	}
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: cart, namespace: shop}\nspec: {containers: [{name: main, image: \"registry.example.com/cart:1\"}]}\n"
	writeFile(t, filepath.Join(dir, "manifests", "pod.yaml"), pod)
	policy, err := os.ReadFile(filepath.Join(dir, "policies", "image-tags.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, commit := range []struct{ reason, file, content, fails string }{
		{"nothing is wrong", "policies/image-tags.yaml", string(policy), ""},
		{"an object of which a policy warns", "manifests/pod.yaml", strings.Replace(pod, ":1", "", 1), "usher-audit"},
		{"an object that complies", "manifests/pod.yaml", pod, ""},
		{"a policy that does something else", "policies/image-tags.yaml", strings.Replace(string(policy), "operations: [CREATE, UPDATE]", "operations: [CREATE]", 1), "usher-test"},
		{"a policy that does not compile", "policies/image-tags.yaml", "apiVersion: usher.dev/v1alpha1\nkind: ClusterObjectPolicy\nmetadata: {name: a}\nspec: {}\n", "usher-audit usher-check usher-test"},
	} {
		writeFile(t, filepath.Join(dir, commit.file), commit.content)
		var failed []string
		for id, h := range hooks(t) {
			if !regexp.MustCompile(h.Files).MatchString(commit.file) {
				continue
			}
			if own := args[id]; own != nil {
				h.Args = own // pre-commit takes these in place of those of the hook
			}
			command := strings.Join(append([]string{h.Entry}, h.Args...), " ")
			if h.PassFilenames == nil || *h.PassFilenames {
				command += " " + commit.file
			}
			if out, status := inShell(t, dir, command); status != 0 {
				t.Logf("%s: %s: %s", commit.reason, command, out)
				failed = append(failed, id)
			}
		}
		slices.Sort(failed)
		if got := strings.Join(failed, " "); got != commit.fails {
			t.Errorf("%s: %q fail, expected %q", commit.reason, got, commit.fails)
		}
	}
}

// TestInitGivesNamespacesThatThereAre: what a change does depends on the labels of Namespaces, which the workflow gives if a
// file has them.
func TestInitGivesNamespacesThatThereAre(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ file, want string }{
		{"namespaces.yaml", "\n        facts: namespaces.yaml\n"},
		{"others.yaml", "\n        # facts: namespaces.yaml\n"},
	} {
		dir := t.TempDir()
		writeFile(t, filepath.Join(dir, row.file), "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n")
		if _, stderr, status := execute(t, []string{"init", "--pack", "none", dir}); status != cli.ExitOK {
			t.Fatalf("init: %s", stderr)
		}
		workflow, err := os.ReadFile(filepath.Join(dir, ".github", "workflows", "policies.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(workflow), row.want) {
			t.Errorf("with %s there is no %q in the workflow:\n%s", row.file, row.want, workflow)
		}
	}
}
