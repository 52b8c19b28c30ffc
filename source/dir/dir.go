// Package dir reads policies from files and folders, once or continuously.
//
// Files are found as package manifest says. A file may hold several documents and lists. Documents
// of other API groups are ignored, so a folder can also hold test cases and sample objects.
package dir

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/changes"
	"github.com/usher-dev/usher/source"
)

// poll is the interval for changes without notification: NFS, bind mounts, a system without free
// watches.
const poll = 2 * time.Second

// A Source watches files and folders. Use [New].
type Source struct {
	paths []string
}

var _ source.Source = (*Source)(nil)

// New returns the source of the policies in paths, which are files and folders.
func New(paths ...string) *Source { return &Source{paths: paths} }

// Load reads the policies in paths once. It fails if one of the paths does not exist;
// finding no policy is not an error.
func Load(paths ...string) (source.Set, error) {
	r := newReader(paths)
	all, _, err := r.read(func(string) {})
	var set source.Set
	for _, f := range all {
		add(&set, f)
	}
	set.Skipped = r.without()
	return set, err
}

// Parse returns the policies in the content of a file of this name. Unless the name ends in
// .json the content is YAML, or JSON too.
func Parse(file string, content []byte) source.Set { return setOf(parse(file, content)) }

// setOf returns the set of a file.
func setOf(all []found) source.Set {
	var set source.Set
	first := map[identity]api.Position{}
	for _, f := range all {
		add(&set, unique(f, first))
	}
	return set
}

// Run reads the files, and reads them again within a second of a change. It fails if there are
// no paths, or one of them does not exist at the start. A path that vanishes later is reported as
// unreadable, and the policies stay as they were.
//
// Files that are rewritten in place are incomplete for a while. Therefore a policy stays in force
// until the file in which it is missing has not changed for three seconds, and in its last version
// until a file that became shorter has not changed for most of a second.
func (s *Source) Run(ctx context.Context, update func(source.Set)) error {
	if len(s.paths) == 0 {
		return errors.New("read policies: there are no paths: name a file or a folder")
	}
	folders := changes.Watch()
	defer folders.Close()
	// Editors write a file in several steps, and remove it for an instant.
	pause := changes.Pause{Quiet: 100 * time.Millisecond, Limit: 500 * time.Millisecond}

	r := newReader(s.paths)
	all, seen, err := r.read(folders.Add)
	if err != nil {
		return err
	}
	m := memory{sizes: map[string]int64{}}
	set, wait := m.next(all, seen, time.Now())
	update(set)

	due := time.NewTimer(wait)
	defer due.Stop()
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-folders.Changed():
			if !pause.Wait(ctx, folders.Changed()) {
				return nil
			}
		case <-due.C:
		case <-ticker.C:
			if now, err := r.stamps(); err == nil && maps.Equal(now, seen) {
				continue
			}
			if !pause.Wait(ctx, folders.Changed()) {
				return nil
			}
		}
		var next source.Set
		if all, seen, err = r.read(folders.Add); err != nil {
			next, wait = vanished(set, err), poll
		} else {
			next, wait = m.next(all, seen, time.Now())
		}
		due.Reset(wait)
		if !same(set, next) {
			set = next
			update(set)
		}
	}
}

// vanished is the last set, with the reason why it is not replaced.
func vanished(last source.Set, err error) source.Set {
	var at api.Position
	if pathErr := (*fs.PathError)(nil); errors.As(err, &pathErr) {
		at.File = pathErr.Path
	}
	return source.Set{Policies: last.Policies, Unreadable: []source.Unreadable{{Position: at, Err: err}}}
}

// same reports whether nothing has changed. A file that has not changed keeps its
// policies, so that comparing pointers is enough.
func same(a, b source.Set) bool {
	return slices.EqualFunc(a.Policies, b.Policies, func(x, y api.Policy) bool { return x.Object == y.Object }) &&
		slices.EqualFunc(a.Unreadable, b.Unreadable, func(x, y source.Unreadable) bool { return x.String() == y.String() })
}
