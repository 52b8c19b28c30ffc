package dir_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/source"
	"github.com/usher-dev/usher/source/dir"
)

// watch runs a source and returns a function that waits until its newest set is as
// wanted.
func watch(t *testing.T, folder string, paths ...string) func(want ...string) {
	t.Helper()
	sets := make(chan source.Set, 100)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- dir.New(paths...).Run(ctx, func(set source.Set) { sets <- set }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return func(want ...string) {
		t.Helper()
		deadline := time.After(20 * time.Second)
		var got []string
		for {
			select {
			case set := <-sets:
				if got = summary(set, folder); cmp.Equal(want, got) {
					return
				}
			case <-deadline:
				t.Fatalf("the newest set is not as wanted: -want +got:\n%s", cmp.Diff(want, got))
			}
		}
	}
}

func TestRunFollowsChanges(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	const kind = "ClusterOverridePolicy"
	write(t, folder, map[string]string{"a.yaml": policy(kind, "one")})
	wait := watch(t, folder, folder)
	wait("a.yaml:1: one")

	write(t, folder, map[string]string{"a.yaml": policy(kind, "two")})
	wait("a.yaml:1: two")

	write(t, folder, map[string]string{"b/c.yaml": policy(kind, "three")})
	wait("a.yaml:1: two", "b/c.yaml:1: three")

	write(t, folder, map[string]string{"b/c.yaml": "# moved down\n" + policy(kind, "three")})
	wait("a.yaml:1: two", "b/c.yaml:2: three")

	write(t, folder, map[string]string{"a.yaml": "{"})
	wait("b/c.yaml:2: three", "! a.yaml:1: parse YAML: did not find expected node content")

	if err := os.RemoveAll(filepath.Join(folder, "b")); err != nil {
		t.Fatal(err)
	}
	write(t, folder, map[string]string{"a.yaml": ""})
	wait()
}

// A file that took the place of another is another one, though it is as long and as old.
func TestRunFollowsReplacedFiles(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path, next := filepath.Join(folder, "a.yaml"), filepath.Join(folder, ".next")
	const kind = "ClusterOverridePolicy"
	write(t, folder, map[string]string{"a.yaml": policy(kind, "one"), ".next": policy(kind, "two")})
	past := time.Now().Add(-time.Hour)
	for _, file := range []string{path, next} {
		if err := os.Chtimes(file, past, past); err != nil {
			t.Fatal(err)
		}
	}
	wait := watch(t, folder, folder)
	wait("a.yaml:1: one")
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
	wait("a.yaml:1: two")
}

func TestRunFollowsConfigMaps(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	const kind = "ClusterOverridePolicy"
	write(t, folder, map[string]string{"..1/a.yaml": policy(kind, "one"), "..2/a.yaml": policy(kind, "two")})
	for name, target := range map[string]string{"..data": "..1", "a.yaml": "..data/a.yaml", "..next": "..2"} {
		if err := os.Symlink(target, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	wait := watch(t, folder, folder)
	wait("a.yaml:1: one")
	if err := os.Rename(filepath.Join(folder, "..next"), filepath.Join(folder, "..data")); err != nil {
		t.Fatal(err)
	}
	wait("a.yaml:1: two")
}

func TestRunKeepsPoliciesOfVanishedPath(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "a.yaml")
	const kind = "ClusterOverridePolicy"
	write(t, folder, map[string]string{"a.yaml": policy(kind, "one")})
	wait := watch(t, folder, path)
	wait("a.yaml:1: one")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	wait("a.yaml:1: one", "! a.yaml: read policies: stat a.yaml: no such file or directory")
	write(t, folder, map[string]string{"a.yaml": policy(kind, "two")})
	wait("a.yaml:1: two")
}

// An editor that saves by renaming must not take the policy away for an instant.
func TestRunOverlooksInstants(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	const kind = "ClusterOverridePolicy"
	write(t, folder, map[string]string{"a.yaml": policy(kind, "one")})
	sets := make(chan []string, 100)
	ctx := t.Context()
	go func() {
		_ = dir.New(folder).Run(ctx, func(set source.Set) { sets <- summary(set, folder) })
	}()
	<-sets
	path := filepath.Join(folder, "a.yaml")
	if err := os.Rename(path, path+"~"); err != nil {
		t.Fatal(err)
	}
	write(t, folder, map[string]string{"a.yaml": "# moved down\n" + policy(kind, "one")})
	if diff := cmp.Diff([]string{"a.yaml:2: one"}, <-sets); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestRunMissingPath(t *testing.T) {
	t.Parallel()
	called := false
	err := dir.New(filepath.Join(t.TempDir(), "x")).Run(context.Background(), func(source.Set) { called = true })
	if err == nil || called {
		t.Errorf("got error %v, update called: %v", err, called)
	}
}

func BenchmarkLoad(b *testing.B) {
	folder := b.TempDir()
	for i := range 100 {
		id := strconv.Itoa(i)
		text := strings.Replace(placed, "name: x", "name: x"+id, 1)
		if err := os.WriteFile(filepath.Join(folder, id+".yaml"), []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := dir.Load(folder); err != nil {
			b.Fatal(err)
		}
	}
}
