package dir

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/manifest"
	"github.com/usher-dev/usher/source"
)

// maxFile is the largest file that is read, in bytes.
const maxFile = 16 << 20

// A reader reads the files below paths. It caches the result of each file, and parses only files
// that have changed.
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

// errPipe is the error of a file that was replaced by a pipe.
var errPipe = errors.New("read policies: a named pipe took the place of the file")

// A found is the result of a document: a policy, or unreadable if it has no object.
type found struct {
	policy     api.Policy
	at         api.Position
	unreadable error
	// do says how to correct what is unreadable, unless it is the text.
	do string
}

// A stamp identifies a version of a file without reading it.
type stamp struct {
	size     int64
	modified time.Time
}

func newReader(paths []string) *reader { return &reader{paths: paths} }

// read reads every file. It calls enter for each folder before it reads it, so that no change is
// missed. It fails only for one of the paths themselves.
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

// without returns the files that were read and have no policy.
func (r *reader) without() []string {
	var files []string
	for path, p := range r.parsed {
		if len(p.found) == 0 {
			files = append(files, path)
		}
	}
	slices.Sort(files)
	return files
}

func add(set *source.Set, f found) {
	if f.unreadable != nil {
		set.Unreadable = append(set.Unreadable, source.Unreadable{Position: f.at, Err: f.unreadable, Do: f.do})
		return
	}
	set.Policies = append(set.Policies, f.policy)
}

// stamps returns the stamps of all files that read would read.
func (r *reader) stamps() (map[string]stamp, error) {
	stamps := map[string]stamp{}
	err := r.walk(func(string) {}, func(path string, info fs.FileInfo, err error) {
		if err == nil {
			stamps[path] = stampOf(info)
		}
	})
	return stamps, err
}

func (r *reader) walk(enter func(folder string), visit func(path string, info fs.FileInfo, err error)) error {
	if err := manifest.Walk(r.paths, manifest.Visitor{Enter: enter, File: visit}); err != nil {
		return fmt.Errorf("read policies: %w", err)
	}
	return nil
}

func stampOf(info fs.FileInfo) stamp { return stamp{size: info.Size(), modified: info.ModTime()} }

// file parses one file, unless it is as it was the last time.
func (r *reader) file(path string, info fs.FileInfo) parsed {
	before, known := r.parsed[path]
	if known && before.info != nil && os.SameFile(before.info, info) && stampOf(before.info) == stampOf(info) {
		return before
	}
	if known && info.Mode()&fs.ModeNamedPipe != 0 {
		// Opening one waits until somebody writes to it, and meanwhile no other file would be read.
		return parsed{found: []found{{at: api.Position{File: path}, unreadable: errPipe}}}
	}
	now := time.Now()
	content, err := contentOf(path)
	if errors.Is(err, fs.ErrNotExist) {
		// The file was deleted after the folder was listed.
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
	content, err := manifest.Read(path, maxFile)
	if err != nil {
		return nil, manifest.Reason(err)
	}
	return bytes.TrimPrefix(content, []byte("\xef\xbb\xbf")), nil
}

// An identity is what no two policies may share.
type identity struct{ kind, namespace, name string }

func identityOf(f found) identity {
	o := f.policy.Object
	return identity{o.GetObjectKind().GroupVersionKind().Kind, o.GetNamespace(), o.GetName()}
}

// unique makes f unreadable if an earlier document has the same identity, and otherwise records its
// position.
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
