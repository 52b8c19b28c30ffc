// Package files writes what commands make into folders of users.
package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// A File is to be written at a path below a folder.
type File struct {
	Path    string
	Content []byte
	// Optional says that the file is kept if it exists, and that this is no error.
	Optional bool
}

// Existing says what to do about files that exist.
type Existing int

const (
	// Keep means that nothing is written if one of the files exists.
	Keep Existing = iota
	// Replace means that they are overwritten.
	Replace
)

// An ExistsError names files that are there already.
type ExistsError struct {
	Folder string
	Paths  []string
}

// Error names some of them.
func (e *ExistsError) Error() string {
	const mostNamed = 3
	named := strings.Join(e.Paths[:min(len(e.Paths), mostNamed)], ", ")
	if more := len(e.Paths) - mostNamed; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	return e.Folder + " has " + named
}

// Write writes files below a folder, which it makes, and returns the paths of optional ones that were kept. Links
// that lead out of the folder are errors, and so, with an [ExistsError], are other files that are to be kept.
func Write(dir string, files []File, existing Existing) (kept []string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("write files: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("write files: %w", err)
	}
	defer func() { _ = root.Close() }()
	if existing == Keep {
		exist := &ExistsError{Folder: dir}
		files = slices.DeleteFunc(slices.Clone(files), func(f File) bool {
			if _, err := root.Lstat(f.Path); errors.Is(err, fs.ErrNotExist) {
				return false
			}
			if f.Optional {
				kept = append(kept, f.Path)
			} else {
				exist.Paths = append(exist.Paths, f.Path)
			}
			return true
		})
		if len(exist.Paths) > 0 {
			return nil, exist
		}
	}
	for _, f := range files {
		if err := root.MkdirAll(path.Dir(f.Path), 0o755); err != nil {
			return nil, fmt.Errorf("write files: %w", err)
		}
		if err := root.WriteFile(f.Path, f.Content, 0o644); err != nil {
			return nil, fmt.Errorf("write files: %w", err)
		}
	}
	return kept, nil
}
