package store

import (
	"slices"
	"time"
)

// remembered is how long it is known that the results of a namespace without objects have changed.
const remembered = 24 * time.Hour

// changes are the newest versions of the results of each namespace. The store guards them.
type changes struct {
	version uint64
	of      map[string]change
	// next is closed at the next change, if asked says that somebody has it.
	next  chan struct{}
	asked bool
	swept time.Time
}

type change struct {
	version uint64
	at      time.Time
}

func newChanges() changes { return changes{of: map[string]change{}, next: make(chan struct{})} }

// touch notes that the results of a namespace have changed.
func (c *changes) touch(name string, now time.Time) {
	c.version++
	c.of[name] = change{c.version, now}
	if c.asked {
		close(c.next)
		c.next, c.asked = make(chan struct{}), false
	}
}

// sweep forgets the last changes of namespaces that are gone, from time to time.
func (c *changes) sweep(exist map[string]*namespace, now time.Time) {
	if now.Sub(c.swept) < remembered {
		return
	}
	c.swept = now
	for name, last := range c.of {
		if exist[name] == nil && now.Sub(last.at) > remembered {
			delete(c.of, name)
		}
	}
}

// since returns the namespaces that have changed after a version.
func (c *changes) since(after uint64) (namespaces []string, version uint64, next <-chan struct{}) {
	for name, last := range c.of {
		if last.version > after {
			namespaces = append(namespaces, name)
		}
	}
	slices.Sort(namespaces)
	c.asked = true
	return namespaces, c.version, c.next
}

// touch notes that the results of a namespace have changed.
func (s *Store) touch(name string) {
	now := time.Now()
	s.changes.touch(name, now)
	s.changes.sweep(s.memory.namespaces, now)
}

// Changes returns the namespaces whose results have changed after a version, the version that they
// have now, and a channel that is closed at the next change. Version 0 is before all. The namespace
// "" changes with the states of kinds, too. A namespace without objects is among them for a
// day after its last change.
func (s *Store) Changes(after uint64) (namespaces []string, version uint64, next <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changes.since(after)
}
