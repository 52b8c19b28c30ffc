// Package live keeps an engine current: it gets policies from sources, compiles them when they
// change, and enforces them from the next request on.
//
// It never stops deciding. If a policy does not compile, its last good version stays in force. If a
// file cannot be read, its last policies stay in force. [Status] and the log report what is wrong.
package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/candidate"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/compile/guard"
	"github.com/usher-dev/usher/internal/engine"
	authzengine "github.com/usher-dev/usher/internal/engine/authz"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/overrun"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/trial"
	"github.com/usher-dev/usher/internal/trial/lockout"
	"github.com/usher-dev/usher/source"
)

// ErrNotLoaded is the error of Decide before every source has handed over its policies.
var ErrNotLoaded = errors.New("policies not loaded yet")

// Options configure a [Live]. The zero value works, without facts and without a log.
type Options struct {
	Facts  fact.Resolver
	Engine engine.Options
	// Access configures the engine for authorization requests.
	Access authzengine.Options
	// May answers whether a user is allowed a request, so that writers of policies need the rights
	// that the policies give; nil disables that check. Places finds the resources of kinds. See
	// [guard.Options].
	May    guard.Asker
	Places guard.Places
	// Proofs makes and checks the proofs of policies that are written; nil does neither. Sources
	// check the proofs of stored policies.
	Proofs guard.Proofs
	// Compile configures where policies are compiled and where their programs run.
	Compile compile.Options
	// CompileTimeout is how long the first update may wait for policies to be compiled, by default 20 s.
	// Until a policy is compiled, every evaluation of it fails, and the failure policy applies.
	CompileTimeout time.Duration
	// Trial tries policies when they are written; nil tries them without a cluster. See
	// [trial.Trial].
	Trial func(context.Context, compile.Compiled) []rule.Problem
	// Existing returns what to warn of when a policy of the cluster is written, about objects that
	// exist; nil disables that. See [guard.Options].
	Existing func(context.Context, compile.Compiled) []rule.Problem
	// Stored tries the policies of sources, and adds the findings to their states; nil disables
	// that.
	Stored *trial.Trial
	// Lockout says how the requests reach Usher without which a cluster cannot recover, so that Stored tries the
	// policies of the cluster on them, too; nil disables that.
	Lockout *lockout.Options
	// KeepSpecs leaves specs of policies as they are written. See [guard.Options].
	KeepSpecs bool
	// Candidates configures how policy candidates are evaluated; nil means that they are not.
	Candidates *Candidates
	// Unserved says why nobody can ask for authorization here, so that authorization policies have no effect; "" if
	// somebody can.
	Unserved string
	// Quota limits the policies of each namespace.
	Quota Quota
	// LongestExemption limits how far ahead exemptions may end when they are written; 0 means no
	// limit.
	LongestExemption time.Duration
	// Log gets one record for each update that changes something, and one for each problem that
	// appears or disappears.
	Log *slog.Logger
	// OnUpdate, if set, is called after each update that changes something, when it is already in
	// force; calls do not overlap.
	OnUpdate func(Status)
}

// Live is an [usher.Decider] whose policies follow their sources. Use [New].
type Live struct {
	inForce

	options Options
	// loaded is closed when the first policies are in force, ended when Run has returned runErr.
	loaded, ended chan struct{}
	runErr        error

	updating sync.Mutex
	sources  []source.Source
	sets     []*merged
	known    map[usher.PolicyRef]*version
	unused   []rule.State
	// elsewhere are the policies that API servers enforce.
	elsewhere []api.Policy
	others    others
	lengths   lengths
	tally     *tally
	index     *index.Index
	settler   *settler
	tries     *tries
	params    *params
	uses      *uses
	// judged is when it was last found out which exemptions are expired.
	judged time.Time
}

// InForce is what decides now. It may be read while it is replaced.
type inForce struct {
	current atomic.Pointer[snapshot]
	// candidates is nil if candidates are not evaluated.
	candidates *candidate.Evaluator
}

// A snapshot is the state at one time. It is immutable and replaced as a whole.
type snapshot struct {
	decider  usher.Decider
	entries  *engine.Entries // nil before the first policies
	rules    []rule.Rule
	access   *authzengine.Engine
	coverage rule.Coverage
	policies []rule.State
	status   Status
	// exemptions are those of the policies that are stored, without their uses.
	exemptions []rule.ExemptionState
	// enforced are the policies in force, elsewhere those that API servers enforce.
	enforced  []compile.Compiled
	elsewhere []api.Policy
}

// New returns a Live without policies; Run loads them.
func New(o Options) *Live {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Engine.Overruns == nil {
		o.Engine.Overruns = overrun.New(overrun.Options{Log: o.Log})
	}
	if o.Access.Overruns == nil {
		o.Access.Overruns = o.Engine.Overruns
	}
	if o.CompileTimeout <= 0 {
		o.CompileTimeout = 20 * time.Second
	}
	if o.Trial == nil {
		o.Trial = lockout.With(trial.New(trial.Options{Overruns: o.Engine.Overruns}).Problems, lockout.Options{})
	}
	if o.Compile.Slots == nil {
		o.Compile.Slots = make(chan struct{}, max(runtime.GOMAXPROCS(0)/2, 1))
	}
	if o.Engine.Now == nil {
		o.Engine.Now = time.Now
	}
	o.Quota = o.Quota.withDefaults()
	l := &Live{options: o, known: map[usher.PolicyRef]*version{}, settler: newSettler(), tries: newTries(o.Stored, o.Unserved), params: newParams(), uses: newUses()}
	l.tally = &tally{quota: o.Quota, now: o.Engine.Now, admitted: map[group]map[string]admission{}}
	l.candidates = newCandidates(&o)
	l.loaded, l.ended = make(chan struct{}), make(chan struct{})
	l.current.Store(&snapshot{decider: usher.DeciderFunc(notLoaded)})
	return l
}

func notLoaded(context.Context, *usher.Request) (usher.Decision, error) {
	return usher.Decision{}, ErrNotLoaded
}

// Decide decides by the policies that are in force when it is called, even if they change
// meanwhile. Its error is [ErrNotLoaded] until every source has handed over its policies.
//
// A request that names an entry is decided by the rules that belong to it.
func (f *inForce) Decide(ctx context.Context, r *usher.Request) (usher.Decision, error) {
	return f.current.Load().decider.Decide(ctx, r)
}

// WaitLoaded blocks until every source has handed over its policies, and these are in force. If Run
// ends before, WaitLoaded returns its error; if ctx is done, an error that wraps [ErrNotLoaded], and says
// why sources have nothing to hand over, if they have a method Unread.
func (l *Live) WaitLoaded(ctx context.Context) error {
	var err error
	select {
	case <-l.loaded:
	case <-l.ended:
		err = cmp.Or(l.runErr, ErrNotLoaded)
	case <-ctx.Done():
		err = fmt.Errorf("%w: %w", ErrNotLoaded, context.Cause(ctx))
		if reason := unread(l); reason != nil {
			err = fmt.Errorf("%w: %w", err, reason)
		}
	}
	if l.Status().Generation > 0 {
		return nil
	}
	return err
}

// unread returns why sources have not handed over their policies, as far as they say so.
func unread(l *Live) error {
	l.updating.Lock()
	defer l.updating.Unlock()
	var all []error
	for i, s := range l.sources {
		if says, ok := s.(interface{ Unread() error }); ok && l.sets[i] == nil {
			all = append(all, says.Unread())
		}
	}
	return errors.Join(all...)
}

// Status returns the current status.
func (f *inForce) Status() Status { return f.current.Load().status }

// Rules returns the rules in force, in evaluation order. They are shared: do not change them.
func (f *inForce) Rules() []rule.Rule { return f.current.Load().rules }

// RulesAt returns those of Rules that belong to an entry; all if the name is empty.
func (f *inForce) RulesAt(entry string) []rule.Rule {
	current := f.current.Load()
	if current.entries == nil {
		return nil
	}
	return current.entries.Rules(entry)
}

// AskedAt returns the name of the entry of a request, "other" if no rule in force belongs to it.
// Again reports whether the request is counted at another entry.
func (f *inForce) AskedAt(r *usher.Request) (entry string, again bool) {
	current := f.current.Load()
	if current.entries == nil || !current.entries.Known(r.Entry) {
		return "other", false
	}
	return cmp.Or(r.Entry, string(r.Phase)), current.coverage.Again(r)
}

// Coverage returns which requests the rules in force need. It is shared: do not change it.
func (f *inForce) Coverage() rule.Coverage { return f.current.Load().coverage }

// Access returns the engine that decides authorization requests by the policies in force; nil until
// every source has handed over its policies.
func (f *inForce) Access() *authzengine.Engine { return f.current.Load().access }

// Policies returns the state of each policy. They are shared: do not change them.
func (f *inForce) Policies() []rule.State { return f.current.Load().policies }

// Run follows sources until ctx is done, when it returns nil, or one of them fails. Nothing is
// enforced before each has handed over its policies once. If two sources have a policy of the same
// kind, namespace and name, that of the earlier argument is used. Call Run once.
func (l *Live) Run(ctx context.Context, sources ...source.Source) error {
	defer close(l.ended)
	l.runErr = l.follow(ctx, sources)
	return l.runErr
}

func (l *Live) follow(ctx context.Context, sources []source.Source) error {
	l.updating.Lock()
	l.sources, l.sets = sources, make([]*merged, len(sources))
	l.updating.Unlock()
	var settling sync.WaitGroup
	defer settling.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	settling.Go(func() { l.settle(ctx) })
	if l.options.Stored != nil {
		settling.Go(func() { l.tryStored(ctx) })
	}
	if l.options.Facts != nil {
		settling.Go(func() { l.readParams(ctx) })
	}
	settling.Go(func() { l.expire(ctx) })
	if l.candidates != nil {
		settling.Go(func() { l.candidates.Run(ctx) })
	}
	if len(sources) == 0 {
		l.update(nil)
	}
	group, following := errgroup.WithContext(ctx)
	for i, s := range sources {
		group.Go(func() error {
			return s.Run(following, func(set source.Set) {
				l.load(following, i, set)
			})
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("follow policies: %w", err)
	}
	<-ctx.Done()
	return nil
}

// load puts a set of the source with this index into force. What is in force is not locked while
// its policies are compiled.
func (l *Live) load(ctx context.Context, index int, set source.Set) {
	l.updating.Lock()
	sets := slices.Clone(l.sets)
	l.updating.Unlock()
	sets[index] = merge(sets[index], set)
	l.prepare(ctx, sets)
	if ctx.Err() != nil {
		return // What was not compiled for that reason is no problem of its policy.
	}
	l.updating.Lock()
	defer l.updating.Unlock()
	l.sets[index] = sets[index]
	l.update(l.sets)
}

// update replaces the snapshot if the sets lead to another state.
func (l *Live) update(sets []*merged) {
	for _, set := range sets {
		if set == nil {
			return
		}
	}
	start := time.Now()
	last := l.current.Load()
	next := l.build(sets)
	if !next.changed {
		return
	}
	next.status.Generation = last.status.Generation + 1
	next.status.Since = start
	l.current.Store(&next.snapshot)
	if last.status.Generation == 0 {
		close(l.loaded)
	}
	report(l.options.Log, last.status, next.status, time.Since(start))
	if l.options.OnUpdate != nil {
		l.options.OnUpdate(next.status)
	}
}
