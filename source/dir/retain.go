package dir

import (
	"cmp"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/usher-dev/usher/source"
)

const (
	// shrunk is how long a file that has become shorter must stay unchanged before its policies are
	// replaced: a writer may not have finished.
	shrunk = 700 * time.Millisecond
	// lost is how long a file that no longer has a policy must stay unchanged before the policy is
	// out of force: a command such as "helm template > file" empties the file and then runs for a
	// while.
	lost = 3 * time.Second
)

// A memory holds the policies in force. It releases one only after its file has not changed for a
// while.
type memory struct {
	held map[identity]found
	// sizes are those of the files that policies in force were read from, at that time.
	sizes map[string]int64
	// seen is when a file last changed.
	seen map[string]sighting
}

type sighting struct {
	stamp stamp
	since time.Time
}

// next returns the set in force after all was read from files with the stamps: all, and what is
// retained. If anything is retained, call it again after wait.
func (m *memory) next(all []found, stamps map[string]stamp, now time.Time) (set source.Set, wait time.Duration) {
	m.sight(stamps, now)
	current := map[identity]found{}
	for _, f := range all {
		if f.unreadable == nil {
			current[identityOf(f)] = f
		}
	}
	retained := map[identity]found{}
	files := map[string]bool{}
	wait = math.MaxInt64
	for id, f := range m.held {
		left := m.retention(f, current[id], stamps) - now.Sub(m.seen[f.at.File].since)
		if left > 0 {
			retained[id], files[f.at.File] = f, true
			wait = min(wait, left)
		}
	}
	set = m.merge(all, retained, files)
	maps.Copy(current, retained)
	m.held = current
	for file := range m.sizes {
		if _, exists := stamps[file]; !exists && !files[file] {
			delete(m.sizes, file)
		}
	}
	for file, s := range stamps {
		if !files[file] {
			m.sizes[file] = s.size
		}
	}
	return set, wait
}

// sight notes which files have changed.
func (m *memory) sight(stamps map[string]stamp, now time.Time) {
	seen := make(map[string]sighting, len(m.sizes))
	for file := range m.sizes {
		s, exists := stamps[file]
		if !exists {
			s = absent(file)
		}
		seen[file] = sighting{stamp: s, since: now}
		if before, ok := m.seen[file]; ok && before.stamp == s {
			seen[file] = before
		}
	}
	m.seen = seen
}

// absent is the stamp of a file that does not exist. It changes when something is put into
// the folder, such as the file, for an instant.
func absent(file string) stamp {
	s := stamp{size: -1}
	if info, err := os.Stat(filepath.Dir(file)); err == nil {
		s.modified = info.ModTime()
	}
	return s
}

// retention is how long the file of a policy in force must stay unchanged before next replaces the
// policy. The object of next is nil if nothing does.
func (m *memory) retention(f, next found, stamps map[string]stamp) time.Duration {
	switch {
	case next.policy.Object == nil:
		return lost
	case next.at.File == f.at.File && stamps[f.at.File].size < m.sizes[f.at.File]:
		return shrunk
	}
	return 0
}

// merge returns what was read, with what is retained in its place, or else at the end. Errors in
// files that may be incomplete are left out.
func (m *memory) merge(all []found, retained map[identity]found, files map[string]bool) source.Set {
	var set source.Set
	rest := maps.Clone(retained)
	for _, f := range all {
		if f.unreadable != nil {
			if !files[f.at.File] {
				add(&set, f)
			}
			continue
		}
		id := identityOf(f)
		if old, ok := retained[id]; ok {
			f = old
		}
		delete(rest, id)
		add(&set, f)
	}
	for _, f := range slices.SortedFunc(maps.Values(rest), func(a, b found) int {
		return cmp.Or(cmp.Compare(a.at.File, b.at.File), cmp.Compare(a.at.Line, b.at.Line))
	}) {
		add(&set, f)
	}
	return set
}
