package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/trial"
	"github.com/usher-dev/usher/internal/trial/lockout"
	"github.com/usher-dev/usher/internal/turns"
)

const (
	// tryAgain is how often policies are tried again whose results depend on the cluster.
	tryAgain = 30 * time.Second
	// publishEvery is how often results are published while policies are tried.
	publishEvery = time.Second
)

// A tried is the result of trying one version.
type tried struct {
	trial.Report
	// lockout says which requests without which a cluster cannot recover the version refuses. No other object decides
	// that: it is found out once.
	lockout []rule.Problem
}

// tries holds the results of trying stored policies.
type tries struct {
	wake chan struct{}
	// none says that policies are not tried.
	none bool
	// unserved is that of [Options].
	unserved string

	mu      sync.Mutex
	results map[*version]tried
	// expected counts the updates, ended those whose policies have been tried. Changed is closed and
	// replaced when ended grows.
	expected, ended int
	changed         chan struct{}
}

func newTries(by *trial.Trial, unserved string) *tries {
	return &tries{none: by == nil, unserved: unserved, wake: make(chan struct{}, 1), results: map[*version]tried{}, changed: make(chan struct{})}
}

// begin returns which update is the last one that the tries that begin now are of.
func (t *tries) begin() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.expected
}

// end says that the policies of an update, and of those before it, have been tried.
func (t *tries) end(update int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = max(t.ended, update)
	close(t.changed)
	t.changed = make(chan struct{})
}

// until returns nil if the policies of an update have been tried, otherwise what is closed when others
// have been.
func (t *tries) until(update int) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended >= update {
		return nil
	}
	return t.changed
}

// expect forgets versions that are no longer in use, and wakes the goroutine that tries the new
// ones.
func (t *tries) expect(versions []*version) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := make(map[*version]tried, len(versions))
	for _, v := range versions {
		if result, ok := t.results[v]; ok {
			kept[v] = result
		}
	}
	t.results = kept
	t.expected++
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// state returns the state of a version, with the findings about it.
func (t *tries) state(v *version) rule.State {
	s := v.state()
	if !s.Admission {
		s.Unserved = t.unserved
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	result, ok := t.results[v]
	if !ok {
		s.Untried = !t.none && v.tryable()
		return s
	}
	if v.suspended != "" {
		// A mistake keeps it from being in force again, as it keeps a policy from being written. Else it decides nothing.
		result.Problems = rule.Errors(rule.Written(result.Problems))
		s.Compiled = s.Compiled && len(result.Problems) == 0
	}
	s.Problems = slices.Concat(s.Problems, result.Problems, result.lockout)
	s.NoSuchKind, s.MatchesNothing = result.NoSuchKind, result.MatchesNothing
	return s
}

// due reports whether a version has to be tried: the first time, or again because kinds and rights may
// have changed.
func (t *tries) due(v *version, again bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	result, ok := t.results[v]
	return !ok || again && result.Unsettled
}

// outdated reports whether a version was tried by schemas that have changed since: a definition may have been edited
// that the policy is about.
func (t *tries) outdated(ctx context.Context, by *trial.Trial, v *version) bool {
	t.mu.Lock()
	result := t.results[v]
	t.mu.Unlock()
	reading, cancel := context.WithTimeout(ctx, compile.LongestTrial)
	defer cancel()
	return by.Outdated(reading, &result.Report)
}

// put keeps a result. It reports whether it is the first one, or says something else than the one before.
func (t *tries) put(v *version, result tried) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	before, ok := t.results[v]
	t.results[v] = result
	return !ok || !result.Same(before.Report)
}

// tryStored tries policies that are in force, until ctx is done.
func (l *Live) tryStored(ctx context.Context) {
	ticker := time.NewTicker(tryAgain)
	defer ticker.Stop()
	for {
		again := false
		select {
		case <-ctx.Done():
			return
		case <-l.tries.wake:
		case <-ticker.C:
			again = true
		}
		update, changed, published := l.tries.begin(), false, time.Now()
		for _, v := range l.tryable() {
			if ctx.Err() != nil || !l.tries.due(v, again) && (!again || !l.tries.outdated(ctx, l.options.Stored, v)) {
				continue
			}
			found := l.tries.lockedOut(ctx, v, l.try(ctx, v), l.options.Lockout)
			if ctx.Err() != nil {
				return // It found that there was no time for it.
			}
			changed = l.tries.put(v, found) || changed
			if changed && time.Since(published) > publishEvery {
				// Nobody waits for the policies of others.
				l.publishTries()
				changed, published = false, time.Now()
			}
		}
		if changed {
			l.publishTries()
		}
		if ctx.Err() == nil {
			l.tries.end(update)
		}
	}
}

// WaitTried blocks until the policies that are in force now have been tried, if sources' policies are
// tried at all, and [Live.Policies] has the findings. Its errors are those of [Live.WaitLoaded], and that
// of ctx.
func (l *Live) WaitTried(ctx context.Context) error {
	if err := l.WaitLoaded(ctx); err != nil || l.options.Stored == nil {
		return err
	}
	update := l.tries.begin()
	for {
		changed := l.tries.until(update)
		if changed == nil {
			return nil
		}
		select {
		case <-changed:
		case <-l.ended:
			return cmp.Or(l.runErr, errEnded)
		case <-ctx.Done():
			return fmt.Errorf("wait until policies are tried: %w", context.Cause(ctx))
		}
	}
}

var errEnded = errors.New("policies are no longer followed")

// try tries one version: where it can be stopped, if there is such a place, and then here.
func (l *Live) try(ctx context.Context, v *version) trial.Report {
	if checker := l.options.Compile.Checker; checker != nil {
		checking, cancel := context.WithTimeout(ctx, settleTimeout)
		problem := checker.Check(checking, v.newest.Policy, compile.Trying).Problem
		cancel()
		if problem != (rule.Problem{}) {
			problem.Severity = rule.Warning
			return trial.Report{Problems: []rule.Problem{v.newest.Place(problem)}, Unsettled: problem.Pending}
		}
	}
	trying, cancel := context.WithTimeout(ctx, compile.LongestTrial)
	defer cancel()
	found := l.options.Stored.Try(trying, v.newest)
	found.Problems = append(found.Problems, found.Late(&v.newest)...)
	return found
}

// lockedOut adds which requests without which the cluster cannot recover a version of a policy of the cluster refuses.
// Policies of namespaces do not keep it from that. One in which a mistake was found is not tried, as when it is written.
func (t *tries) lockedOut(ctx context.Context, v *version, found trial.Report, o *lockout.Options) tried {
	t.mu.Lock()
	known, ok := t.results[v]
	t.mu.Unlock()
	result := tried{found, known.lockout}
	if ok || o == nil || v.newest.Ref.Namespace != "" || len(rule.Errors(rule.Written(found.Problems))) > 0 {
		return result
	}
	trying, cancel := context.WithTimeout(ctx, compile.LongestTrial)
	defer cancel()
	// What there is no time for is not told: usher check --lockout takes its time.
	result.lockout, _ = lockout.Warnings(trying, v.newest, *o)
	return result
}

// tryable returns the versions that compile: the first of each namespace, then the second, and so on.
func (l *Live) tryable() []*version {
	l.updating.Lock()
	defer l.updating.Unlock()
	var versions []*version
	for _, v := range l.known {
		if v.tryable() {
			versions = append(versions, v)
		}
	}
	slices.SortFunc(versions, func(a, b *version) int { return cmp.Compare(a.newest.Ref.String(), b.newest.Ref.String()) })
	return turns.Of(versions, len(versions), func(v **version) string { return (*v).newest.Ref.Namespace })
}

// publishTries replaces the states of policies: the rules stay as they are.
func (l *Live) publishTries() {
	l.updating.Lock()
	defer l.updating.Unlock()
	next := *l.current.Load()
	if next.status.Generation == 0 {
		return
	}
	next.policies = slices.Clone(next.policies)
	for i := range next.policies {
		if v := l.known[next.policies[i].Policy]; v != nil && !next.policies[i].Surplus {
			before := problemSet(next.policies[i].Problems)
			next.policies[i] = l.tries.state(v)
			for _, p := range next.policies[i].Problems {
				if !before[p] {
					logProblem(l.options.Log, p, next.status)
				}
			}
		}
	}
	l.current.Store(&next)
	if l.options.OnUpdate != nil {
		l.options.OnUpdate(next.status)
	}
}
