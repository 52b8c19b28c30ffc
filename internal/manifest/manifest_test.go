package manifest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/internal/manifest"
)

func TestFiles(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason string
		// files are made empty, links lead to others.
		files []string
		links map[string]string
		paths []string
		want  []string
	}{
		{
			reason: "a folder is read in order of names, with those below",
			files:  []string{"c.json", "a/z.yaml", "b.yml"},
			paths:  []string{"."}, want: []string{"a/z.yaml", "b.yml", "c.json"},
		},
		{
			reason: "of a folder only manifests are read",
			files:  []string{"README.md", "a.yaml", "a.yaml~", "yaml"},
			paths:  []string{"."}, want: []string{"a.yaml"},
		},
		{
			reason: "files and folders whose names begin with a dot are left out",
			files:  []string{".a.yaml", ".git/a.yaml", "..data/b.yaml", "c.yaml"},
			paths:  []string{"."}, want: []string{"c.yaml"},
		},
		{
			reason: "a path that is named is read, whatever its name",
			files:  []string{".a.yaml", "policies", ".hidden/b.yaml"},
			paths:  []string{".a.yaml", "policies", ".hidden"}, want: []string{".a.yaml", "policies", ".hidden/b.yaml"},
		},
		{
			reason: "a mounted ConfigMap is read once, by the names beside its content",
			files:  []string{"..2026/a.yaml"},
			links:  map[string]string{"..data": "..2026", "a.yaml": "..data/a.yaml"},
			paths:  []string{"."}, want: []string{"a.yaml"},
		},
		{
			reason: "links to folders are followed, and circles end",
			files:  []string{"real/a.yaml"},
			links:  map[string]string{"link": "real", "real/loop": ".."},
			paths:  []string{"."}, want: []string{"link/a.yaml"},
		},
		{
			reason: "a file that two paths lead to is read once",
			files:  []string{"a.yaml"},
			paths:  []string{"a.yaml", ".", "a.yaml"}, want: []string{"a.yaml"},
		},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			lay(t, folder, test.files, test.links)
			paths := []string{}
			for _, path := range test.paths {
				paths = append(paths, filepath.Join(folder, path))
			}
			got, err := manifest.Files(paths...)
			if err != nil {
				t.Fatal(err)
			}
			for i := range got {
				got[i], _ = filepath.Rel(folder, got[i])
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestFilesFails(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	lay(t, folder, []string{"a.yaml"}, map[string]string{"b.yaml": "nowhere"})
	for path, want := range map[string]string{
		filepath.Join(folder, "missing"): "stat " + filepath.Join(folder, "missing") + ": no such file or directory",
		folder:                           filepath.Join(folder, "b.yaml") + ": follow symbolic link: no such file or directory",
	} {
		if files, err := manifest.Files(path); err == nil || err.Error() != want || files != nil {
			t.Errorf("got %v, %v; want %s", files, err, want)
		}
	}
}

func lay(t *testing.T, folder string, files []string, links map[string]string) {
	t.Helper()
	for _, name := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range links {
		if err := os.Symlink(strings.ReplaceAll(target, "/", string(filepath.Separator)), filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
}
