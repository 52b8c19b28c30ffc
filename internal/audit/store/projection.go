package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/audit/queue"
)

// A Projection is what the rules read of one or more objects, and the assessment of it. The store guards
// it.
type Projection struct {
	digest    digest
	selection *Selection
	// text is nil if it is not kept; dictionary is what it is compressed by, nil if it is not.
	text       []byte
	dictionary *dictionary
	// assessment is nil before the projection was judged first.
	assessment *assessment
	// facts are those that were used.
	facts *factSet
	// owner is the namespace that the memory is counted for, and the only one of the objects if
	// namespaces is nil, which has how many objects are in which.
	owner      *namespace
	namespaces map[*namespace]int
	// previous has the assessments that objects had before this was their projection, while it is not
	// judged.
	previous map[types.NamespacedName]*assessment
	// epoch and seen are the changes of policies and of facts that the assessment follows.
	epoch, seen uint64
	refs, index int32
	queue.Entry
	// pending means that it is to be judged, blocked that it cannot be, and judging that it is being
	// judged. uncertain means that a part of a rule failed that used facts, and again that it is to be
	// judged because of that.
	pending, blocked, judging, uncertain, again bool
}

// kind returns the kind of the objects.
func (p *Projection) kind() *Kind { return p.selection.kind }

// digest returns the digest of a projection by its text.
func (e *Selection) digest(text []byte) digest {
	h := sha256.New()
	_, _ = h.Write(e.kind.store.salt[:])
	_, _ = h.Write(binary.LittleEndian.AppendUint32(nil, e.id))
	_, _ = h.Write(text)
	return digest(h.Sum(nil)[:len(digest{})])
}

// Source returns the plan, which is nil while no policy selects the kind, and what it reads of objects.
func (k *Kind) Source() (*judge.Plan, *Selection) {
	k.store.mu.Lock()
	defer k.store.mu.Unlock()
	return k.plan, k.selection
}

// Set notes what a selection has of an object that is new, has changed, or is as before. The caller has to
// do the job, unless it is nil: the text is not kept.
func (k *Kind) Set(e *Selection, at types.NamespacedName, uid types.UID, text []byte) *Job {
	key := e.digest(text)
	k.store.mu.Lock()
	defer k.store.mu.Unlock()
	if k.plan == nil || k.removed {
		return nil
	}
	k.reading.hear(time.Now())
	p, kept := k.set(e, key, at, uid, text)
	if k.store.relieve() {
		kept = false
	}
	if p == nil || kept || p.refs == 0 || p.judging || !p.stale() {
		return nil
	}
	p.await()
	// Evaluations that do not end may use it for longer than the caller does.
	j := p.begin(bytes.Clone(text), nil)
	p.drop()
	return j
}

// set returns the projection of an object if that has to be judged, and whether its text is kept.
func (k *Kind) set(e *Selection, key digest, at types.NamespacedName, uid types.UID, text []byte) (p *Projection, kept bool) {
	s, part := k.store, k.partition(at.Namespace)
	if k.remainsOmitted(part, at.Name) {
		return nil, true
	}
	at.Namespace = part.namespace.name
	known, exists := part.objects[at.Name]
	if exists && k.uids.of(at, known) != uid {
		s.touch(at.Namespace)
	}
	if p = k.projections[key]; p == nil {
		p = k.newProjection(part.namespace, key, e)
	}
	next := object{generation: k.reading.generation, uid: k.uids.shorten(at, uid), projection: p}
	// An assignment replaces the key, too.
	at.Name = strings.Clone(at.Name)
	if !exists {
		k.objects++
		s.memory.charge(part.namespace, objectBytes+int64(len(at.Name)))
	}
	if !exists || known.projection != p {
		p.join(part.namespace, at, known.projection)
	}
	part.objects[at.Name] = next
	if !p.stale() {
		if p.text == nil && s.memory.below(amplePercent) {
			p.supply(text)
		}
		return nil, true
	}
	if p.blocked {
		p.blocked = false
		k.blocked--
	}
	if !p.supply(text) {
		return p, false
	}
	priority := queue.High
	if k.reading.active {
		priority = queue.Low
	}
	p.enqueue(part.namespace, priority)
	return p, true
}

// remainsOmitted reports whether an object is still not audited, for lack of memory.
func (k *Kind) remainsOmitted(part *partition, name string) bool {
	hash := k.store.hashName(name)
	if _, omitted := part.omitted[hash]; !omitted {
		return false
	}
	if !k.store.memory.below(amplePercent) {
		part.omitted[hash] = k.reading.generation
		return true
	}
	delete(part.omitted, hash)
	k.omit(part, -1)
	return false
}

// Present notes that an object is still there, of which less is known than the plan reads.
func (k *Kind) Present(at types.NamespacedName) {
	k.store.mu.Lock()
	defer k.store.mu.Unlock()
	k.request()
	part := k.partitions[at.Namespace]
	if part == nil {
		return
	}
	if o, known := part.objects[at.Name]; known {
		o.generation = k.reading.generation
		part.objects[at.Name] = o
	}
	hash := k.store.hashName(at.Name)
	if _, known := part.omitted[hash]; known {
		part.omitted[hash] = k.reading.generation
	}
}

// Delete notes that an object is gone.
func (k *Kind) Delete(at types.NamespacedName) {
	k.store.mu.Lock()
	defer k.store.mu.Unlock()
	k.reading.hear(time.Now())
	part := k.partitions[at.Namespace]
	if part == nil {
		return
	}
	if _, known := part.objects[at.Name]; known {
		k.forget(part, at.Name)
		k.store.touch(part.namespace.name)
	}
	hash := k.store.hashName(at.Name)
	if _, known := part.omitted[hash]; known {
		delete(part.omitted, hash)
		k.omit(part, -1)
	}
	k.abandon(part)
}

// newProjection returns a projection without text, of no object.
func (k *Kind) newProjection(owner *namespace, key digest, e *Selection) *Projection {
	p := &Projection{digest: key, selection: e, owner: owner, index: int32(len(k.all)), seen: k.store.facts.seq}
	k.projections[key] = p
	k.all = append(k.all, p)
	k.dropped++
	k.store.memory.hold(owner, projectionBytes)
	return p
}

// supply gives a projection its text. It reports whether that may be kept.
func (p *Projection) supply(text []byte) bool {
	k := p.kind()
	if p.text == nil && k.mayKeep(len(text)) {
		p.text, p.dictionary = p.selection.compress(&k.store.buffer, text)
		k.store.memory.charge(p.owner, int64(len(p.text)))
		k.bytes += int64(len(p.text))
		k.dropped--
	}
	return p.text != nil
}

// droppable reports whether there is a text that is not needed to judge the projection soon.
func (p *Projection) droppable() bool { return p.text != nil && (!p.pending || p.blocked) }

// drop no longer keeps the text of a projection.
func (p *Projection) drop() {
	if p.text == nil {
		return
	}
	k := p.kind()
	k.store.memory.charge(p.owner, -int64(len(p.text)))
	k.bytes -= int64(len(p.text))
	k.dropped++
	p.text, p.dictionary = nil, nil
}

// join makes an object one of the projection's, instead of from's, which may be nil. Its assessment is the
// previous one until the projection is judged.
func (p *Projection) join(n *namespace, at types.NamespacedName, from *Projection) {
	k := p.kind()
	var previous *assessment
	if from != nil {
		previous = from.shown(at)
	}
	switch {
	case p.assessment == nil && previous != nil:
		if p.previous == nil {
			p.previous = map[types.NamespacedName]*assessment{}
		}
		previous.refs++
		p.previous[at] = previous
		k.store.memory.charge(n, previousBytes)
	case p.assessment != previous || from == nil:
		k.store.touch(n.name)
	}
	if p.namespaces == nil && n != p.owner {
		p.namespaces = map[*namespace]int{}
		if p.refs > 0 {
			p.namespaces[p.owner] = int(p.refs)
		}
	}
	if p.namespaces != nil {
		p.namespaces[n]++
	}
	p.refs++
	if p.pending {
		k.backlog++
	}
	if from != nil {
		from.leave(n, at)
	}
}

// shown returns the assessment of an object of the projection; nil if there is none yet.
func (p *Projection) shown(at types.NamespacedName) *assessment {
	if p.assessment != nil {
		return p.assessment
	}
	return p.previous[at]
}

// leave removes an object from a projection, and the projection with its last object.
func (p *Projection) leave(n *namespace, at types.NamespacedName) {
	k := p.kind()
	s := k.store
	if previous := p.previous[at]; previous != nil {
		delete(p.previous, at)
		s.memory.charge(n, -previousBytes)
		s.pool.assessments.release(previous)
	}
	if p.namespaces != nil {
		if p.namespaces[n]--; p.namespaces[n] == 0 {
			delete(p.namespaces, n)
		}
	}
	if p.pending {
		k.backlog--
	}
	if p.refs--; p.refs > 0 {
		return
	}
	p.drop()
	k.dropped--
	if p.blocked {
		k.blocked--
	}
	p.blocked, p.pending = false, false
	s.queue.Remove(p)
	last := k.all[len(k.all)-1]
	k.all[p.index], last.index = last, p.index
	k.all[len(k.all)-1] = nil
	k.all = k.all[:len(k.all)-1]
	delete(k.projections, p.digest)
	s.pool.assessments.release(p.assessment)
	s.pool.factSets.release(p.facts)
	p.assessment, p.facts = nil, nil
	s.memory.free(p.owner, projectionBytes)
}

// stale reports whether a projection is to be judged.
func (p *Projection) stale() bool {
	k := p.kind()
	return p.assessment == nil || p.epoch < k.policies.epoch || p.again || p.facts != nil && k.store.facts.changed(p.facts, p.seen)
}

// await counts the objects of a projection that is to be judged.
func (p *Projection) await() {
	if !p.pending {
		p.pending = true
		p.kind().backlog += int(p.refs)
	}
}

// enqueue has a projection judged, in the order of its namespaces.
func (p *Projection) enqueue(n *namespace, priority queue.Priority) {
	p.await()
	if !p.judging {
		k := p.kind()
		k.store.queue.Add(k, n, p, priority)
	}
}
