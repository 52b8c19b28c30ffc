package sandbox

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// commandPackage is what is built, in the module of this package.
const commandPackage = "github.com/usher-dev/usher/sandbox/cmd/usher-sandbox"

// unusedFor is how long a built command is kept after its last use.
const unusedFor = 14 * 24 * time.Hour

// errNoToolchain is a reason to skip.
var errNoToolchain = errors.New("there is neither $USHER_SANDBOX_BIN nor a Go toolchain to build usher-sandbox with")

// binary is the path of the command, found once a process.
var binary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("USHER_SANDBOX_BIN"); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("find $USHER_SANDBOX_BIN: %w", err)
		}
		return filepath.Abs(path)
	}
	return build()
})

// Binary is the path of the command usher-sandbox, for tests that run it themselves. The
// test is skipped where [Start] would skip it.
func Binary(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a control plane: run without -short")
	}
	path, err := binary()
	if errors.Is(err, errNoToolchain) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// build builds the command, unless the user's cache has one of the same source.
func build() (string, error) {
	if _, err := exec.LookPath("go"); err != nil {
		return "", errNoToolchain
	}
	module, err := goCommand("", "list", "-f", "{{.Module.Dir}}", commandPackage)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find cache for usher-sandbox: %w", err)
	}
	sum, err := fingerprint(module)
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "usher")
	dir := filepath.Join(cache, "sandbox-"+sum)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make cache for usher-sandbox: %w", err)
	}
	// Test packages run in parallel, as processes: one builds, the others wait for it.
	unlock, err := lock(filepath.Join(dir, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	path := filepath.Join(dir, "usher-sandbox")
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	now := time.Now()
	if os.Chtimes(path, now, now) == nil {
		return path, nil
	}
	fmt.Fprintf(os.Stderr, "building %s, for the first time some six minutes on two cores\n", path)
	if _, err := goCommand(module, "build", "-ldflags=-s -w", "-o", path+".new", commandPackage); err != nil {
		return "", err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return "", fmt.Errorf("build usher-sandbox: %w", err)
	}
	forget(cache, now.Add(-unusedFor))
	return path, nil
}

// goCommand runs the go command in dir and returns what it prints.
func goCommand(dir string, args ...string) (string, error) {
	command := exec.Command("go", args...)
	command.Dir = dir
	// With cgo nothing of the control plane would be in anybody's build cache. Workspaces
	// lose the pruning of the module graph on which the requirements rely.
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	var out, problems bytes.Buffer
	command.Stdout, command.Stderr = &out, &problems
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, problems.String())
	}
	return strings.TrimSpace(out.String()), nil
}

// fingerprint is a hash of all that the command is built from.
func fingerprint(module string) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	add := func(path string) error {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		fmt.Fprintln(sum, strings.TrimPrefix(path, module))
		_, err = io.Copy(sum, file)
		return err
	}
	err := errors.Join(add(filepath.Join(module, "go.mod")), add(filepath.Join(module, "go.sum")))
	for _, folder := range []string{"cmd", "internal"} {
		err = errors.Join(err, filepath.WalkDir(filepath.Join(module, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			return add(path)
		}))
	}
	if err != nil {
		return "", fmt.Errorf("read source of usher-sandbox: %w", err)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:8]), nil
}

// forget removes the commands that were last used before a time. What cannot be removed
// stays.
func forget(cache string, before time.Time) {
	commands, _ := filepath.Glob(filepath.Join(cache, "sandbox-*", "usher-sandbox*"))
	for _, path := range commands {
		if info, err := os.Stat(path); err == nil && info.ModTime().Before(before) {
			_ = os.RemoveAll(filepath.Dir(path))
		}
	}
}
