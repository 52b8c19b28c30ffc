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

// commandPackage is the package of the command, in the module of this package.
const commandPackage = "github.com/usher-dev/usher/sandbox/cmd/usher-sandbox"

// pluginModule is the module of its admission plugin.
const pluginModule = "github.com/usher-dev/usher"

// unusedFor is how long a built command is kept after its last use.
const unusedFor = 14 * 24 * time.Hour

// errNoToolchain is a reason to skip.
var errNoToolchain = errors.New("there is neither $USHER_SANDBOX_BIN nor a Go toolchain to build usher-sandbox with")

// binary returns the path of the command. It is determined once per process.
var binary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("USHER_SANDBOX_BIN"); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("find $USHER_SANDBOX_BIN: %w", err)
		}
		return filepath.Abs(path)
	}
	return build()
})

// Binary returns the path of the command usher-sandbox, for tests that run it themselves. It skips
// the test if [Start] would.
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

// build builds the command, unless the user's cache has one built from the same source.
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
	plugin, err := goCommand(module, "list", "-m", "-f", "{{.Dir}}", pluginModule)
	if err != nil {
		return "", err
	}
	sum, err := fingerprint(module, plugin)
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "usher")
	dir := filepath.Join(cache, "sandbox-"+sum)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make cache for usher-sandbox: %w", err)
	}
	// Test packages run in parallel, in several processes: one builds, the others wait.
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
	// With cgo, build caches would contain nothing of the control plane. Workspaces disable the
	// pruning of the module graph, which the requirements depend on.
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	var out, problems bytes.Buffer
	command.Stdout, command.Stderr = &out, &problems
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, problems.String())
	}
	return strings.TrimSpace(out.String()), nil
}

// fingerprint returns a hash of the source of the command: the module's own source, and that of the
// module with the plugin.
func fingerprint(module, plugin string) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	err := errors.Join(
		hashFile(sum, module, filepath.Join(module, "go.mod")), hashFile(sum, module, filepath.Join(module, "go.sum")),
		hashSource(sum, module, filepath.Join(module, "cmd")), hashSource(sum, module, filepath.Join(module, "internal")),
		hashSource(sum, plugin, plugin))
	if err != nil {
		return "", fmt.Errorf("read source of usher-sandbox: %w", err)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:8]), nil
}

// hashSource adds the Go files below folder to sum, without tests and other modules.
func hashSource(sum io.Writer, root, folder string) error {
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			_, noModule := os.Stat(filepath.Join(path, "go.mod"))
			if path != root && (noModule == nil || strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		return hashFile(sum, root, path)
	})
}

// hashFile adds a file to sum, and its path below root.
func hashFile(sum io.Writer, root, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	fmt.Fprintln(sum, strings.TrimPrefix(path, root))
	_, err = io.Copy(sum, file)
	return err
}

// forget removes the commands that were last used before a time. It ignores errors.
func forget(cache string, before time.Time) {
	commands, _ := filepath.Glob(filepath.Join(cache, "sandbox-*", "usher-sandbox*"))
	for _, path := range commands {
		if info, err := os.Stat(path); err == nil && info.ModTime().Before(before) {
			_ = os.RemoveAll(filepath.Dir(path))
		}
	}
}
