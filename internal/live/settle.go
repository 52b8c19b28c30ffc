package live

import (
	"cmp"
	"context"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule"
)

const (
	// updateTimeout is how long an update waits for policies to be compiled; the first one waits longer
	// for policies of the cluster.
	updateTimeout = 2 * time.Second
	// namespaceBudget is how much processor time compiling the policies of one namespace may take before
	// an update leaves the others of the namespace to the background. One that was stopped takes all.
	namespaceBudget = time.Second
	// lateFor is how long no update waits for a namespace that has used up its budget.
	lateFor = time.Minute
	// settleTimeout is how long one policy may take to compile in the background, the wait for its
	// turn included.
	settleTimeout = 30 * time.Second
	// settlePause is how long to wait before policies that could not be compiled in that time are
	// compiled again.
	settlePause = 5 * time.Second
	// publishPause is the minimum time between two updates with what was compiled in the background.
	publishPause = time.Second
	// stoppedPause is how often policies whose compilation was stopped are looked at: one of them is
	// tried again after [compile.Again].
	stoppedPause = compile.Again / 6
)

// prepare compiles the new policies of sets for the next update. It does so without the lock of
// updates, so that nobody waits for it but the source of the sets: all namespaces concurrently, so
// that policies of a namespace wait only for each other.
func (l *Live) prepare(ctx context.Context, sets []*merged) {
	l.updating.Lock()
	refs, policies := l.missing(sets)
	l.updating.Unlock()
	if len(refs) == 0 {
		return
	}
	timeout, first := updateTimeout, l.current.Load().status.Generation == 0
	if first {
		timeout = l.options.CompileTimeout
	}
	forCluster, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	forNamespaces, cancelNamespaces := context.WithTimeout(ctx, min(timeout, updateTimeout))
	defer cancelNamespaces()
	spent, count := make(map[string]*time.Duration), map[string]int{}
	for _, ref := range refs {
		spent[ref.Namespace] = new(time.Duration)
		count[ref.Namespace]++
	}
	inNamespaces(refs, func(i int) bool {
		namespace := refs[i].Namespace
		if namespace == "" {
			l.settler.put(l.options.Compile.Policy(forCluster, policies[i]))
			return true
		}
		if !first && l.settler.isLate(namespace) {
			return false
		}
		compiled := l.options.Compile.Policy(compile.Among(forNamespaces, count[namespace]), policies[i])
		l.settler.put(compiled)
		*spent[namespace] += compiled.Took
		if *spent[namespace] < namespaceBudget && compiled.Stopped() == (rule.Stopped{}) {
			return true
		}
		l.settler.late(namespace)
		return false
	})
}

// missing returns the policies of the sets that are not compiled.
func (l *Live) missing(sets []*merged) ([]usher.PolicyRef, []api.Policy) {
	c := l.choose(slices.DeleteFunc(slices.Clone(sets), func(m *merged) bool { return m == nil }))
	var refs []usher.PolicyRef
	var policies []api.Policy
	for i, policy := range c.policies {
		if v := l.known[c.refs[i]]; v != nil && v.holds(policy) || l.settler.has(c.refs[i], policy) {
			continue
		}
		refs, policies = append(refs, c.refs[i]), append(policies, policy)
	}
	return refs, policies
}

// versions returns the versions of the policies. Those that have not been compiled are pending.
func (l *Live) versions(refs []usher.PolicyRef, policies []api.Policy) []*version {
	versions := make([]*version, len(policies))
	for i, ref := range refs {
		versions[i] = l.known[ref].next(policies[i], l.settler.take(ref, policies[i]), l.options.Compile.Pending)
	}
	return versions
}

// inNamespaces calls f for the index of each policy: sequentially for the policies of a namespace,
// until f returns false, and one per processor at a time for cluster policies.
func inNamespaces(refs []usher.PolicyRef, f func(int) bool) {
	indices := map[string][]int{}
	for i, ref := range refs {
		indices[ref.Namespace] = append(indices[ref.Namespace], i)
	}
	var group sync.WaitGroup
	// Who has few policies is not to wait for who has many.
	namespaces := slices.SortedFunc(maps.Keys(indices), func(a, b string) int { return cmp.Compare(len(indices[a]), len(indices[b])) })
	for _, namespace := range namespaces {
		all, workers := indices[namespace], 1
		if namespace == "" {
			workers = min(runtime.GOMAXPROCS(0), len(all))
		}
		var next atomic.Int64
		for range workers {
			group.Go(func() {
				for more := true; more; {
					i := int(next.Add(1)) - 1
					more = i < len(all) && f(all[i])
				}
			})
		}
	}
	group.Wait()
}

// settle compiles, in the background, policies that took too long for an update, until ctx is done.
// No namespace waits for another one.
func (l *Live) settle(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { l.publishSettled(ctx) })
	ticker := time.NewTicker(stoppedPause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.settler.wake:
		case <-ticker.C:
			l.settler.tryAgain()
		}
		for _, namespace := range l.settler.begin() {
			running.Go(func() { l.settleNamespace(ctx, namespace) })
		}
	}
}

// settleNamespace compiles the policies of a namespace that are pending, until there are none.
func (l *Live) settleNamespace(ctx context.Context, namespace string) {
	for {
		pending := l.settler.list(namespace)
		if len(pending) == 0 || ctx.Err() != nil {
			return
		}
		settled := false
		for _, v := range pending {
			if !l.settler.expects(v) {
				continue
			}
			compiling, cancel := context.WithTimeout(compile.Among(ctx, len(pending)), settleTimeout)
			compiled := l.options.Compile.Policy(compiling, v.newest.Policy)
			cancel()
			if !v.pending && compiled.Stopped() != (rule.Stopped{}) {
				// Nothing has changed for a policy that was stopped before.
				continue
			}
			if l.settler.put(compiled) {
				signal(l.settler.fresh)
				settled = true
			}
		}
		if settled {
			continue
		}
		select {
		case <-time.After(settlePause):
		case <-ctx.Done():
		}
	}
}

// publishSettled puts into force what was compiled in the background, until ctx is done.
func (l *Live) publishSettled(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.settler.fresh:
		}
		l.updating.Lock()
		l.update(l.sets)
		l.updating.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(publishPause):
		}
	}
}
