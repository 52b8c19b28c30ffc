package live

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/compile"
)

const (
	// updateTimeout is how long an update after the first waits for policies to be compiled.
	updateTimeout = 2 * time.Second
	// settleTimeout is how long one policy may take to compile in the background.
	settleTimeout = 10 * time.Second
	// settlePause is how long to wait before policies that could not be compiled in that time are
	// compiled again.
	settlePause = 5 * time.Second
)

// versions compiles the new policies: all namespaces concurrently, so that policies of a namespace
// wait only for each other.
func (l *Live) versions(refs []usher.PolicyRef, policies []api.Policy) []*version {
	timeout := updateTimeout
	if l.current.Load().status.Generation == 0 {
		timeout = l.options.CompileTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	versions := make([]*version, len(policies))
	inNamespaces(refs, func(i int) {
		versions[i] = l.known[refs[i]].next(policies[i], func(policy api.Policy) compile.Compiled {
			if compiled, ok := l.settler.take(refs[i], policy); ok {
				return compiled
			}
			return compilePolicy(ctx, policy, l.options.Compile)
		}, l.settler.has(refs[i]))
	})
	return versions
}

// inNamespaces calls f for the index of each policy: sequentially for the policies of a namespace,
// and one per processor at a time for cluster policies.
func inNamespaces(refs []usher.PolicyRef, f func(int)) {
	indices := map[string][]int{}
	for i, ref := range refs {
		indices[ref.Namespace] = append(indices[ref.Namespace], i)
	}
	var group sync.WaitGroup
	for namespace, all := range indices {
		workers := 1
		if namespace == "" {
			workers = min(runtime.GOMAXPROCS(0), len(all))
		}
		var next atomic.Int64
		for range workers {
			group.Go(func() {
				for i := int(next.Add(1)) - 1; i < len(all); i = int(next.Add(1)) - 1 {
					f(all[i])
				}
			})
		}
	}
	group.Wait()
}

// A settler holds the policies that are compiled in the background.
type settler struct {
	state *settlerState
	wake  chan struct{}
}

type settlerState struct {
	mu      sync.Mutex
	pending []*version
	settled map[usher.PolicyRef]compile.Compiled
}

func newSettler() settler {
	return settler{&settlerState{settled: map[usher.PolicyRef]compile.Compiled{}}, make(chan struct{}, 1)}
}

// expect records the pending versions.
func (s *settler) expect(versions []*version) {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	s.state.pending = nil
	settled := s.state.settled
	s.state.settled = map[usher.PolicyRef]compile.Compiled{}
	for _, v := range versions {
		if !v.pending {
			continue
		}
		s.state.pending = append(s.state.pending, v)
		if compiled, ok := settled[v.newest.Ref]; ok {
			s.state.settled[v.newest.Ref] = compiled
		}
	}
	if len(s.state.pending) > 0 {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

func (s *settler) put(compiled compile.Compiled) {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	s.state.settled[compiled.Ref] = compiled
}

// has reports whether there is a result to take.
func (s *settler) has(ref usher.PolicyRef) bool {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	_, ok := s.state.settled[ref]
	return ok
}

// take returns the result of a compilation in the background, if the policy is still the same.
func (s *settler) take(ref usher.PolicyRef, policy api.Policy) (compile.Compiled, bool) {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	compiled, ok := s.state.settled[ref]
	delete(s.state.settled, ref)
	return compiled, ok && (&version{newest: compiled}).holds(policy)
}

func (s *settler) list() []*version {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	return slices.Clone(s.state.pending)
}

// settle compiles, in the background, policies that took too long for an update, until ctx is done.
func (l *Live) settle(ctx context.Context) {
	for {
		select {
		case <-l.settler.wake:
		case <-ctx.Done():
			return
		}
		l.settleOnce(ctx)
		if len(l.settler.list()) == 0 {
			continue
		}
		select {
		case <-time.After(settlePause):
		case <-ctx.Done():
			return
		}
	}
}

func (l *Live) settleOnce(ctx context.Context) {
	pending := l.settler.list()
	refs := make([]usher.PolicyRef, len(pending))
	for i, v := range pending {
		refs[i] = v.newest.Ref
	}
	var settled atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		inNamespaces(refs, func(i int) {
			compiling, cancel := context.WithTimeout(ctx, settleTimeout)
			defer cancel()
			compiled := compilePolicy(compiling, pending[i].newest.Policy, l.options.Compile)
			if !compiled.Pending() {
				l.settler.put(compiled)
				settled.Add(1)
			}
		})
	}()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for ended := false; !ended; {
		select {
		case <-ticker.C:
		case <-done:
			ended = true
		}
		if settled.Swap(0) > 0 {
			l.updating.Lock()
			l.update(l.sets)
			l.updating.Unlock()
		}
	}
	if len(l.settler.list()) > 0 {
		select {
		case l.settler.wake <- struct{}{}:
		default:
		}
	}
}
