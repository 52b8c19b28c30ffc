package policytest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usher-dev/usher/internal/policytest"
)

// goodCase is a case that passes.
const goodCase = `{name: good, phase: validate, request: {operation: CREATE, object: {apiVersion: v1, kind: Pod, metadata: {name: a}}}, expect: {allowed: true},
policies: [{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: any}, spec: {
matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}, validations: [{expression: "object.metadata.name == 'a'"}]}}]}`

// pathsEnv has the paths of TestRunOfPaths, which is run by TestRunReports in a process of its own.
const pathsEnv = "USHER_TEST_PATHS"

func TestRunOfPaths(t *testing.T) {
	t.Parallel()
	paths := os.Getenv(pathsEnv)
	if paths == "" {
		t.Skip("run by TestRunReports")
	}
	policytest.Run(t, filepath.SplitList(paths)...)
}

// What cannot be read fails the test, and nothing else is kept from running.
func TestRunReports(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"wrong/wrong.yaml":   strings.Replace(goodCase, "allowed: true", "allowed: false", 1),
		"mixed/good.yaml":    goodCase,
		"mixed/broken.yaml":  "name: [",
		"mixed/unknown.yaml": "phase: validate\nexpct: {}\n",
		"good/good.yaml":     goodCase,
		"objects/pod.yaml":   "{apiVersion: v1, kind: Pod, metadata: {name: a}}\n",
	} {
		file := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range []struct {
		reason string
		paths  []string
		passes bool
		output []string
	}{
		{"a folder of cases", []string{"good"}, true, []string{"--- PASS: TestRunOfPaths/good"}},
		{"a case that does not hold", []string{"wrong"}, false, []string{"--- FAIL: TestRunOfPaths/good"}},
		{"two files that cannot be read", []string{"mixed"}, false, []string{"--- PASS: TestRunOfPaths/good", "--- FAIL: TestRunOfPaths/", "mixed/broken.yaml", "mixed/unknown.yaml"}},
		{"a path without cases beside one with some", []string{"good", "objects"}, false, []string{"--- PASS: TestRunOfPaths/good", "no test cases found"}},
		{"a path that does not exist", []string{"absent", "good"}, false, []string{"--- PASS: TestRunOfPaths/good", "--- FAIL: TestRunOfPaths/"}},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			var paths []string
			for _, path := range row.paths {
				paths = append(paths, filepath.Join(folder, path))
			}
			command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRunOfPaths$", "-test.v")
			command.Env = append(os.Environ(), pathsEnv+"="+strings.Join(paths, string(filepath.ListSeparator)))
			output, err := command.CombinedOutput()
			if (err == nil) != row.passes {
				t.Errorf("error %v, want one: %t", err, !row.passes)
			}
			if !row.passes && !strings.Contains(string(output), " testing_test.go:") || strings.Contains(string(output), " testing.go:") {
				t.Errorf("failures are not at the line that calls Run:\n%s", output)
			}
			for _, want := range row.output {
				if !strings.Contains(string(output), want) {
					t.Errorf("no %q in:\n%s", want, output)
				}
			}
		})
	}
}
