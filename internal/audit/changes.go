package audit

import (
	"slices"
	"time"
)

// remembered is how long it is known that the results of a namespace without objects have changed.
const remembered = 24 * time.Hour

// A changes has which version of the results of each namespace is the newest.
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

func (a *Auditor) touch(n *namespace) { a.touchName(n.name) }

// touchName notes that the results of a namespace have changed.
func (a *Auditor) touchName(name string) {
	c := &a.changes
	c.version++
	now := time.Now()
	c.of[name] = change{c.version, now}
	if c.asked {
		close(c.next)
		c.next, c.asked = make(chan struct{}), false
	}
	if now.Sub(c.swept) < remembered {
		return
	}
	c.swept = now
	for name, last := range c.of {
		if a.namespaces[name] == nil && now.Sub(last.at) > remembered {
			delete(c.of, name)
		}
	}
}

// touchKind notes that the results about a kind have changed.
func (a *Auditor) touchKind(k *kind) {
	for _, l := range k.lots {
		a.touch(l.namespace)
	}
}

// Changes returns the namespaces whose results have changed after a version, the version that they
// have now, and a channel that is closed at the next change. Version 0 is before all. The namespace
// "" changes with the states of kinds, too. A namespace without objects is among them for a
// day after its last change.
func (a *Auditor) Changes(after uint64) (namespaces []string, version uint64, next <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &a.changes
	for name, last := range c.of {
		if last.version > after {
			namespaces = append(namespaces, name)
		}
	}
	slices.Sort(namespaces)
	c.asked = true
	return namespaces, c.version, c.next
}
