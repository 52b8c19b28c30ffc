package podsecurity

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// whole is set by make pod-security.
var whole = flag.Bool("whole", false, "run all tests of Kubernetes, which takes longer")

// A suite is the tests of a package of k8s.io/pod-security-admission, compiled with functions that
// ask Usher in place of its own.
type suite struct {
	// folder is that of the package, and binary its tests.
	folder, binary string
	// tests are those of the files that ask.
	tests []string
}

// replaced compiles the tests of a package of a copy of the module. In it, functions for which replace
// returns a text have this one in place of theirs; what they call is added from testdata/shims.
func replaced(t *testing.T, pkg string, replace func(*ast.FuncDecl) string) *suite {
	t.Helper()
	dir := t.TempDir()
	s := &suite{folder: filepath.Join(dir, "module", pkg), binary: filepath.Join(dir, "upstream.test")}
	copySources(t, module(t), filepath.Join(dir, "module"))
	files, err := filepath.Glob(filepath.Join(s.folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, "module"), os.DirFS("testdata/shims")); err != nil {
		t.Fatal(err)
	}
	shim := filepath.Join(s.folder, "usher.go")
	added, err := os.ReadFile(shim)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") {
			added = append(added, rewrite(t, file, replace)...)
		}
	}
	write(t, shim, added)
	// Like the module of these tests, with the copy.
	for _, file := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join("..", file))
		if err != nil {
			t.Fatal(err)
		}
		if file == "go.mod" {
			text = fmt.Appendf(text, "\nreplace k8s.io/pod-security-admission => %s\n", filepath.Join(dir, "module"))
		}
		write(t, filepath.Join(dir, file), text)
	}
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-modfile="+filepath.Join(dir, "go.mod"), "-o", s.binary, "k8s.io/pod-security-admission/"+pkg)
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("compile the tests of %s: %v: %s", pkg, err, said)
	}
	return s
}

// copySources copies the Go files of a module.
func copySources(t *testing.T, from, to string) {
	t.Helper()
	if err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, relative), 0o700)
		}
		if filepath.Ext(path) != ".go" && d.Name() != "go.mod" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, relative), text, 0o600)
	}); err != nil {
		t.Fatal(err)
	}
}

// rewrite gives the functions of a file that are replaced another name, and returns those that
// replace them.
func rewrite(t *testing.T, file string, replace func(*ast.FuncDecl) string) (functions string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, declared := range slices.Backward(parsed.Decls) {
		f, ok := declared.(*ast.FuncDecl)
		if !ok {
			continue
		}
		instead := replace(f)
		if instead == "" {
			continue
		}
		functions += instead
		at := fset.Position(f.Name.Pos()).Offset
		text = slices.Insert(text, at, []byte("upstream_")...)
	}
	write(t, file, text)
	return functions
}

func write(t *testing.T, file string, text []byte) {
	t.Helper()
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// run runs the tests, with what answers their questions, and returns which tests and rows of tables
// passed, and what they printed.
func (s *suite) run(t *testing.T, answer func(question []byte) any) (passed map[string]bool, output string) {
	t.Helper()
	// Addresses of sockets are short.
	dir, err := os.MkdirTemp("", "oracle") //nolint:usetesting // The folder of a test has a longer name.
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	socket := filepath.Join(dir, "socket")
	var listening net.ListenConfig
	listener, err := listening.Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), s.binary, "-test.run=^("+strings.Join(s.tests, "|")+")$", "-test.v")
	cmd.Dir, cmd.Env = s.folder, append(os.Environ(), "ORACLE_SOCKET="+socket)
	var said []byte
	var running sync.WaitGroup
	running.Go(func() {
		said, err = cmd.CombinedOutput()
		_ = listener.Close()
	})
	serveQuestions(t, listener, answer)
	running.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	passed = map[string]bool{}
	for line := range strings.Lines(string(said)) {
		if verdict, name, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && strings.HasPrefix(verdict, "--- ") {
			name, _, _ = strings.Cut(name, " ")
			passed[name] = verdict == "--- PASS"
		}
	}
	for _, test := range s.tests {
		if _, ok := passed[test]; !ok {
			t.Fatalf("%s did not run to its end: %s", test, said)
		}
	}
	return passed, string(said)
}

// serveQuestions answers one question for each connection, until the listener is closed.
func serveQuestions(t *testing.T, listener net.Listener, answer func(question []byte) any) {
	t.Helper()
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			t.Error(err)
			return
		}
		var question json.RawMessage
		if err := json.NewDecoder(conn).Decode(&question); err != nil {
			t.Error(err)
		} else if err := json.NewEncoder(conn).Encode(answer(question)); err != nil {
			t.Error(err)
		}
		_ = conn.Close()
	}
}

// testsIn returns the test functions of files.
func testsIn(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("find tests: %d files %s, %v", len(files), pattern, err)
	}
	var tests []string
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declared := range parsed.Decls {
			if f, ok := declared.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				tests = append(tests, f.Name.Name)
			}
		}
	}
	return tests
}
