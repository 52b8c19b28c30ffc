package deploy_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestOneVersion: the version of a release is written in the chart, and everything else has that one. What usher version
// prints is the tag, which goreleaser compares with the chart (hack/version.sh).
func TestOneVersion(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("helm/usher/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var chart struct {
		Version, AppVersion string
		Annotations         map[string]string
	}
	if err := yaml.Unmarshal(text, &chart); err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^\d+\.\d+\.\d+$`).MatchString(chart.Version) || chart.AppVersion != chart.Version {
		t.Errorf("the chart has the version %q, and the image %q", chart.Version, chart.AppVersion)
	}
	var images []struct{ Name, Image string }
	if err := yaml.Unmarshal([]byte(chart.Annotations["artifacthub.io/images"]), &images); err != nil || len(images) != 1 || images[0].Image != "ghcr.io/usher-dev/usher:"+chart.Version {
		t.Errorf("Artifact Hub is told of the images %v: %v", images, err)
	}
	var changes []struct{ Kind, Description string }
	if err := yaml.Unmarshal([]byte(chart.Annotations["artifacthub.io/changes"]), &changes); err != nil || len(changes) == 0 {
		t.Errorf("Artifact Hub is told of no changes: %v", err)
	}
	for _, change := range changes {
		if !slices.Contains([]string{"added", "changed", "deprecated", "removed", "fixed", "security"}, change.Kind) || change.Description == "" {
			t.Errorf("Artifact Hub does not know such a change: %v", change)
		}
	}
	// Images and versions, wherever a user may copy them.
	named := regexp.MustCompile(`(?:ghcr\.io/usher-dev/usher:|ghcr\.io/usher-dev/charts/usher --version |usher-dev/usher/cmd/usher(?:-verify)?@v|githubusercontent\.com/usher-dev/usher/v|app\.kubernetes\.io/version: "|releases/download/v)(\d+\.\d+\.\d+)`)
	found := 0
	for _, file := range []string{"manifests/usher.yaml", "manifests/tenants.yaml", "../docs/install.md", "../docs/upgrading.md", "../README.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, version := range named.FindAllSubmatch(text, -1) {
			found++
			if string(version[1]) != chart.Version {
				t.Errorf("%s has %s, and the chart %s", file, version[0], chart.Version)
			}
		}
	}
	if found < 10 {
		t.Errorf("found %d versions", found)
	}
}

// TestNothingPretendsToBePublished: before the changelog has a release, documents that name what one has say that there
// is none, in a line that the first one removes.
func TestNothingPretendsToBePublished(t *testing.T) {
	t.Parallel()
	changes, err := os.ReadFile("../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	released := regexp.MustCompile(`(?m)^## \[?\d+\.\d+\.\d+`).Match(changes)
	for _, file := range []string{"../docs/install.md", "../docs/upgrading.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if marked := strings.Contains(string(text), "\nBefore the first release: nothing "); marked == released {
			t.Errorf("%s says that nothing is published: %t; the changelog has a release: %t", file, marked, released)
		}
	}
}

// TestReleaseHasTheVersionOfTheChart runs what goreleaser runs before a release.
func TestReleaseHasTheVersionOfTheChart(t *testing.T) {
	t.Parallel()
	config, err := os.ReadFile("../.goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var release struct{ Before struct{ Hooks []string } }
	if err := yaml.Unmarshal(config, &release); err != nil || !slices.Contains(release.Before.Hooks, "hack/version.sh {{ .Version }}") {
		t.Fatalf("goreleaser does not compare versions: %v %v", release, err)
	}
	run := func(args ...string) (string, error) {
		out, err := exec.Command("../hack/version.sh", args...).CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	version, err := run()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		reason, version string
		ok              bool
	}{
		{"the same", version, true},
		{"a snapshot", "9.9.9-SNAPSHOT-0123456", true},
		{"another one", "9.9.9", false},
		{"a candidate of it", version + "-rc.1", false},
	} {
		if out, err := run(row.version); (err == nil) != row.ok {
			t.Errorf("%s: %v: %s", row.reason, err, out)
		}
	}
}

// TestReleaseIsPrepared runs the first step of docs/releasing.md in a copy of the files that it changes.
func TestReleaseIsPrepared(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/releasing.md")
	if err != nil {
		t.Fatal(err)
	}
	_, step, _ := strings.Cut(string(page), "```console\n")
	step, _, _ = strings.Cut(step, "```")
	first, rest, _ := strings.Cut(step, "\n")
	commands, generating, ok := strings.Cut(rest, "$ make ")
	if !strings.HasPrefix(first, "$ version=") || !ok || strings.Contains(strings.TrimSpace(generating), "\n") {
		t.Fatalf("the step does not begin with the version and end with what is generated:\n%s", step)
	}
	files := []string{"deploy/helm/usher/Chart.yaml", "docs/install.md", "docs/upgrading.md", "CHANGELOG.md", "hack/version.sh"}
	dir := t.TempDir()
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join("..", file))
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, text, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	const version = "7.8.9"
	script := regexp.MustCompile(`version=\d+\.\d+\.\d+`).ReplaceAllString(first, "version="+version) + "\n" + commands
	run := exec.Command("bash", "-euo", "pipefail", "-c", strings.ReplaceAll(strings.TrimPrefix(script, "$ "), "\n$ ", "\n"))
	run.Dir = dir
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	for file, want := range map[string]string{
		"deploy/helm/usher/Chart.yaml": `(?m)^version: 7\.8\.9\nappVersion: 7\.8\.9$`,
		"docs/install.md":              `--version 7\.8\.9 `,
		"CHANGELOG.md":                 `(?m)^## Unreleased\n\n## 7\.8\.9 - \d{4}-\d\d-\d\d\n`,
		"docs/upgrading.md":            `## Verify a download`,
	} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(want).Match(text) || strings.Contains(string(text), "Before the first release: nothing ") {
			t.Errorf("%s is not prepared: want %s", file, want)
		}
	}
}

// TestReleaseChecklist: targets of make and files of the repository that the checklist names exist.
func TestReleaseChecklist(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/releasing.md")
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	targets := 0
	for _, line := range regexp.MustCompile(`(?m)^\$ make (.*)$`).FindAllSubmatch(page, -1) {
		for word := range strings.FieldsSeq(string(line[1])) {
			if name, _, set := strings.Cut(word, "="); set {
				if !regexp.MustCompile(`\$[({]` + name + `\b`).Match(makefile) {
					t.Errorf("make %s: no target reads %s", line[1], name)
				}
				continue
			}
			targets++
			if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(word) + `:.*##`).Match(makefile) {
				t.Errorf("make %s is no target that make help explains", word)
			}
		}
	}
	if targets < 8 {
		t.Errorf("found %d targets", targets)
	}
}
