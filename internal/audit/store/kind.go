package store

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/audit/queue"
	"github.com/usher-dev/usher/internal/audit/result"
)

// A Kind is the objects of a kind. The lock of its store guards it; its exported methods take that, and are
// safe for concurrent use.
type Kind struct {
	store   *Store
	of      result.Kind
	removed bool
	// plan is nil while no policy selects the kind.
	plan *judge.Plan
	// unjudged are the rules of the plan that do not judge objects, in the order of policies.
	unjudged []judge.Unjudged
	policies policies
	reading  reading
	// selection is that of the plan.
	selection *Selection

	partitions  map[string]*partition
	uids        uids
	projections map[digest]*Projection
	all         []*Projection
	// objects and omitted count those that are kept and those that are not; backlog counts those to be
	// judged, blocked the projections that cannot be judged by what is kept of them.
	objects, omitted, backlog, blocked int
	// dropped counts the projections without text; bytes is the text of the others.
	dropped int
	bytes   int64
}

// String names the kind in logs and errors.
func (k *Kind) String() string {
	return k.of.Resource.GroupResource().String() + "/" + k.of.Resource.Version
}

// follow makes a kind follow a plan, and has it judged by the policies that have changed. The caller
// holds the lock.
func (k *Kind) follow(plan *judge.Plan, changed []usher.PolicyRef) {
	before := k.plan
	k.plan, k.unjudged = plan, nil
	if plan == nil {
		if before != nil {
			k.clear()
		}
		return
	}
	k.unjudged = plan.Unjudged()
	slices.SortStableFunc(k.unjudged, func(a, b judge.Unjudged) int { return compareRefs(a.Policy, b.Policy) })
	if gone := k.policies.replace(plan.Policies(), changed, k.store.epoch); gone {
		for name := range k.partitions {
			k.store.touch(name)
		}
	}
	k.extend(plan.Paths())
	if before == nil {
		// What was read while no policy selected the kind was not kept.
		if k.reading.generation > 0 {
			k.request()
		}
		k.store.touch("")
	}
	for _, p := range k.all {
		if p.stale() {
			p.enqueue(p.owner, queue.Low)
		}
	}
}

func compareRefs(a, b usher.PolicyRef) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// extend makes projections from now on have what paths select.
func (k *Kind) extend(paths *usher.Paths) {
	id := uint32(1)
	if e := k.selection; e != nil {
		if paths.Within(e.Paths) && e.Paths.Within(paths) {
			return
		}
		id = e.id + 1
	}
	k.selection = &Selection{kind: k, id: id, Paths: paths.Clone()}
}

// clear forgets the objects of a kind.
func (k *Kind) clear() {
	for _, part := range k.partitions {
		k.store.touch(part.namespace.name)
		for name := range part.objects {
			k.forget(part, name)
		}
		k.omit(part, -len(part.omitted))
		part.omitted = nil
		k.abandon(part)
	}
	if e := k.selection; e != nil {
		e.dictionary, e.misses, e.dictionaries = nil, 0, 0
	}
	k.policies.clear()
	k.reading.done, k.reading.selected = false, false
	k.store.touch("")
}

// request has the kind read once more, when that is due.
func (k *Kind) request() {
	if k.reading.request() {
		k.store.rescheduled.Send()
	}
}

// mayKeep reports whether a text of some size may be kept.
func (k *Kind) mayKeep(size int) bool {
	o := &k.store.options
	return (o.Secrets || !fact.Confidential(k.of.Kind)) && int64(size) <= o.Memory/maxTextShare
}

// state returns how far the audit of the kind has come.
func (k *Kind) state() result.KindState {
	r := &k.reading
	return result.KindState{
		Kind: k.of, Objects: k.objects, Backlog: k.backlog,
		Complete: r.done && !r.active && k.backlog == 0 && r.err == nil,
		Heard:    r.heard, Err: r.err, Since: r.since,
		Projections: len(k.all), Bytes: k.bytes, Dropped: k.dropped, Omitted: k.omitted,
	}
}

// A partition is the objects of a kind in one namespace.
type partition struct {
	namespace *namespace
	objects   map[string]object
	// omitted are hashes of the names of the objects that are not kept, with their generations.
	omitted map[uint64]uint32
}

type object struct {
	uid        [16]byte
	projection *Projection
	// generation is that of the last full read that had the object, or of the one before a change.
	generation uint32
}

// partition returns that of a namespace, made if necessary.
func (k *Kind) partition(name string) *partition {
	part := k.partitions[name]
	if part == nil {
		part = &partition{namespace: k.store.memory.namespace(strings.Clone(name)), objects: map[string]object{}}
		k.partitions[part.namespace.name] = part
		k.store.memory.hold(part.namespace, partitionBytes)
	}
	return part
}

// abandon removes a partition without objects.
func (k *Kind) abandon(part *partition) {
	if len(part.objects) == 0 && len(part.omitted) == 0 && k.partitions[part.namespace.name] == part {
		delete(k.partitions, part.namespace.name)
		k.store.memory.free(part.namespace, partitionBytes)
	}
}

// omit counts objects that are not kept, fewer if n is negative.
func (k *Kind) omit(part *partition, n int) {
	if n == 0 {
		return
	}
	k.omitted += n
	k.store.memory.charge(part.namespace, int64(n)*omittedBytes)
	k.store.touch(part.namespace.name)
	k.store.touch("")
}

// forget removes an object. The caller touches its namespace.
func (k *Kind) forget(part *partition, name string) {
	o, at := part.objects[name], types.NamespacedName{Namespace: part.namespace.name, Name: name}
	delete(part.objects, name)
	delete(k.uids, at)
	k.objects--
	k.store.memory.charge(part.namespace, -objectBytes-int64(len(name)))
	o.projection.leave(part.namespace, at)
}

// sweep forgets the objects of a partition that the full read has not had.
func (k *Kind) sweep(part *partition) {
	swept := false
	for name, o := range part.objects {
		if o.generation != k.reading.generation {
			k.forget(part, name)
			swept = true
		}
	}
	gone := 0
	for hash, generation := range part.omitted {
		if generation != k.reading.generation {
			delete(part.omitted, hash)
			gone++
		}
	}
	k.omit(part, -gone)
	if swept {
		k.store.touch(part.namespace.name)
	}
	k.abandon(part)
}

// Begin notes that all objects are read from now on, from the first one.
func (k *Kind) Begin() {
	k.store.mu.Lock()
	defer k.store.mu.Unlock()
	k.reading.begin(k.plan != nil, time.Now())
}

// End notes that all objects have been read: those that were neither [Kind.Set] nor [Kind.Present] since
// Begin are gone. If only metadata was read, the plan may need more.
func (k *Kind) End(metadata bool) {
	k.store.mu.Lock()
	defer k.store.mu.Unlock()
	for _, part := range k.partitions {
		k.sweep(part)
	}
	complete := k.plan != nil && k.reading.selected && (!metadata || k.plan.MetadataOnly())
	k.reading.end(complete, time.Now())
	k.store.touch("")
	// A policy may have begun to read more meanwhile.
	if k.blocked > 0 || k.plan != nil && !complete {
		k.request()
	}
}

// Heard notes that the API server confirmed that all is current.
func (k *Kind) Heard() {
	k.store.mu.Lock()
	defer k.store.mu.Unlock()
	if k.reading.err != nil && !k.reading.active {
		k.store.touch("")
	}
	k.reading.hear(time.Now())
}

// Fail notes why objects cannot be read for the moment.
func (k *Kind) Fail(err error) {
	k.store.mu.Lock()
	defer k.store.mu.Unlock()
	if k.reading.fail(err, time.Now()) {
		k.store.touch("")
	}
}
