package dir

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/source"
)

// maxFile is the largest file that is read, in bytes.
const maxFile = 16 << 20

// A reader reads the files below paths. It remembers what it made of each file, and
// parses only those again that have changed.
type reader struct {
	paths  []string
	parsed map[string]parsed
}

type parsed struct {
	sum   [sha256.Size]byte
	found []found
	// info is what the file was, if it had been so for a while when it was read: then it
	// need not be read as long as it is that.
	info fs.FileInfo
}

// settled is how long ago a file must have been changed for its time to tell the next
// change: file systems count time in steps.
const settled = 2 * time.Second

// A found is what a document turned out to be: a policy, or unreadable if it has no object.
type found struct {
	policy     api.Policy
	at         api.Position
	unreadable error
}

// A stamp is what tells a changed file without reading it.
type stamp struct {
	size     int64
	modified time.Time
}

func newReader(paths []string) *reader { return &reader{paths: paths} }

// read reads every file. It tells enter of each folder before it reads it, so that no
// change is missed. It fails only for one of the paths themselves.
func (r *reader) read(enter func(folder string)) ([]found, map[string]stamp, error) {
	stamps := map[string]stamp{}
	next := map[string]parsed{}
	var all []found
	first := map[identity]api.Position{}
	err := r.walk(enter, func(path string, info fs.FileInfo, err error) {
		p := parsed{found: []found{{at: api.Position{File: path}, unreadable: err}}}
		if err == nil {
			stamps[path] = stampOf(info)
			p = r.file(path, info)
			next[path] = p
		}
		for _, f := range p.found {
			all = append(all, unique(f, first))
		}
	})
	if err != nil {
		return nil, nil, err
	}
	r.parsed = next
	return all, stamps, nil
}

func add(set *source.Set, f found) {
	if f.unreadable != nil {
		set.Unreadable = append(set.Unreadable, source.Unreadable{Position: f.at, Err: f.unreadable})
		return
	}
	set.Policies = append(set.Policies, f.policy)
}

// stamps returns the stamp of every file that read would read.
func (r *reader) stamps() (map[string]stamp, error) {
	stamps := map[string]stamp{}
	err := r.walk(func(string) {}, func(path string, info fs.FileInfo, err error) {
		if err == nil {
			stamps[path] = stampOf(info)
		}
	})
	return stamps, err
}

func stampOf(info fs.FileInfo) stamp { return stamp{size: info.Size(), modified: info.ModTime()} }

// file parses one file, unless it is as it was the last time.
func (r *reader) file(path string, info fs.FileInfo) parsed {
	before, known := r.parsed[path]
	if known && before.info != nil && os.SameFile(before.info, info) && stampOf(before.info) == stampOf(info) {
		return before
	}
	now := time.Now()
	content, err := contentOf(path)
	if errors.Is(err, fs.ErrNotExist) {
		// It went between being listed and being read.
		return parsed{}
	}
	if err != nil {
		return parsed{found: []found{{at: api.Position{File: path}, unreadable: err}}}
	}
	p := parsed{sum: sha256.Sum256(content)}
	if known && before.sum == p.sum {
		p.found = before.found
	} else {
		p.found = parse(path, content)
	}
	if now.Sub(info.ModTime()) > settled {
		p.info = info
	}
	return p
}

func contentOf(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, reading(err)
	}
	defer func() { _ = f.Close() }()
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, reading(err)
	}
	if len(content) > maxFile {
		return nil, fmt.Errorf("read policies: file is larger than %d MiB", maxFile>>20)
	}
	return bytes.TrimPrefix(content, []byte("\xef\xbb\xbf")), nil
}

// reading wraps an error that names its path, which is shown before it.
func reading(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return fmt.Errorf("%s: %w", pathErr.Op, pathErr.Err)
	}
	return err
}

// An identity is what no two policies may share.
type identity struct{ kind, namespace, name string }

func identityOf(f found) identity {
	o := f.policy.Object
	return identity{o.GetObjectKind().GroupVersionKind().Kind, o.GetNamespace(), o.GetName()}
}

// unique makes f unreadable when an earlier document has the same identity, and
// otherwise notes where it stands.
func unique(f found, first map[identity]api.Position) found {
	if f.unreadable != nil {
		return f
	}
	id := identityOf(f)
	other, twice := first[id]
	if !twice {
		first[id] = f.at
		return f
	}
	name := id.name
	if id.namespace != "" {
		name = id.namespace + "/" + name
	}
	f.unreadable = fmt.Errorf("%s %s: defined twice, here and at %s:%d", id.kind, name, other.File, other.Line)
	return f
}

// walk calls visit for every file in order of its name, once, whatever symbolic links
// lead to it, or with the error that keeps it from being read.
func (r *reader) walk(enter func(folder string), visit func(path string, info fs.FileInfo, err error)) error {
	w := walk{enter: enter, visit: visit, been: map[string]bool{}}
	for _, path := range r.paths {
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("read policies: %w", err)
		}
		if info.IsDir() {
			w.folder(path)
			continue
		}
		enter(filepath.Dir(path))
		w.file(path, realOf(path), info)
	}
	return nil
}

type walk struct {
	enter func(folder string)
	visit func(path string, info fs.FileInfo, err error)
	// been holds the files and folders seen so far, without symbolic links.
	been map[string]bool
}

func (w *walk) folder(path string) {
	real := realOf(path)
	if w.again(real) {
		return
	}
	w.enter(path)
	entries, err := os.ReadDir(path)
	if err != nil {
		w.visit(path, nil, reading(err))
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
			if entry.Type()&fs.ModeSymlink != 0 && isPolicyFile(name) {
				w.visit(inside, nil, fmt.Errorf("follow symbolic link: %w", cmp.Or(errors.Unwrap(err), err)))
			}
		case info.IsDir():
			w.folder(inside)
		case info.Mode().IsRegular() && isPolicyFile(name):
			real := filepath.Join(real, name)
			if entry.Type()&fs.ModeSymlink != 0 {
				real = realOf(inside)
				w.enter(filepath.Dir(real))
			}
			w.file(inside, real, info)
		}
	}
}

func (w *walk) file(path, real string, info fs.FileInfo) {
	if !w.again(real) {
		w.visit(path, info, nil)
	}
}

// again reports whether this is not the first time for a file or folder.
func (w *walk) again(real string) bool {
	been := w.been[real]
	w.been[real] = true
	return been
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

func isPolicyFile(name string) bool {
	switch filepath.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}
