// Package store has what an audit knows of the objects of a cluster: of each its name and its projection,
// which is the part that rules read, as text, and for each projection the results of the policies. Objects
// with the same projection share it.
//
// It queues the projections whose results may have changed, and limits the memory of all that is kept.
package store

import (
	"cmp"
	"crypto/rand"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/audit/queue"
	"github.com/usher-dev/usher/internal/audit/result"
)

// Options configure a [Store].
type Options struct {
	// Memory limits what is kept, in bytes.
	Memory int64
	// Secrets keeps what rules read of the data of Secrets.
	Secrets bool
	// Results limits the results that are listed for a namespace. All are counted.
	Results int
}

// A Queue has the projections to judge, by kind and namespace.
type Queue = queue.Queue[*Kind, *namespace, *Projection]

// NewQueue returns an empty queue.
func NewQueue() *Queue { return queue.New[*Kind, *namespace, *Projection]() }

// A Store has one lock, which guards its kinds and all that these have. It is safe for concurrent use. Use
// [New].
type Store struct {
	options Options
	queue   *Queue
	// salt makes digests differ between processes: they are computed of what may be secret.
	salt        [16]byte
	seed        maphash.Seed
	rescheduled queue.Signal

	mu sync.Mutex
	// epoch counts changes of policies.
	epoch  uint64
	byKind map[result.Kind]*Kind
	// kinds are sorted.
	kinds   []*Kind
	memory  memory
	pool    *pool
	changes changes
	facts   factLog
	retries retries
	// evaluations counts judged projections.
	evaluations uint64
	counted     counted
	// judgements and buffer are used again.
	judgements []judgement
	buffer     []byte
}

// New returns a Store without kinds, which adds to a queue what has to be judged.
func New(q *Queue, o Options) *Store {
	s := &Store{
		options: o, queue: q, seed: maphash.MakeSeed(), rescheduled: queue.NewSignal(), byKind: map[result.Kind]*Kind{},
		memory: memory{limit: o.Memory, namespaces: map[string]*namespace{}}, changes: newChanges(),
	}
	s.pool = newPool(&s.memory)
	// It never fails.
	_, _ = rand.Read(s.salt[:])
	return s
}

// Kind returns the state of a kind, made with a plan if necessary. It must not run at the same time as
// [Store.Follow].
func (s *Store) Kind(of result.Kind, plan *judge.Plan) *Kind {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.byKind[of]
	if k == nil {
		k = &Kind{
			store: s, of: of, policies: policies{view: &view{}}, partitions: map[string]*partition{}, uids: uids{},
			projections: map[digest]*Projection{},
		}
		s.byKind[of] = k
		s.kinds = append(s.kinds, k)
		slices.SortFunc(s.kinds, func(a, b *Kind) int { return cmp.Compare(a.String(), b.String()) })
		k.follow(plan, nil)
	}
	return k
}

// Remove forgets a kind, with its results. Its methods do nothing from then on.
func (s *Store) Remove(of result.Kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.byKind[of]
	if k == nil {
		return
	}
	k.clear()
	k.removed = true
	delete(s.byKind, of)
	s.kinds = slices.DeleteFunc(s.kinds, func(other *Kind) bool { return other == k })
	s.touch("")
}

// Follow replaces the plans of all kinds, and has objects judged again by policies that are new or have
// changed. Calls must not overlap.
func (s *Store) Follow(plan func(result.Kind) *judge.Plan, changed []usher.PolicyRef) {
	s.mu.Lock()
	kinds := slices.Clone(s.kinds)
	s.mu.Unlock()
	// Making plans takes long.
	plans := make([]*judge.Plan, len(kinds))
	for i, k := range kinds {
		plans[i] = plan(k.of)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
	for i, k := range kinds {
		if !k.removed {
			k.follow(plans[i], changed)
		}
	}
	s.rescheduled.Send()
}

// Expire has all objects judged again by policies whose exemptions have expired.
func (s *Store) Expire(policies []usher.PolicyRef) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
	for _, k := range s.kinds {
		if !k.policies.renew(policies, s.epoch) {
			continue
		}
		for _, p := range k.all {
			p.enqueue(p.owner, queue.Low)
		}
	}
}

// FactChanged has objects judged again for which policies used objects of a kind as facts: the object with
// a name, or all of a namespace if name is empty, or all of the kind if both are.
func (s *Store) FactChanged(of schema.GroupVersionKind, namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change := factUse{group: of.Group, kind: of.Kind, namespace: namespace, name: name}
	s.facts.add(change)
	matches := map[*factSet]bool{}
	for _, k := range s.kinds {
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
				p.enqueue(p.owner, queue.Low)
			case p.seen == s.facts.seq-1:
				p.seen = s.facts.seq
			}
		}
	}
}

// Rescheduled returns a channel that has a value if [Store.Due] may return a shorter time than before.
func (s *Store) Rescheduled() <-chan struct{} { return s.rescheduled }

// Due returns the kinds that are to be read once more now, each once until that begins, and how long until
// something else is due, if that is less than wait. It queues what could not be judged before, when it is
// time.
func (s *Store) Due(now time.Time, wait time.Duration) (reread []result.Kind, next time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.kinds {
		if k.omitted > 0 && !k.reading.returns.After(now) && s.memory.below(sparePercent) {
			k.request()
		}
		due, after := k.reading.due(now)
		if due {
			reread = append(reread, k.of)
		} else if after > 0 {
			wait = min(wait, after)
		}
	}
	if after := s.retry(now); after > 0 {
		wait = min(wait, after)
	}
	return reread, wait
}

const (
	// firstRetry and lastRetry are the pauses before what failed because of a fact is judged again.
	firstRetry = time.Minute
	lastRetry  = 30 * time.Minute
)

// retries are what failed although it had facts: one that cannot be read may be readable later, and
// nobody may say so.
type retries struct {
	waiting map[*Projection]bool
	at      time.Time
	pause   time.Duration
}

func (r *retries) add(p *Projection, now time.Time) {
	if r.waiting == nil {
		r.waiting = map[*Projection]bool{}
	}
	if len(r.waiting) == 0 {
		if now.Sub(r.at) > lastRetry {
			r.pause = 0
		}
		r.pause = min(max(2*r.pause, firstRetry), lastRetry)
		r.at = now.Add(r.pause)
	}
	r.waiting[p] = true
}

// retry has what failed judged again, if it is time, and returns how long that is to wait otherwise; 0 if
// nothing has failed.
func (s *Store) retry(now time.Time) time.Duration {
	r := &s.retries
	if len(r.waiting) > 0 && r.at.After(now) {
		return r.at.Sub(now)
	}
	for p := range r.waiting {
		if p.refs > 0 && p.uncertain && !p.kind().removed {
			p.again = true
			p.enqueue(p.owner, queue.Low)
		}
	}
	r.waiting = nil
	return 0
}

// hashName returns a hash of a name. Nobody can find two names with the same one: the seed is secret.
func (s *Store) hashName(name string) uint64 { return maphash.String(s.seed, name) }
