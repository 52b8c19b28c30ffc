// Package hack_test runs the scripts of make with a compiler that compiles nothing.
package hack_test

import (
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// compiler is a go whose list knows $STALE packages that are not compiled, and whose build compiles
// them and then prints what it is told.
const compiler = `#!/bin/sh
case $1 in
list) seq -f "example.com/$PWD$CGO_ENABLED/p%g" 1 "$STALE" ;;
build) seq -f 'example.com/p%g' 1 "$STALE" >&2; echo "./main.go:1:1: $*" >&2 ;;
esac
`

func TestBuildSaysHowFarItIs(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason, stale string
		want          []string
	}{
		{"nothing to compile", "0", nil},
		{"little to compile", "99", nil},
		{"much to compile", "1450", []string{
			"compiling 1450 packages for bin/usher: about ",
			"compiled 100 of about 1,450 packages", "compiled 1,000 of about 1,450 packages", "compiled 1,400 of about 1,450 packages",
		}},
	} {
		out := run(t, test.stale, "build.sh", "bin/usher", "./cmd/usher", "-pgo=off")
		rest := out
		for _, want := range test.want {
			_, after, found := strings.Cut(rest, want)
			if !found {
				t.Errorf("%s: it does not say %q after what comes before:\n%s", test.reason, want, out)
			}
			rest = after
		}
		if len(test.want) == 0 && strings.Contains(out, "compil") {
			t.Errorf("%s: it prints\n%s", test.reason, out)
		}
		if want := "./main.go:1:1: build -v -o bin/usher -pgo=off ./cmd/usher\n"; !strings.HasSuffix(out, want) {
			t.Errorf("%s: the end is not the error of the compiler, %q:\n%s", test.reason, want, out)
		}
	}
}

func TestStepsSayWhatIsBuilt(t *testing.T) {
	t.Parallel()
	out := run(t, "300", "steps.sh", "unit", "race", "nothing")
	head, _, found := strings.Cut(out, "==> step 1 of 3, unit\n")
	if !found {
		t.Fatalf("there is no first step:\n%s", out)
	}
	for _, want := range []string{"to compile", "unit", "race", "300 packages"} {
		if !strings.Contains(head, want) {
			t.Errorf("what will be built does not have %q:\n%s", want, head)
		}
	}
	if strings.Contains(head, "nothing") {
		t.Errorf("a step that compiles nothing of its own is listed:\n%s", head)
	}
	if !strings.Contains(out, "==> all 3 steps passed in ") {
		t.Errorf("the steps do not end:\n%s", out)
	}
}

// TestWorkflowRunsEverything compares the steps of make test with those of CI.
func TestWorkflowRunsEverything(t *testing.T) {
	t.Parallel()
	targets := func(file, pattern, separator string) []string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(pattern).FindSubmatch(text)
		if found == nil {
			t.Fatalf("%s has no line like %s", file, pattern)
		}
		return strings.Split(string(found[1]), separator)
	}
	local := targets("../Makefile", `(?m)^test: .*\n.*hack/steps\.sh (.+)$`, " ")
	remote := targets("../.github/workflows/ci.yml", `target: \[(.+)\]`, ", ")
	if !slices.Equal(local, remote) {
		t.Errorf("make test runs %v, and CI %v", local, remote)
	}
}

// TestEveryModuleIsLinted compares the modules of make lint with those that have Go code.
func TestEveryModuleIsLinted(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^export MODULES := (.+)$`).FindSubmatch(makefile)
	if found == nil {
		t.Fatal("Makefile does not set MODULES")
	}
	modules := map[string]bool{}
	err = filepath.WalkDir("..", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != ".." && (entry.Name() == "testdata" || strings.HasPrefix(entry.Name(), ".")):
			return filepath.SkipDir
		case strings.HasSuffix(name, ".go"):
			folder := filepath.Dir(name)
			for !isModule(folder) {
				folder = filepath.Dir(folder)
			}
			modules[filepath.ToSlash(strings.TrimPrefix(folder, "../"))] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// It has Kyverno and all that it needs, which takes minutes to compile. Nothing is built on it.
	delete(modules, "conformance/kyverno")
	modules["."] = modules[".."]
	delete(modules, "..")
	linted := strings.Fields(string(found[1]))
	slices.Sort(linted)
	if have := slices.Sorted(maps.Keys(modules)); !slices.Equal(linted, have) {
		t.Errorf("make lint lints the modules %v, and there are %v", linted, have)
	}
}

func isModule(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "go.mod"))
	return err == nil
}

// run runs a script of this folder with a compiler that has so many packages to compile, and returns what
// it prints.
func run(t *testing.T, stale string, script string, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"go": compiler, "make": "#!/bin/sh\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.Command("./"+script, args...)
	command.Env = append(os.Environ(), "GO="+filepath.Join(dir, "go"), "MAKE="+filepath.Join(dir, "make"), "STALE="+stale)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", script, args, err, out)
	}
	return string(out)
}

func TestConcurrent(t *testing.T) {
	t.Parallel()
	command := exec.Command("./concurrent.sh", "./plugin", "./internal/jsonpatch", "./internal/engine")
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if want := "./plugin\n./internal/engine\n"; string(out) != want {
		t.Errorf("packages in which goroutines meet: %q, want %q, since nothing is shared in jsonpatch", out, want)
	}
}
