package dir_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/source"
	"github.com/usher-dev/usher/source/dir"
)

// follow runs a source on a folder, and returns its sets as summary writes them.
func follow(t *testing.T, folder string) <-chan []string {
	t.Helper()
	sets := make(chan []string, 1000)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- dir.New(folder).Run(ctx, func(set source.Set) { sets <- summary(set, folder) })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return sets
}

// A file that is rewritten in place contains less for a while. Its policies stay in force until the
// file is complete.
func TestRunKeepsPoliciesOfFilesBeingRewritten(t *testing.T) {
	t.Parallel()
	const kind = "ClusterOverridePolicy"
	both := func(line string) string {
		return "# " + line + "\n" + policy(kind, "one") + "---\n" + policy(kind, "two")
	}
	for _, test := range []struct {
		reason string
		// meanwhile is what happens to the file for a moment.
		meanwhile func(path string) error
		// others is what is in force besides.
		others []string
	}{
		{
			reason:    "truncated",
			meanwhile: func(path string) error { return os.Truncate(path, 0) },
		},
		{
			reason:    "half of it is written, and is no YAML yet",
			meanwhile: func(path string) error { return os.Truncate(path, 120) },
		},
		{
			reason: "one document of two is written",
			meanwhile: func(path string) error {
				return os.WriteFile(path, []byte(policy(kind, "one")), 0o600)
			},
		},
		{
			reason:    "removed, to be written anew",
			meanwhile: os.Remove,
		},
		{
			reason: "emptied while another file is added, which counts at once",
			meanwhile: func(path string) error {
				return os.WriteFile(filepath.Join(filepath.Dir(path), "b.yaml"), []byte(policy(kind, "other")), 0o600)
			},
			others: []string{"b.yaml:1: other"},
		},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			path := filepath.Join(folder, "a.yaml")
			write(t, folder, map[string]string{"a.yaml": both("")})
			sets := follow(t, folder)
			want := []string{"a.yaml:2: one", "a.yaml:4: two"}
			if diff := cmp.Diff(want, <-sets); diff != "" {
				t.Fatalf("-want +got:\n%s", diff)
			}
			if err := test.meanwhile(path); err != nil {
				t.Fatal(err)
			}
			<-time.After(500 * time.Millisecond)
			// Another line makes the positions tell the new file from the old.
			write(t, folder, map[string]string{"a.yaml": both("\n#")})
			want = append([]string{"a.yaml:3: one", "a.yaml:5: two"}, test.others...)
			deadline := time.After(20 * time.Second)
			for {
				select {
				case got := <-sets:
					text := strings.Join(got, "\n")
					if !strings.Contains(text, ": one") || !strings.Contains(text, ": two") || strings.Contains(text, "!") {
						t.Fatalf("in force for a while:\n%s", text)
					}
					if slices.Equal(got, want) {
						return
					}
				case <-deadline:
					t.Fatalf("the new file is not in force, want %v", want)
				}
			}
		})
	}
}

// A policy that changes its file is not lost, nor is it defined twice.
func TestRunFollowsPoliciesToOtherFiles(t *testing.T) {
	t.Parallel()
	const kind = "ClusterOverridePolicy"
	folder := t.TempDir()
	write(t, folder, map[string]string{"a.yaml": policy(kind, "one") + "---\n" + policy(kind, "two")})
	sets := follow(t, folder)
	<-sets
	write(t, folder, map[string]string{"a.yaml": policy(kind, "one"), "b.yaml": policy(kind, "two")})
	deadline := time.After(20 * time.Second)
	for want := []string{"a.yaml:1: one", "b.yaml:1: two"}; ; {
		select {
		case got := <-sets:
			if slices.Equal(got, want) {
				return
			}
			if slices.ContainsFunc(got, func(line string) bool { return strings.HasPrefix(line, "!") }) {
				t.Fatalf("in force for a while: %v", got)
			}
		case <-deadline:
			t.Fatalf("never in force: %v", want)
		}
	}
}

// What is removed on purpose goes, one policy or all that a file has, and what is broken on
// purpose is reported.
func TestRunLetsGo(t *testing.T) {
	t.Parallel()
	const kind = "ClusterOverridePolicy"
	for _, test := range []struct {
		reason  string
		content string
		want    []string
	}{
		{"the file is emptied", "", nil},
		{"a document is removed", policy(kind, "two"), []string{"a.yaml:1: two"}},
		{"the file is broken", "{", []string{"! a.yaml:1: parse YAML: did not find expected node content"}},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			write(t, folder, map[string]string{"a.yaml": policy(kind, "one") + "---\n" + policy(kind, "two")})
			wait := watch(t, folder, folder)
			wait("a.yaml:1: one", "a.yaml:3: two")
			write(t, folder, map[string]string{"a.yaml": test.content})
			wait(test.want...)
		})
	}
}

// A writer that never leaves the file alone never takes the policy away.
func TestRunSurvivesRewriting(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "a.yaml")
	write(t, folder, map[string]string{"a.yaml": policy("ClusterOverridePolicy", "one")})
	sets := follow(t, folder)
	<-sets
	pause := time.NewTicker(300 * time.Millisecond)
	defer pause.Stop()
	for round := range 15 {
		if err := os.Truncate(path, 0); err != nil {
			t.Fatal(err)
		}
		// Long enough for the source to read the empty file, every time.
		<-pause.C
		content := fmt.Sprintf("# round %d\n%s", round, policy("ClusterOverridePolicy", "one"))
		write(t, folder, map[string]string{"a.yaml": content})
	}
	for {
		select {
		case got := <-sets:
			if len(got) != 1 || !strings.HasSuffix(got[0], ": one") {
				t.Fatalf("in force for a while: %v", got)
			}
			if got[0] == "a.yaml:2: one" {
				return
			}
		case <-time.After(20 * time.Second):
			t.Fatal("the last version is not in force")
		}
	}
}
