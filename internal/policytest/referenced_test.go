package policytest_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/usher-dev/usher/internal/policytest"
)

// What a case names is read to its end: pipes and devices have none.
func TestReferencedFilesAreRegular(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	large := filepath.Join(dir, "large.yaml")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, 65<<20); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(os.DevNull, filepath.Join(dir, "link.yaml")); err != nil {
		t.Skip("no symbolic links")
	}
	for _, row := range []struct{ reason, file, want string }{
		{"a pipe or a device, through a link", "link.yaml", "is not a regular file"},
		{"a folder", ".", "is not a regular file"},
		{"a file that never fits into memory", "large.yaml", "is larger than 64 MiB"},
	} {
		name := filepath.Join(dir, "case.yaml")
		text := "name: x\nphase: validate\npolicyFiles: [" + row.file + "]\n"
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := policytest.Tests(name); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", row.reason, err, row.want)
		}
	}
}

const (
	namesPolicies = "phase: validate\npolicyFiles: [policies.yaml]\n" +
		"request: {operation: CREATE, object: {apiVersion: v1, kind: ConfigMap, metadata: {name: x}}}\nexpect: {allowed: true}\n---\n"
	namesInSuite = "set: x\npolicies: [policies.yaml]\ncases: [{name: x, resource: pods, want: NoOpinion}]\n---\n"
)

// Many tests can name one file: it is read and kept once, and the tests may not have any number of
// policies from it.
func TestReferencedFilesAreReadOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	write("policies.yaml", "kind: List\nitems: ["+strings.Repeat("{},", 50_000)+"]\n")
	cases, err := policytest.Load(write("two.yaml", strings.Repeat(namesPolicies, 2)))
	if err != nil {
		t.Fatal(err)
	}
	last := len(cases[0].Policies) - 1
	if first, second := reflect.ValueOf(cases[0].Policies[last]), reflect.ValueOf(cases[1].Policies[last]); first.Pointer() != second.Pointer() {
		t.Error("two cases that name a file have copies of its policies")
	}
	if _, err := policytest.Tests(write("many.yaml", strings.Repeat(namesPolicies, 21))); err == nil || !strings.Contains(err.Error(), "more than 1000000 policies") {
		t.Errorf("21 cases with 50000 policies each: %v", err)
	}
	write("a.yaml", "#"+strings.Repeat(" ", 1<<20)+"\n")
	if err := os.Truncate(write("b.yaml", ""), 64<<20-1<<19); err != nil {
		t.Fatal(err)
	}
	for _, names := range []string{namesPolicies, namesInSuite} {
		text := strings.Replace(names, "[policies.yaml]", "[a.yaml, b.yaml]", 1)
		if _, err := policytest.Tests(write("large.yaml", text)); err == nil || !strings.Contains(err.Error(), "larger than 64 MiB together") {
			t.Errorf("two files of more than 64 MiB: %v", err)
		}
	}
}
