package hack_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// used matches what a workflow uses, and the rest of the line.
var used = regexp.MustCompile(`(?m)^\s*(?:- )?uses: *(\S+)(.*)$`)

// TestActionsArePinned: an action of somebody else is named by the commit of a release, since who owns it can move tags.
func TestActionsArePinned(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../.github/workflows/*")
	if err != nil || len(files) < 5 {
		t.Fatalf("%v: %d workflows", err, len(files))
	}
	// Those that users copy have the same.
	files = append(files, "../action.yml", "../cmd/usher/internal/library/init/workflow.yaml", "../docs/audit.md")
	pins := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, problem := range unpinned(string(text), pins) {
			t.Errorf("%s: %s", file, problem)
		}
	}
	if len(pins) < 6 {
		t.Errorf("found the actions %v only", slices.Sorted(maps.Keys(pins)))
	}
}

func TestUnpinned(t *testing.T) {
	t.Parallel()
	const commit = "0123456789abcdef0123456789abcdef01234567"
	for _, row := range []struct {
		reason, text string
		want         int
	}{
		{"a commit, and its release", "- uses: a/b@" + commit + " # v1.2.3", 0},
		{"ours", "- uses: usher-dev/usher@VERSION", 0},
		{"in this repository", "  uses: ./action", 0},
		{"a tag", "- uses: a/b@v1", 1},
		{"a commit that is too short", "- uses: a/b@0123456 # v1.2.3", 1},
		{"a commit of an unknown release", "- uses: a/b@" + commit, 1},
		{"a release that is a tag that moves", "- uses: a/b@" + commit + " # v1", 1},
		{"an image by its tag", "- uses: docker://alpine:3", 1},
		{"two versions", "uses: a/b@" + commit + " # v1.2.3\nuses: a/b/c@" + strings.Replace(commit, "0", "1", 1) + " # v1.2.4", 1},
	} {
		if got := unpinned(row.text, map[string]string{}); len(got) != row.want {
			t.Errorf("%s: %q, expected %d", row.reason, got, row.want)
		}
	}
}

// unpinned names what is used in a workflow without a commit, or with another one than in pins, and adds to them.
func unpinned(text string, pins map[string]string) []string {
	pinned := regexp.MustCompile(`^([\w.-]+/[\w.-]+)(?:/[\w./-]+)?@([0-9a-f]{40})$`)
	var problems []string
	for _, found := range used.FindAllStringSubmatch(text, -1) {
		if strings.HasPrefix(found[1], "./") || strings.HasPrefix(found[1], "usher-dev/usher@") {
			continue
		}
		parts := pinned.FindStringSubmatch(found[1])
		if parts == nil || !regexp.MustCompile(`^ # v\d+\.\d+\.\d+$`).MatchString(found[2]) {
			problems = append(problems, found[0]+": expected ACTION@COMMIT # vMAJOR.MINOR.PATCH")
			continue
		}
		pin := parts[2] + found[2]
		if before, ok := pins[parts[1]]; ok && before != pin {
			problems = append(problems, found[0]+": elsewhere it is "+before)
		}
		pins[parts[1]] = pin
	}
	return problems
}

// A workflow has what could give somebody rights.
type workflow struct {
	Permissions map[string]string
	On          map[string]any
	Jobs        map[string]struct {
		Permissions map[string]string
		Timeout     int `json:"timeout-minutes"`
		Steps       []struct {
			Uses, Run string
			With      map[string]any
		}
	}
}

// TestWorkflowsMayLittle: a pull request of anybody runs in them.
func TestWorkflowsMayLittle(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../.github/workflows/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, problem := range rights(t, text) {
			t.Errorf("%s: %s", file, problem)
		}
	}
}

func TestRights(t *testing.T) {
	t.Parallel()
	const least = "on: {push: {}}\npermissions: {contents: read}\njobs: {a: {timeout-minutes: 5, steps: [{run: make}]}}"
	for _, row := range []struct{ reason, old, replacement string }{
		{"", "", ""},
		{"it has all rights that the repository gives", "permissions: {contents: read}\n", ""},
		{"it may write contents", "contents: read", "contents: write"},
		{"a job may write contents", "{timeout-minutes", "{permissions: {contents: write}, timeout-minutes"},
		{"it has the token of the repository for code of others", "push: {}", "pull_request_target: {}"},
		{"a job may last for hours", "timeout-minutes: 5, ", ""},
		{"a title becomes a script", "run: make", "run: 'echo ${{ github.event.pull_request.title }}'"},
		{"steps after it find a token in the checkout", "run: make", "uses: actions/checkout@v1"},
	} {
		got := rights(t, []byte(strings.Replace(least, row.old, row.replacement, 1)))
		if (len(got) == 1) != (row.reason != "") {
			t.Errorf("%q: got the problems %q", row.reason, got)
		}
	}
}

// rights names what a workflow may do beyond reading contents and writing results of analyses.
func rights(t *testing.T, text []byte) []string {
	t.Helper()
	var w workflow
	// A key that is the word on is true in YAML 1.1.
	if err := yaml.Unmarshal(regexp.MustCompile(`(?m)^on:`).ReplaceAll(text, []byte(`"on":`)), &w); err != nil {
		t.Fatal(err)
	}
	var problems []string
	if !maps.Equal(w.Permissions, map[string]string{"contents": "read"}) {
		problems = append(problems, "permissions are not those to read contents")
	}
	if _, ok := w.On["pull_request_target"]; ok {
		problems = append(problems, "pull_request_target")
	}
	for name, job := range w.Jobs {
		for right, value := range job.Permissions {
			if value != "read" && right != "security-events" {
				problems = append(problems, name+" may "+value+" "+right)
			}
		}
		if job.Timeout == 0 {
			problems = append(problems, name+" has no timeout-minutes")
		}
		for _, step := range job.Steps {
			if strings.Contains(strings.ReplaceAll(step.Run, "${{ matrix.", ""), "${{") {
				problems = append(problems, name+" has an expression in a script: "+step.Run)
			}
			if strings.HasPrefix(step.Uses, "actions/checkout@") && step.With["persist-credentials"] != false {
				problems = append(problems, name+" keeps the token of the checkout")
			}
		}
	}
	return problems
}
