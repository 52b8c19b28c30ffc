// Package manifest finds files with objects, policies or test cases, as every command and
// every source does.
//
// A named path is always read. In folders and their subfolders, files that end in .yaml, .yml or
// .json are read, in the order of their names. Names that begin with a dot are skipped: editors and
// version control use such names, and so does a mounted ConfigMap for the content that its other
// names link to. Symbolic links are followed; a file or folder to which several paths lead is read
// once.
package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Files returns the files in paths, which are files and folders. It fails at the first one that
// cannot be read.
func Files(paths ...string) ([]string, error) {
	var files []string
	var first error
	err := Walk(paths, Visitor{File: func(path string, _ fs.FileInfo, err error) {
		if err != nil && first == nil {
			first = fmt.Errorf("%s: %w", path, err)
		}
		files = append(files, path)
	}})
	if err := cmp.Or(err, first); err != nil {
		return nil, err
	}
	return files, nil
}

// A Visitor receives what [Walk] finds.
type Visitor struct {
	// Enter is called with each folder that the result depends on, before it is read. It may be
	// nil.
	Enter func(folder string)
	// File is called with each file, or with the error that keeps a file or folder from being
	// read, which does not name the path.
	File func(path string, info fs.FileInfo, err error)
}

// Walk visits the files in paths, which are files and folders. It fails if one of the paths
// does not exist.
func Walk(paths []string, v Visitor) error {
	if v.Enter == nil {
		v.Enter = func(string) {}
	}
	w := walk{Visitor: v, been: map[string]bool{}}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if info.IsDir() {
			w.folder(path)
			continue
		}
		w.Enter(filepath.Dir(path))
		w.file(path, realOf(path), info)
	}
	return nil
}

type walk struct {
	Visitor
	// been holds the files and folders seen so far, without symbolic links.
	been map[string]bool
}

func (w *walk) folder(path string) {
	real := realOf(path)
	if w.again(real) {
		return
	}
	w.Enter(path)
	entries, err := os.ReadDir(path)
	if err != nil {
		w.File(path, nil, Reason(err))
		return
	}
	for _, entry := range entries {
		name := entry.Name()
		if strings.HasPrefix(name, ".") {
			continue
		}
		inside := filepath.Join(path, name)
		info, err := os.Stat(inside)
		switch {
		case err != nil:
			if entry.Type()&fs.ModeSymlink != 0 && isManifest(name) {
				w.File(inside, nil, fmt.Errorf("follow symbolic link: %w", cmp.Or(errors.Unwrap(err), err)))
			}
		case info.IsDir():
			w.folder(inside)
		case info.Mode().IsRegular() && isManifest(name):
			real := filepath.Join(real, name)
			if entry.Type()&fs.ModeSymlink != 0 {
				real = realOf(inside)
				w.Enter(filepath.Dir(real))
			}
			w.file(inside, real, info)
		}
	}
}

func (w *walk) file(path, real string, info fs.FileInfo) {
	if !w.again(real) {
		w.File(path, info, nil)
	}
}

// again reports whether this is not the first time for a file or folder.
func (w *walk) again(real string) bool {
	been := w.been[real]
	w.been[real] = true
	return been
}

// Reason is an error of the file system without the path that it names.
func Reason(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%s: %w", pathErr.Op, pathErr.Err)
	}
	return err
}

// realOf returns a path without symbolic links, or itself if it leads nowhere.
func realOf(path string) string {
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return path
	}
	return real
}

func isManifest(name string) bool {
	switch filepath.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}
