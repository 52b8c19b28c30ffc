// Package files writes what commands make into folders of users.
package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
)

// A File is to be written at a path below a folder.
type File struct {
	Path    string
	Content []byte
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

// Write writes files below a folder, which it makes. Links that lead out of it are errors, and so, with an
// [ExistsError], are files that are to be kept.
func Write(dir string, files []File, existing Existing) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write files: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("write files: %w", err)
	}
	defer func() { _ = root.Close() }()
	if existing == Keep {
		exist := &ExistsError{Folder: dir}
		for _, f := range files {
			if _, err := root.Lstat(f.Path); !errors.Is(err, fs.ErrNotExist) {
				exist.Paths = append(exist.Paths, f.Path)
			}
		}
		if len(exist.Paths) > 0 {
			return exist
		}
	}
	for _, f := range files {
		if err := root.MkdirAll(path.Dir(f.Path), 0o755); err != nil {
			return fmt.Errorf("write files: %w", err)
		}
		if err := root.WriteFile(f.Path, f.Content, 0o644); err != nil {
			return fmt.Errorf("write files: %w", err)
		}
	}
	return nil
}
