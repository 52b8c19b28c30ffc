package console

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/usher-dev/usher/internal/manifest"
)

// maxFiles is how many files of a folder are listed.
const maxFiles = 1000

// A Folder is the folder of a user, outside of which nothing is read or written: links that lead out of it are errors.
type Folder struct {
	path string
	root *os.Root
}

// OpenFolder opens a folder. Close it.
func OpenFolder(path string) (*Folder, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		if info, statErr := os.Stat(path); statErr == nil && !info.IsDir() {
			return nil, fmt.Errorf("open folder: %s is a file: name the folder that it is in", path)
		}
		return nil, fmt.Errorf("open folder: %w", err)
	}
	return &Folder{path, root}, nil
}

// Path returns the name of the folder, as it was opened.
func (f *Folder) Path() string { return f.path }

// Close closes the folder.
func (f *Folder) Close() error { return f.root.Close() }

// Files returns the files that commands read in the folder, relative to it.
func (f *Folder) Files() ([]string, error) {
	all, err := manifest.Files(f.path)
	if err != nil {
		return nil, fmt.Errorf("list files: %w", err)
	}
	names := []string{}
	for _, file := range all {
		if name, err := filepath.Rel(f.path, file); err == nil && len(names) < maxFiles {
			names = append(names, filepath.ToSlash(name))
		}
	}
	return names, nil
}

// Read returns the text of a file.
func (f *Folder) Read(name string) (string, error) {
	if err := check(name); err != nil {
		return "", err
	}
	info, err := f.root.Stat(name)
	switch {
	case err != nil:
		return "", in(name, err)
	case !info.Mode().IsRegular():
		return "", &Error{http.StatusBadRequest, name + " is not a regular file"}
	}
	file, err := f.root.Open(name)
	if err != nil {
		return "", in(name, err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxBody+1))
	switch {
	case err != nil:
		return "", in(name, err)
	case len(text) > maxBody:
		return "", &Error{http.StatusRequestEntityTooLarge, fmt.Sprintf("%s has more than %d bytes", name, maxBody)}
	}
	return string(text), nil
}

// Write writes a file, and the folders above it, and returns the version that it has then. Readers see the text of before
// or the one of after, and nothing in between. A file that exists is replaced if overwrite is true; if version is not
// empty, only while it is the one that [Version] has of the text.
func (f *Folder) Write(name, text string, overwrite bool, version string) (string, error) {
	if err := check(name); err != nil {
		return "", err
	}
	if folder := filepath.Dir(filepath.FromSlash(name)); folder != "." {
		if err := f.root.MkdirAll(folder, 0o755); err != nil {
			return "", in(name, err)
		}
	}
	// A link could be one to a file that nobody means to replace.
	info, err := f.root.Lstat(name)
	isNew := errors.Is(err, fs.ErrNotExist)
	switch {
	case err != nil && !isNew:
		return "", in(name, err)
	case isNew && version != "":
		return "", &Error{http.StatusConflict, name + " has been removed or renamed since it was opened: save it under this name as a new file, or under another one"}
	case isNew:
	case !info.Mode().IsRegular():
		return "", &Error{http.StatusBadRequest, name + " is not a regular file"}
	case !overwrite:
		return "", &Error{http.StatusConflict, name + " exists: save it under another name, or overwrite it"}
	case info.Mode().Perm()&0o200 == 0:
		return "", &Error{http.StatusForbidden, name + " is read-only: permit writing with chmod u+w, or save it under another name"}
	}
	if !isNew && version != "" {
		if err := f.unchanged(name, version); err != nil {
			return "", err
		}
	}
	if err := f.replace(name, text, info); err != nil {
		return "", in(name, err)
	}
	return Version(text), nil
}

// Version names the text of a file.
func Version(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// unchanged refuses to replace a file that has another text than the one that was read.
func (f *Folder) unchanged(name, version string) error {
	text, err := f.Read(name)
	if err == nil && Version(text) != version {
		return &Error{http.StatusConflict, name + " has changed since it was opened: copy what you have written, open the file again and bring it in there; or save it under another name"}
	}
	return err
}

// replace writes a file beside its name, and moves it there. It has the mode of the one that it replaces; info is nil for
// a new one.
func (f *Folder) replace(name, text string, info fs.FileInfo) error {
	beside := path.Join(path.Dir(name), ".usher-"+rand.Text())
	file, err := f.root.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = f.root.Remove(beside) }()
	if info != nil {
		err = file.Chmod(info.Mode().Perm())
	}
	if err == nil {
		_, err = file.WriteString(text)
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if info == nil {
		// Unlike a rename, it replaces nothing.
		if err = f.root.Link(beside, name); err == nil || errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return f.root.Rename(beside, name)
}

// check refuses names that are not those of manifests in the folder. Hidden files belong to other programs.
func check(name string) error {
	clean := filepath.FromSlash(name)
	if name == "" || !filepath.IsLocal(clean) || filepath.ToSlash(filepath.Clean(clean)) != name || strings.ContainsAny(name, "\\\x00") {
		return &Error{http.StatusBadRequest, fmt.Sprintf("%q is not the name of a file in the folder", name)}
	}
	for part := range strings.SplitSeq(name, "/") {
		if strings.HasPrefix(part, ".") {
			return &Error{http.StatusBadRequest, "names that begin with a dot are not written or read"}
		}
	}
	switch filepath.Ext(name) {
	case ".yaml", ".yml", ".json":
		return nil
	}
	return &Error{http.StatusBadRequest, "expected a name that ends in .yaml, .yml or .json"}
}

// in returns an error about a file, without the names of folders above the one that is open.
func in(name string, err error) error {
	status := http.StatusBadRequest
	switch {
	case errors.Is(err, fs.ErrNotExist):
		status = http.StatusNotFound
	case errors.Is(err, fs.ErrExist):
		status = http.StatusConflict
	}
	if inner, ok := errors.AsType[*fs.PathError](err); ok {
		err = inner.Err
	} else if inner, ok := errors.AsType[*os.LinkError](err); ok {
		err = inner.Err
	}
	return &Error{status, fmt.Sprintf("%s: %v", name, err)}
}
