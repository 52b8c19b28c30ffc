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
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/compile"
	"github.com/usher-dev/usher/compile/guard"
	"github.com/usher-dev/usher/engine"
	authzengine "github.com/usher-dev/usher/engine/authz"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/index"
	authzindex "github.com/usher-dev/usher/index/authz"
	"github.com/usher-dev/usher/rule"
	"github.com/usher-dev/usher/rule/authz"
	"github.com/usher-dev/usher/source"
	"github.com/usher-dev/usher/trial"
	"github.com/usher-dev/usher/trial/lockout"
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
	// Stored tries the policies of sources, and adds the findings to their states; nil disables
	// that.
	Stored *trial.Trial
	// KeepSpecs leaves specs of policies as they are written. See [guard.Options].
	KeepSpecs bool
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
	options Options
	current atomic.Pointer[snapshot]

	updating sync.Mutex
	sets     []*merged
	known    map[usher.PolicyRef]*version
	unused   []rule.State
	// elsewhere are the policies that API servers enforce.
	elsewhere []api.Policy
	others    others
	lengths   lengths
	index     *index.Index
	settler   settler
	tries     *tries
	params    *params
	uses      *uses
	// judged is when it was last found out which exemptions are expired.
	judged time.Time
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
	if o.CompileTimeout <= 0 {
		o.CompileTimeout = 20 * time.Second
	}
	if o.Trial == nil {
		o.Trial = lockout.With(trial.New(trial.Options{}).Problems, lockout.Options{})
	}
	if o.Engine.Now == nil {
		o.Engine.Now = time.Now
	}
	o.Quota = o.Quota.withDefaults()
	l := &Live{options: o, known: map[usher.PolicyRef]*version{}, settler: newSettler(), tries: newTries(), params: newParams(), uses: newUses()}
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
func (l *Live) Decide(ctx context.Context, r *usher.Request) (usher.Decision, error) {
	return l.current.Load().decider.Decide(ctx, r)
}

// Status returns the current status.
func (l *Live) Status() Status { return l.current.Load().status }

// Rules returns the rules in force, in evaluation order. They are shared: do not change them.
func (l *Live) Rules() []rule.Rule { return l.current.Load().rules }

// RulesAt returns those of Rules that belong to an entry; all if the name is empty.
func (l *Live) RulesAt(entry string) []rule.Rule {
	current := l.current.Load()
	if current.entries == nil {
		return nil
	}
	return current.entries.Rules(entry)
}

// AskedAt returns the name of the entry of a request, "other" if no rule in force belongs to it.
// Again reports whether the request is counted at another entry.
func (l *Live) AskedAt(r *usher.Request) (entry string, again bool) {
	current := l.current.Load()
	if current.entries == nil || !current.entries.Known(r.Entry) {
		return "other", false
	}
	return cmp.Or(r.Entry, string(r.Phase)), current.coverage.Again(r)
}

// Coverage returns which requests the rules in force need. It is shared: do not change it.
func (l *Live) Coverage() rule.Coverage { return l.current.Load().coverage }

// Access returns the engine that decides authorization requests by the policies in force; nil until
// every source has handed over its policies.
func (l *Live) Access() *authzengine.Engine { return l.current.Load().access }

// Policies returns the state of each policy. They are shared: do not change them.
func (l *Live) Policies() []rule.State { return l.current.Load().policies }

// Run follows sources until ctx is done, when it returns nil, or one of them fails. Nothing is
// enforced before each has handed over its policies once. If two sources have a policy of the same
// kind, namespace and name, that of the earlier argument is used. Call Run once.
func (l *Live) Run(ctx context.Context, sources ...source.Source) error {
	l.sets = make([]*merged, len(sources))
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
	if len(sources) == 0 {
		l.update(nil)
	}
	group, following := errgroup.WithContext(ctx)
	for i, s := range sources {
		group.Go(func() error {
			return s.Run(following, func(set source.Set) {
				l.updating.Lock()
				defer l.updating.Unlock()
				l.sets[i] = merge(l.sets[i], set)
				l.update(l.sets)
			})
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("follow policies: %w", err)
	}
	<-ctx.Done()
	return nil
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
	l.report(last.status, next.status, time.Since(start))
	if l.options.OnUpdate != nil {
		l.options.OnUpdate(next.status)
	}
}

type built struct {
	snapshot

	changed bool
}

// build compiles what is new among the policies of sets and builds the new state.
func (l *Live) build(sets []*merged) built {
	known := make(map[usher.PolicyRef]*version, len(l.known))
	c := l.choose(sets)
	versions := l.versions(c.refs, c.policies)
	for i, v := range versions {
		known[c.refs[i]] = v
	}
	status := Status{Policies: map[string]int{}, Surplus: c.surplus}
	for _, ref := range c.surplus {
		status.Policies[ref.Kind]++
	}
	policies, problems := c.unused, c.problems
	var enforced []compile.Compiled
	all := make([]compile.Compiled, len(versions))
	for i, v := range versions {
		all[i] = v.newest
		problems = append(problems, v.newest.Problems...)
		status.add(v)
		policies = append(policies, l.tries.state(v))
		if v.good != nil {
			enforced = append(enforced, *v.good)
		}
	}
	l.countKnown(&status)
	l.judged = l.options.Engine.Now()
	ineffective := compile.Ineffective(enforced, l.elsewhere, l.judged)
	problems = slices.Concat(problems, l.twice(enforced), compile.Unbound(all), l.params.found(), ineffective)
	rule.SortProblems(problems)
	status.Problems = problems
	last := l.current.Load().status
	changed := last.Generation == 0 || !maps.Equal(l.known, known) || !sameProblems(last.Problems, problems) || !maps.Equal(last.Known, status.Known) ||
		!slices.EqualFunc(l.unused, c.unused, sameObject) || !sameOnes(l.current.Load().elsewhere, l.elsewhere)
	l.known, l.unused = known, c.unused
	l.settler.expect(versions)
	l.tries.expect(versions)
	if !changed {
		return built{}
	}
	l.params.expect(compile.NeedsOf(enforced))
	next := l.enforce(enforced, policies, status, c.usage)
	next.exemptions = exemptionStates(versions, ineffective)
	next.enforced, next.elsewhere = enforced, l.elsewhere
	l.uses.expect(next.exemptions)
	return built{snapshot: next, changed: true}
}

// A choice has the policies of all sources that are used, and the states of the others.
type choice struct {
	refs     []usher.PolicyRef
	policies []api.Policy
	usage    usage
	// unused are the policies that are not used; surplus are those of them above the quota.
	unused   []rule.State
	surplus  []usher.PolicyRef
	problems []rule.Problem
}

// choose omits policies whose name occurs in an earlier source, and those above the quota.
func (l *Live) choose(sets []*merged) *choice {
	c := &choice{}
	first := make(map[usher.PolicyRef]int, len(l.known))
	for _, set := range sets {
		c.problems = append(c.problems, set.problems...)
		for _, policy := range set.policies {
			ref := compile.Ref(policy.Object)
			if i, twice := first[ref]; twice {
				c.leaveOut(ref, policy, duplicate(ref, policy, c.policies[i]))
				continue
			}
			first[ref] = len(c.policies)
			c.refs, c.policies = append(c.refs, ref), append(c.policies, policy)
		}
	}
	var surplus map[int]rule.Problem
	surplus, c.usage, l.lengths = l.options.Quota.apply(c.refs, c.policies, l.lengths)
	if len(surplus) == 0 {
		return c
	}
	refs, policies := c.refs, c.policies
	c.refs, c.policies = nil, nil
	for i, policy := range policies {
		problem, ok := surplus[i]
		if !ok {
			c.refs, c.policies = append(c.refs, refs[i]), append(c.policies, policy)
			continue
		}
		c.leaveOut(refs[i], policy, problem)
		c.unused[len(c.unused)-1].Surplus = true
		c.surplus = append(c.surplus, refs[i])
	}
	return c
}

func (c *choice) leaveOut(ref usher.PolicyRef, policy api.Policy, problem rule.Problem) {
	c.problems = append(c.problems, problem)
	c.unused = append(c.unused, unusedPolicy(ref, policy, problem))
}

// enforce creates engines for compiled policies: one for writes, one for requests to authorize.
func (l *Live) enforce(enforced []compile.Compiled, policies []rule.State, status Status, all usage) snapshot {
	rules, accessRules := compile.Order(enforced), compile.Access(enforced)
	status.Rules = written(rules) + len(accessRules)
	next := snapshot{rules: rules, coverage: rule.Cover(rules), policies: policies, status: status, access: l.judge(accessRules)}
	l.index = index.Update(l.index, rules)
	writes := guard.Wrap(engine.New(l.index, l.options.Facts, l.options.Engine), l.options.guard(all))
	next.entries = engine.NewEntries(rules, next.coverage.Entries(), writes, func(some []rule.Rule) usher.Decider {
		return engine.New(index.New(some), l.options.Facts, l.options.Engine)
	})
	next.decider = usher.DeciderFunc(func(ctx context.Context, r *usher.Request) (usher.Decision, error) {
		if r.Phase == usher.Authorize {
			return next.access.Decide(ctx, r)
		}
		d, err := next.entries.Decide(ctx, r)
		l.uses.count(r, &d)
		return d, err
	})
	return next
}

// guard returns the options for checking written policies: protected users stay protected, without
// other exceptions.
func (o Options) guard(all usage) guard.Options {
	access := o.Access
	access.KillSwitch = nil
	return guard.Options{
		Compile: o.Compile, May: o.May, Proofs: o.Proofs, Places: o.Places,
		Check: func(policy, old api.Object) []rule.Problem { return o.Quota.check(policy, old, all) },
		Judge: func(rules []*authz.Rule) usher.Decider {
			return authzengine.New(authzindex.New(rules), access)
		},
		Trial: o.Trial, KeepSpecs: o.KeepSpecs, LongestExemption: o.LongestExemption,
	}
}

// judge returns the engine for access rules.
func (l *Live) judge(rules []*authz.Rule) *authzengine.Engine {
	return authzengine.New(authzindex.New(rules), l.options.Access)
}
