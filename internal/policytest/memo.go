package policytest

import (
	"context"
	"fmt"
	"sync"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
)

// mostKept is how many compiled policies are kept: the cases of a file have few, and mutants many.
const mostKept = 16

// A memo has the policies of the cases that were loaded together: most of these have the same, and
// compiling one takes longer than deciding. It is safe for concurrent use. A nil memo keeps nothing.
type memo struct {
	mu    sync.Mutex
	known map[string]*storing
}

func newMemo() *memo { return &memo{known: map[string]*storing{}} }

// Together has cases keep the policies that several of them have, so that these are compiled once.
func Together(cases ...*Case) {
	shared := newMemo()
	for _, c := range cases {
		c.memo = shared
	}
}

// A storing is a policy that is stored: through policy admission, and compiled.
type storing struct {
	once     sync.Once
	compiled compile.Compiled
	refusals []string
	err      error
	// cut is whether the time of the case that stored it ended meanwhile.
	cut bool
}

// stored returns what storing a policy gives.
func (m *memo) stored(ctx context.Context, o compile.Options, document []byte, admit bool) *storing {
	for {
		s := m.entry(keyOf(o, document, admit))
		s.once.Do(func() {
			s.store(ctx, o, document, admit)
			s.cut = ctx.Err() != nil
		})
		if s.err != nil || s.cut {
			m.forget(s)
		}
		if !s.cut || ctx.Err() != nil {
			return s
		}
		// The time of another case was over, not that of this one.
	}
}

func (s *storing) store(ctx context.Context, o compile.Options, document []byte, admit bool) {
	if admit {
		on := stage{options: o}
		if document, s.err = on.admit(ctx, document); s.err != nil {
			return
		}
		s.refusals = on.refusals
	}
	policy, err := api.Decode(document)
	if err != nil {
		s.err = err
		return
	}
	s.compiled = o.Policy(ctx, policy)
}

// keyOf tells apart policies that are stored or compiled in different ways.
func keyOf(o compile.Options, document []byte, admit bool) string {
	return fmt.Sprintf("%t %+v %s", admit, o, document)
}

func (m *memo) entry(key string) *storing {
	if m == nil {
		return &storing{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.known[key]; s != nil {
		return s
	}
	if len(m.known) >= mostKept {
		for other := range m.known {
			delete(m.known, other)
			break
		}
	}
	s := &storing{}
	m.known[key] = s
	return s
}

func (m *memo) forget(s *storing) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, other := range m.known {
		if other == s {
			delete(m.known, key)
		}
	}
}
