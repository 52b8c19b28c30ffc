// Package audit keeps current what the policies in force say about the objects of a cluster.
//
// It keeps no object. Of each it has its name, and which part its rules read, as text: objects with
// the same part are judged once. Results follow the objects, the policies, the facts that rules used
// and the ends of exemptions, within bounds of memory and CPU.
package audit

import (
	"cmp"
	"context"
	"crypto/rand"
	"hash/maphash"
	"log/slog"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/compile"
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
	Log    *slog.Logger
}

// workers is how many objects are judged at once: one that waits for a fact must not stop all.
const workers = 2

// An Auditor judges the objects that its sinks get. It is a [result.Reader], and safe for concurrent
// use. Use [New].
type Auditor struct {
	options Options
	pacer   *pacer
	// salt makes digests differ between processes: they are computed of what may be secret.
	salt [16]byte
	seed maphash.Seed
	// wake tells workers that there is work, and clockWake the clock that its times have changed.
	wake, clockWake chan struct{}

	// enforcing is held while policies are prepared, before mu.
	enforcing sync.Mutex

	mu    sync.Mutex
	judge judging
	// epoch counts changes of policies.
	epoch      uint64
	kinds      map[result.Kind]*kind
	ring       []*kind
	namespaces map[string]*namespace
	turn       uint64
	// used is the memory of all that is kept, in bytes; freed is what it was after some was freed last,
	// at freedAt.
	used, freed int64
	freedAt     time.Time
	saids       map[digest]*said
	quiets      map[string]*quiet
	rows        map[string]*row
	factSets    map[digest]*factSet
	lastID      uint64
	// evaluations counts judged projections.
	evaluations uint64
	// scratch and cells are buffers.
	scratch []byte
	cells   []told
	changes changes
	facts   factLog
	retry   retries
}

// New returns an Auditor without policies and objects. Run judges.
func New(o Options) *Auditor { return newAuditor(o, judgeOf(o.Judge)) }

func newAuditor(o Options, j judging) *Auditor {
	if o.Memory <= 0 {
		o.Memory = 64 << 20
	}
	if o.CPU <= 0 {
		o.CPU = 0.5
	}
	if o.Results <= 0 {
		o.Results = 10000
	}
	if o.Reread == nil {
		o.Reread = func(result.Kind) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	a := &Auditor{
		options: o, pacer: &pacer{cores: o.CPU}, judge: j,
		wake: make(chan struct{}, 1), clockWake: make(chan struct{}, 1),
		kinds: map[result.Kind]*kind{}, namespaces: map[string]*namespace{},
		saids: map[digest]*said{}, quiets: map[string]*quiet{}, rows: map[string]*row{}, factSets: map[digest]*factSet{},
		changes: newChanges(), seed: maphash.MakeSeed(),
	}
	// It never fails.
	_, _ = rand.Read(a.salt[:])
	return a
}

// Run judges until ctx is done. Call it once.
func (a *Auditor) Run(ctx context.Context) {
	var running sync.WaitGroup
	for range workers {
		running.Go(func() { a.work(ctx) })
	}
	running.Go(func() { a.clock(ctx) })
	running.Wait()
}

// Enforce replaces the policies. Those that differ are judged for all objects; the results of those
// that are gone go at once.
func (a *Auditor) Enforce(compiled []compile.Compiled) {
	a.replace(func(before judging) (judging, []usher.PolicyRef) { return before.update(compiled) })
}

// Discovered replaces the versions in which objects can be read. Each policy judges the objects of a
// resource in one of them: they have one result for each policy.
func (a *Auditor) Discovered(versions judge.Versions) {
	a.replace(func(before judging) (judging, []usher.PolicyRef) { return before.in(versions), nil })
}

// replace replaces what judges.
func (a *Auditor) replace(by func(before judging) (judging, []usher.PolicyRef)) {
	a.enforcing.Lock()
	defer a.enforcing.Unlock()
	a.mu.Lock()
	before := a.judge
	kinds := slices.Clone(a.ring)
	a.mu.Unlock()
	next, changed := by(before)
	plans := make(map[*kind]plan, len(kinds))
	for _, k := range kinds {
		plans[k] = next.plan(k.of)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.judge = next
	a.epoch++
	for _, k := range a.ring {
		p, known := plans[k]
		if !known {
			p = next.plan(k.of)
		}
		a.follow(k, p, changed)
	}
	a.notify(a.clockWake)
}

// Selects reports whether policies in force are for objects of a kind, and MetadataOnly whether they
// read only their metadata.
func (a *Auditor) Selects(of result.Kind) (selects, metadataOnly bool) {
	a.mu.Lock()
	j := a.judge
	a.mu.Unlock()
	if p := j.plan(of); p != nil {
		return true, p.MetadataOnly()
	}
	return false, false
}

// Unjudged returns the rules in force that judge no objects of any kind, with the reasons. Those that
// judge no objects of a kind that is read are results of the namespace "", too.
func (a *Auditor) Unjudged() []judge.Unjudged {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.judge.Unjudged()
}

// Remove forgets a kind that is gone or that no policy selects, with its results. Its sinks do
// nothing from then on.
func (a *Auditor) Remove(of result.Kind) {
	a.mu.Lock()
	defer a.mu.Unlock()
	k := a.kinds[of]
	if k == nil {
		return
	}
	a.clear(k)
	k.removed = true
	delete(a.kinds, of)
	a.ring = slices.DeleteFunc(a.ring, func(other *kind) bool { return other == k })
	a.touchName("")
}

// FactChanged judges again what used objects of a kind as facts: the object with a name, or all of a
// namespace if name is empty, or all of the kind if both are. Call it when the resolver of facts
// returns the new value already.
func (a *Auditor) FactChanged(of schema.GroupVersionKind, namespace, name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change := factUse{group: of.Group, kind: of.Kind, namespace: namespace, name: name}
	a.facts.add(change)
	matches := map[*factSet]bool{}
	for _, k := range a.ring {
		for _, p := range k.all {
			if p.facts == nil {
				continue
			}
			match, known := matches[p.facts]
			if !known {
				match = p.facts.meets(change)
				matches[p.facts] = match
			}
			switch {
			case match:
				a.enqueue(k, p)
			case p.seen == a.facts.seq-1:
				p.seen = a.facts.seq
			}
		}
	}
}

// kind returns the state of a kind, made if necessary.
func (a *Auditor) kind(of result.Kind) *kind {
	a.enforcing.Lock()
	defer a.enforcing.Unlock()
	a.mu.Lock()
	k, j := a.kinds[of], a.judge
	a.mu.Unlock()
	if k != nil {
		return k
	}
	p := j.plan(of)
	a.mu.Lock()
	defer a.mu.Unlock()
	k = newKind(of)
	a.kinds[of] = k
	a.ring = append(a.ring, k)
	slices.SortFunc(a.ring, func(a, b *kind) int { return cmp.Compare(a.title(), b.title()) })
	a.follow(k, p, nil)
	return k
}

// notify wakes who waits for c.
func (a *Auditor) notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// judging prepares policies: a [judge.Judge].
type judging interface {
	update(compiled []compile.Compiled) (judging, []usher.PolicyRef)
	in(versions judge.Versions) judging
	plan(of result.Kind) plan
	Expiring(after time.Time) (time.Time, []usher.PolicyRef)
	Unjudged() []judge.Unjudged
}

// A plan is what is said about objects of one kind: a [judge.Plan].
type plan interface {
	Paths() *usher.Paths
	MetadataOnly() bool
	Policies() []usher.PolicyRef
	Unjudged() []judge.Unjudged
	Judge(ctx context.Context, object map[string]any, some []usher.PolicyRef) ([]judge.Judgement, error)
}

// judgeTimeout limits the judging of one object, as API servers limit a webhook.
const judgeTimeout = 10 * time.Second
