// Package candidate evaluates policy candidates beside the policies in force, after requests have been
// answered: nobody waits for them, and nothing that they do has an effect.
package candidate

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/audit/queue"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/engine"
	authzengine "github.com/usher-dev/usher/internal/engine/authz"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/overrun"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/turns"
)

// Options configure an [Evaluator]. The zero value works, without facts.
type Options struct {
	Facts fact.Resolver
	// Engine configures the engines. Overruns is not used: programs of a candidate that do not end are
	// no reason to suspend those of the policy that it replaces.
	Engine engine.Options
	// Access configures the engines for requests to authorize, like Engine; nil if this process authorizes no
	// requests, so that candidates for authorization policies are not evaluated.
	Access *authzengine.Options
	// Foreign says that API servers enforce the admission policies of Kubernetes: exemptions do not
	// apply to them.
	Foreign bool
	// Differs, which may be nil, gets each decision that differs, one after the other. It must not wait, nor change
	// what it gets.
	Differs func(*rule.CandidateDifference)
	// Hold takes memory for requests that wait, without waiting for it, and returns what releases it;
	// nil takes none.
	Hold func(bytes int64) (release func(), ok bool)
	// Log gets evaluations that do not end; nil discards them.
	Log *slog.Logger
}

// An Evaluator evaluates candidates. It is safe for concurrent use.
type Evaluator struct {
	options Options
	current atomic.Pointer[set]
	// cluster evaluates those of the cluster, tenants those of namespaces.
	cluster, tenants *lane
	// differs is held while Options.Differs is called.
	differs sync.Mutex
}

// A set has the candidates at one time. It is immutable.
type set struct {
	all []*compared
	// cluster are those for all namespaces, and namespaces the others.
	cluster    []*compared
	namespaces map[string][]*compared
	// index has the rules of all: most requests concern none.
	index  *index.Index
	access access
}

// New returns an Evaluator without candidates.
func New(o Options) *Evaluator {
	e := &Evaluator{options: o}
	e.cluster = e.lane(&lane{share: 0.5, timeout: 2 * time.Second})
	e.tenants = e.lane(&lane{share: 0.25, timeout: 500 * time.Millisecond, tenants: true})
	e.current.Store(&set{})
	return e
}

func (e *Evaluator) lane(l *lane) *lane {
	l.overruns = overrun.New(overrun.Options{Idle: 1, Log: e.options.Log})
	l.hold, l.ready, l.turns = e.options.Hold, queue.NewSignal(), map[string]*turn{}
	return l
}

// laneOf returns the lane of a candidate of a namespace.
func (e *Evaluator) laneOf(namespace string) *lane {
	if namespace == "" {
		return e.cluster
	}
	return e.tenants
}

// Update replaces the candidates, and the policies in force with which they are compared. elsewhere returns
// those that API servers enforce; it is called if candidates are about such policies. One that is
// unchanged, and compared with the same versions, goes on counting; one of the cluster also if others of tenants have changed. Decisions by these policies in force are to be
// passed to offer.
func (e *Evaluator) Update(inForce []compile.Compiled, elsewhere func() []compile.Compiled) (offer Offer) {
	next := e.next(inForce, elsewhere)
	e.current.Store(next)
	return func(r *usher.Request, d *usher.Decision) { e.offer(r, d, next) }
}

func (e *Evaluator) next(inForce []compile.Compiled, elsewhere func() []compile.Compiled) *set {
	var candidates []compile.Compiled
	for i := range inForce {
		if inForce[i].Candidate != nil {
			candidates = append(candidates, inForce[i])
		}
	}
	last := e.current.Load()
	if len(candidates) == 0 {
		return &set{}
	}
	if slices.ContainsFunc(candidates, isAboutForeign) {
		inForce = slices.Concat(inForce, elsewhere())
	}
	base := compile.NewBase(inForce, e.options.Foreign)
	known := make(map[usher.PolicyRef]*compared, len(last.all))
	for _, c := range last.all {
		known[c.of.Ref] = c
	}
	next := &set{namespaces: map[string][]*compared{}}
	var rules []rule.Rule
	candidates = inTurns(candidates)
	for i := range candidates {
		if i >= Most {
			next.all = append(next.all, surplus(&candidates[i]))
			continue
		}
		beside := base.With(candidates[i].Candidate)
		c := known[candidates[i].Ref]
		if c == nil || !c.holds(&candidates[i], beside) {
			last := c
			c = e.compare(&candidates[i], beside)
			c.goesOn(last)
		}
		next.all = append(next.all, c)
		rules = append(rules, c.rules...)
		if namespace := c.of.Ref.Namespace; namespace != "" {
			next.namespaces[namespace] = append(next.namespaces[namespace], c)
			continue
		}
		next.cluster = append(next.cluster, c)
	}
	next.index = index.New(rules)
	next.access = e.accessOf(next.all, inForce)
	return next
}

// Most limits the candidates that are evaluated.
const Most = 256

// inTurns returns candidates in the order in which they are chosen: those of the cluster, then the oldest of
// each namespace, then the second, and so on. All replicas choose the same.
func inTurns(all []compile.Compiled) []compile.Compiled {
	slices.SortFunc(all, func(a, b compile.Compiled) int {
		older, younger := a.Policy.Object.GetCreationTimestamp(), b.Policy.Object.GetCreationTimestamp()
		return cmp.Or(older.Compare(younger.Time), cmp.Compare(a.Ref.String(), b.Ref.String()))
	})
	namespace := func(c *compile.Compiled) string { return c.Ref.Namespace }
	var cluster, own []compile.Compiled
	for _, c := range all {
		if namespace(&c) == "" {
			cluster = append(cluster, c)
			continue
		}
		own = append(own, c)
	}
	return append(cluster, turns.Of(own, len(own), namespace)...)
}

// isAboutForeign reports whether a candidate is about policies that API servers may enforce.
func isAboutForeign(c compile.Compiled) bool {
	foreign := func(name string) bool {
		kind, ok := api.KindCalled(name)
		return ok && kind.Foreign
	}
	return foreign(c.Candidate.Replaces.Kind) || slices.ContainsFunc(c.Candidate.Policies, func(p compile.Compiled) bool {
		return foreign(p.Ref.Kind) || p.Exemption != nil && slices.ContainsFunc(p.Exemption.Policies, func(of rule.ExemptPolicy) bool { return foreign(of.Kind) })
	})
}

// Coverage returns which requests the candidates are for: those for all namespaces, and those of single
// namespaces.
func (e *Evaluator) Coverage() *rule.CandidateCoverage {
	s := e.current.Load()
	if len(s.all) == 0 {
		return nil
	}
	of := func(candidates []*compared) rule.Coverage {
		var rules []rule.Rule
		for _, c := range candidates {
			rules = append(rules, c.rules...)
		}
		return rule.Cover(rules)
	}
	c := &rule.CandidateCoverage{Cluster: of(s.cluster)}
	var own []*compared
	for _, namespace := range slices.Sorted(maps.Keys(s.namespaces)) {
		c.Namespaces = append(c.Namespaces, namespace)
		own = append(own, s.namespaces[namespace]...)
	}
	c.Namespaced = of(own)
	return c
}

// States returns what was counted of each candidate.
func (e *Evaluator) States() []rule.CandidateState {
	s := e.current.Load()
	states := make([]rule.CandidateState, len(s.all))
	for i, c := range s.all {
		states[i] = c.state()
		states[i].NotEffective = cmp.Or(states[i].NotEffective, e.laneOf(c.of.Ref.Namespace).stuckFor(c.of.Ref))
	}
	return states
}

// Overruns returns the evaluations of candidates that have not ended in time.
func (e *Evaluator) Overruns() overrun.State {
	state, own := e.cluster.overruns.State(), e.tenants.overruns.State()
	return overrun.State{Overruns: state.Overruns + own.Overruns, Late: append(state.Late, own.Late...)}
}

// concerning returns the candidates of a lane that may have something to say about a request.
func (s *set) concerning(r *usher.Request, in *lane) []*compared {
	if r.Phase == usher.Authorize {
		return s.access.concerning(r, in)
	}
	at, _ := rule.ParseEntry(r.Entry)
	all := s.cluster
	switch {
	case s.index == nil || !s.index.MayMatch(r):
		return nil
	case in.tenants && (at.Part == rule.Candidates || r.Namespace == ""), !in.tenants && at.Part == rule.TenantCandidates:
		return nil
	case in.tenants:
		all = s.namespaces[r.Namespace]
	}
	if len(s.all) == 1 {
		// The index is that of the only one.
		return all
	}
	var some []*compared
	for _, c := range all {
		if c.index.MayMatch(r) {
			some = append(some, c)
		}
	}
	return some
}

// Waiting returns how many bytes of requests wait, or are being evaluated.
func (e *Evaluator) Waiting() int64 {
	var bytes int64
	for _, l := range []*lane{e.cluster, e.tenants} {
		l.mu.Lock()
		bytes += l.bytes
		l.mu.Unlock()
	}
	return bytes
}
