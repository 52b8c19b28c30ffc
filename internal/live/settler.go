package live

import (
	"maps"
	"slices"
	"sync"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule"
)

// A settler holds the policies that are compiled in the background, and what came of it until the next
// update takes it.
type settler struct {
	// wake has a message when there are policies to compile, fresh when some have been.
	wake, fresh chan struct{}

	mu sync.Mutex
	// By namespace, pending are the versions to compile, stopped those whose compilation was stopped,
	// and again those of them to try once more.
	pending, stopped, again map[string][]*version
	// busy are the namespaces whose policies are being compiled.
	busy    map[string]bool
	settled map[usher.PolicyRef]compile.Compiled
	// lateUntil is until when no update waits for a namespace.
	lateUntil map[string]time.Time
}

func newSettler() *settler {
	return &settler{
		wake: make(chan struct{}, 1), fresh: make(chan struct{}, 1),
		again: map[string][]*version{}, busy: map[string]bool{}, settled: map[usher.PolicyRef]compile.Compiled{}, lateUntil: map[string]time.Time{},
	}
}

func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// expect records the pending versions, and those that were stopped.
func (s *settler) expect(versions []*version) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending, s.stopped = map[string][]*version{}, map[string][]*version{}
	settled := s.settled
	s.settled = map[usher.PolicyRef]compile.Compiled{}
	for _, v := range versions {
		ref := v.newest.Ref
		if v.newest.Stopped() != (rule.Stopped{}) {
			s.stopped[ref.Namespace] = append(s.stopped[ref.Namespace], v)
		}
		if !v.pending {
			continue
		}
		s.pending[ref.Namespace] = append(s.pending[ref.Namespace], v)
		if compiled, ok := settled[ref]; ok {
			s.settled[ref] = compiled
		}
	}
	if len(s.pending) > 0 {
		signal(s.wake)
	}
}

// tryAgain has the versions that were stopped tried once more, behind those that are pending.
func (s *settler) tryAgain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(s.again, s.stopped)
}

// begin returns the namespaces whose pending policies nobody compiles yet, and expects the caller to.
func (s *settler) begin() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var namespaces []string
	for _, due := range []map[string][]*version{s.pending, s.again} {
		for namespace := range due {
			if !s.busy[namespace] {
				s.busy[namespace] = true
				namespaces = append(namespaces, namespace)
			}
		}
	}
	return namespaces
}

// list returns the versions of a namespace to compile. If there are none, nobody compiles them any
// more.
func (s *settler) list(namespace string) []*version {
	s.mu.Lock()
	defer s.mu.Unlock()
	var due []*version
	for _, v := range s.pending[namespace] {
		if !s.holds(v.newest.Ref, v.newest.Policy) {
			due = append(due, v)
		}
	}
	due = append(due, s.again[namespace]...)
	delete(s.again, namespace)
	if len(due) == 0 {
		delete(s.busy, namespace)
	}
	return due
}

// expects reports whether a version is still to be compiled.
func (s *settler) expects(v *version) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	namespace := v.newest.Ref.Namespace
	return slices.Contains(s.pending[namespace], v) || slices.Contains(s.stopped[namespace], v)
}

// put keeps a policy for the next update, unless it is pending. It reports whether it does.
func (s *settler) put(compiled compile.Compiled) bool {
	if compiled.Pending() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settled[compiled.Ref] = compiled
	return true
}

// has reports whether a policy was compiled for the next update.
func (s *settler) has(ref usher.PolicyRef, policy api.Policy) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holds(ref, policy)
}

func (s *settler) holds(ref usher.PolicyRef, policy api.Policy) bool {
	compiled, ok := s.settled[ref]
	return ok && (&version{newest: compiled}).holds(policy)
}

// take returns and forgets a policy that was compiled; nil if it was not, or has changed since.
func (s *settler) take(ref usher.PolicyRef, policy api.Policy) *compile.Compiled {
	s.mu.Lock()
	defer s.mu.Unlock()
	compiled, same := s.settled[ref], s.holds(ref, policy)
	delete(s.settled, ref)
	if !same {
		return nil
	}
	return &compiled
}

// late records that no update should wait for a namespace for now.
func (s *settler) late(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for other, until := range s.lateUntil {
		if now.After(until) {
			delete(s.lateUntil, other)
		}
	}
	s.lateUntil[namespace] = now.Add(lateFor)
}

// isLate reports whether updates do not wait for a namespace.
func (s *settler) isLate(namespace string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.lateUntil[namespace])
}
