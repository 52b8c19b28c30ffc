// Package audit keeps current what the policies in force say about the objects of a cluster.
//
// It keeps no object. Of each it has its name, and which part its rules read, as text: objects with
// the same part are judged once. Results follow the objects, the policies, the facts that rules used
// and the ends of exemptions, within bounds of memory and CPU.
//
// Sinks hand objects to the store; the store queues what has to be judged; workers judge, and hand the
// judgements to the store.
package audit

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/audit/queue"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/audit/store"
	"github.com/usher-dev/usher/internal/rule"
)

// Options configure an [Auditor]. The zero value works, without facts and without a log.
type Options struct {
	Judge judge.Options
	// Memory limits what the state takes, in bytes; 0 means 64 MiB. Above it, first the parts of
	// objects are no longer kept, so that a changed policy has their kind read once more; then
	// objects of the namespaces that take most are no longer audited, and are counted as errors.
	Memory int64
	// CPU is how many cores judging may take, on average; 0 means half of one.
	CPU float64
	// Secrets keeps what rules read of the data of Secrets. Otherwise a changed policy has them read
	// once more.
	Secrets bool
	// Results limits the results that are listed for a namespace; 0 means 10000. All are counted.
	Results int
	// Reread is called when the objects of a kind have to be read once more, from Begin to End. It
	// must not block. It is called seldom for a kind, and not again until its sink has a Begin.
	Reread func(result.Kind)
	// Did, unless nil, is told of each object before it is judged, and returns a context for that, and a
	// function that is called with the error.
	Did func(ctx context.Context, resource string) (context.Context, func(error))
	Log *slog.Logger
}

// workers is how many objects are judged at once: one that waits for a fact must not stop all.
const workers = 2

// An Auditor judges the objects that its sinks get. It is a [result.Reader], and safe for concurrent
// use. Use [New].
type Auditor struct {
	// The store has the results.
	result.Reader

	options Options
	store   *store.Store
	worker  *worker

	// preparing is held while policies are prepared.
	preparing sync.Mutex
	judge     atomic.Pointer[judge.Judge]
}

// New returns an Auditor without policies and objects. Run judges.
func New(o Options) *Auditor {
	o.Memory, o.CPU, o.Results = cmp.Or(max(o.Memory, 0), 64<<20), cmp.Or(max(o.CPU, 0), 0.5), cmp.Or(max(o.Results, 0), 10000)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Reread == nil {
		o.Reread = func(result.Kind) {}
	}
	q := store.NewQueue()
	s := store.New(q, store.Options{Memory: o.Memory, Secrets: o.Secrets, Results: o.Results})
	a := &Auditor{Reader: s, options: o, store: s, worker: &worker{queue: q, store: s, limiter: queue.NewLimiter(o.CPU), did: o.Did, log: o.Log}}
	a.judge.Store(judge.New(nil, o.Judge))
	return a
}

// Run judges until ctx is done. Call it once.
func (a *Auditor) Run(ctx context.Context) {
	var running sync.WaitGroup
	for range workers {
		running.Go(func() { a.worker.run(ctx) })
	}
	running.Go(func() { a.clock(ctx) })
	running.Wait()
}

// Enforce replaces the policies by those of rules, which are in order of evaluation. Those that differ are judged for all objects; the results of those
// that are gone go at once.
func (a *Auditor) Enforce(rules []rule.Rule) {
	a.preparing.Lock()
	defer a.preparing.Unlock()
	a.replace(a.judge.Load().Update(rules))
}

// Discovered replaces the versions in which objects can be read. Each policy judges the objects of a
// resource in one of them: they have one result for each policy.
func (a *Auditor) Discovered(versions judge.Versions) {
	a.preparing.Lock()
	defer a.preparing.Unlock()
	a.replace(a.judge.Load().WithVersions(versions), nil)
}

func (a *Auditor) replace(next *judge.Judge, changed []usher.PolicyRef) {
	// The clock reads it when the store has followed.
	a.judge.Store(next)
	a.store.Follow(next.Plan, changed)
}

// kind returns the state of a kind, made if necessary.
func (a *Auditor) kind(of result.Kind) *store.Kind {
	a.preparing.Lock()
	defer a.preparing.Unlock()
	return a.store.Kind(of, a.judge.Load().Plan(of))
}

// Selects reports whether policies in force are for objects of a kind, and MetadataOnly whether they
// read only their metadata.
func (a *Auditor) Selects(of result.Kind) (selects, metadataOnly bool) {
	if p := a.judge.Load().Plan(of); p != nil {
		return true, p.MetadataOnly()
	}
	return false, false
}

// Policies returns the policies in force that are for objects of a kind, in order of evaluation.
func (a *Auditor) Policies(of result.Kind) []usher.PolicyRef {
	if p := a.judge.Load().Plan(of); p != nil {
		return p.Policies()
	}
	return nil
}

// Unjudged returns the rules in force that judge no objects of any kind, with the reasons. Those that
// judge no objects of a kind that is read are results of the namespace "", too.
func (a *Auditor) Unjudged() []judge.Unjudged { return a.judge.Load().Unjudged() }

// Remove forgets a kind that is gone or that no policy selects, with its results. Its sinks do
// nothing from then on.
func (a *Auditor) Remove(of result.Kind) { a.store.Remove(of) }

// FactChanged judges again what used objects of a kind as facts: the object with a name, or all of a
// namespace if name is empty, or all of the kind if both are. Call it when the resolver of facts
// returns the new value already.
func (a *Auditor) FactChanged(of schema.GroupVersionKind, namespace, name string) {
	a.store.FactChanged(of, namespace, name)
}

// Stats are figures of an [Auditor], for metrics.
type Stats struct {
	store.Stats

	// CPU is what reading and judging have taken, with time spent waiting for facts.
	CPU time.Duration
}

// Stats returns the figures so far. It goes through all that is kept, and builds no lists.
func (a *Auditor) Stats() Stats { return Stats{a.store.Stats(), a.worker.limiter.Used()} }

// tick is how often the time of day is compared: the clock may be set.
const tick = time.Minute

// clock does what is due at a time, until ctx is done.
func (a *Auditor) clock(ctx context.Context) {
	checked := time.Now()
	for {
		now := time.Now()
		a.expire(checked, now)
		checked = now
		wait := tick
		if ends, _ := a.judge.Load().Expiring(now); !ends.IsZero() {
			wait = min(wait, ends.Sub(now))
		}
		reread, wait := a.store.Due(now, wait)
		for _, of := range reread {
			a.options.Log.Info("the objects of a kind are read once more", "kind", of.Resource.String())
			a.options.Reread(of)
		}
		timer := time.NewTimer(max(wait, time.Millisecond))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-a.store.Rescheduled():
			timer.Stop()
		case <-timer.C:
		}
	}
}

// expire has the policies judged again from which exemptions have ended after one time and until
// another.
func (a *Auditor) expire(after, until time.Time) {
	j := a.judge.Load()
	for {
		ends, policies := j.Expiring(after)
		if ends.IsZero() || ends.After(until) {
			return
		}
		after = ends
		a.store.Expire(policies)
	}
}
