package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// A digest identifies what it is computed of: 128 bits of SHA-256, with a salt.
type digest [16]byte

// A projection is what the rules read of one or more objects, and what they say about it.
type projection struct {
	digest digest
	extent *extent
	// text is nil if it is not kept; like is what it is packed with, nil if it is not packed.
	text []byte
	like *pattern
	// row is what was said; nil before it was judged first.
	row *row
	// facts are those that were used.
	facts *factSet
	// owner is the namespace that the memory is counted for, and the only one of the objects if
	// namespaces is nil, which has how many objects are in which.
	owner      *namespace
	namespaces map[*namespace]int
	// waiting has what was said about objects whose projection this is now, while it was not judged.
	waiting map[place]*row
	// epoch and seen are the changes of policies and of facts that the row follows.
	epoch, seen uint64
	refs, index int32
	queued      priority
	// pending means that it is to be judged, blocked that it cannot be, and judging that it is being
	// judged. uncertain means that a part of a rule failed that used facts, and again that it is to be
	// judged because of that.
	pending, blocked, judging, uncertain, again bool
}

// digestOf returns the digest of the text of a projection.
func (a *Auditor) digestOf(e *extent, text []byte) digest {
	h := sha256.New()
	_, _ = h.Write(a.salt[:])
	_, _ = h.Write(binary.LittleEndian.AppendUint32(nil, e.id))
	_, _ = h.Write(text)
	return digest(h.Sum(nil)[:len(digest{})])
}

// A keeping says whether the text of a projection is kept.
type keeping uint8

const (
	kept keeping = iota
	// keptForNow means that there is too little memory.
	keptForNow
	// notKept means that the text must not be kept: the projection is judged at once, or never.
	notKept
)

// keeps reports whether the text of a projection of a kind may be kept.
func (a *Auditor) keeps(k *kind, size int) bool {
	return (a.options.Secrets || !k.confidential()) && int64(size) <= a.options.Memory/maxTextShare
}

// set notes what an object is. It returns the projection of the object if that has to be judged.
func (a *Auditor) set(k *kind, e *extent, at place, uid types.UID, text []byte) (p *projection, keep keeping) {
	key := a.digestOf(e, text)
	a.mu.Lock()
	defer a.mu.Unlock()
	if k.plan == nil || k.removed {
		return nil, kept
	}
	defer func() {
		if a.used > a.options.Memory {
			keep = max(keep, keptForNow)
		}
	}()
	k.hear()
	l := a.lot(k, at.namespace)
	if a.remainsOmitted(k, l, at.name) {
		return nil, kept
	}
	known, exists := l.objects[at.name]
	if exists && k.uid(place{l.namespace.name, at.name}, known) != uid {
		a.touch(l.namespace)
	}
	next := object{mark: k.mark, uid: k.identify(at, uid), projection: k.projections[key]}
	if next.projection == nil {
		next.projection = a.newProjection(k, l.namespace, key, e)
	}
	p = next.projection
	// An assignment replaces the key, too.
	name := strings.Clone(at.name)
	if !exists {
		k.objects++
		a.charge(l.namespace, objectBytes+int64(len(name)))
	}
	if !exists || known.projection != p {
		a.move(k, l, place{l.namespace.name, name}, known.projection, p)
	}
	l.objects[name] = next
	if !a.stale(k, p) {
		if p.text == nil && a.ample() {
			a.supply(k, p, text)
		}
		return nil, kept
	}
	if p.blocked {
		p.blocked = false
		k.blocked--
	}
	if !a.supply(k, p, text) {
		return p, notKept
	}
	how := hot
	if k.reading {
		how = cold
	}
	a.enqueueAt(k, l.namespace, p, how)
	return p, kept
}

// remainsOmitted reports whether an object is still not audited, for lack of memory.
func (a *Auditor) remainsOmitted(k *kind, l *lot, name string) bool {
	hash := a.hashName(name)
	if _, omitted := l.omitted[hash]; !omitted {
		return false
	}
	if !a.ample() {
		l.omitted[hash] = k.mark
		return true
	}
	delete(l.omitted, hash)
	a.omit(k, l, -1)
	return false
}

// supply gives a projection its text. It reports whether that may be kept.
func (a *Auditor) supply(k *kind, p *projection, text []byte) bool {
	if p.text == nil && a.keeps(k, len(text)) {
		p.text, p.like = a.pack(p.extent, text)
		a.charge(p.owner, int64(len(p.text)))
		k.bytes += int64(len(p.text))
		k.dropped--
	}
	return p.text != nil
}

// drop no longer keeps the text of a projection.
func (a *Auditor) drop(k *kind, p *projection) {
	if p.text == nil {
		return
	}
	a.charge(p.owner, -int64(len(p.text)))
	k.bytes -= int64(len(p.text))
	k.dropped++
	p.text, p.like = nil, nil
}

// newProjection returns a projection without text, of no object.
func (a *Auditor) newProjection(k *kind, owner *namespace, key digest, e *extent) *projection {
	p := &projection{digest: key, extent: e, owner: owner, index: int32(len(k.all)), seen: a.facts.seq}
	k.projections[key] = p
	k.all = append(k.all, p)
	k.dropped++
	owner.holds++
	a.charge(owner, projectionBytes)
	return p
}

// move makes an object one of a projection's, instead of from's, which may be nil. What is said about
// it is what was said before until the projection is judged.
func (a *Auditor) move(k *kind, l *lot, at place, from, to *projection) {
	var shown *row
	if from != nil {
		shown = from.shown(at)
	}
	switch {
	case to.row == nil && shown != nil:
		if to.waiting == nil {
			to.waiting = map[place]*row{}
		}
		shown.refs++
		to.waiting[at] = shown
		a.charge(l.namespace, waitingBytes)
	case to.row != shown || from == nil:
		a.touch(l.namespace)
	}
	to.add(l.namespace)
	if to.pending {
		k.backlog++
	}
	if from != nil {
		a.leave(k, l, at, from)
	}
}

// shown returns what is said about an object of the projection; nil if nothing was said yet.
func (p *projection) shown(at place) *row {
	if p.row != nil {
		return p.row
	}
	return p.waiting[at]
}

// add counts an object of a namespace.
func (p *projection) add(n *namespace) {
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
}

// leave removes an object from a projection, and the projection with its last object.
func (a *Auditor) leave(k *kind, l *lot, at place, p *projection) {
	if shown := p.waiting[at]; shown != nil {
		delete(p.waiting, at)
		a.charge(l.namespace, -waitingBytes)
		a.releaseRow(shown)
	}
	if p.namespaces != nil {
		if p.namespaces[l.namespace]--; p.namespaces[l.namespace] == 0 {
			delete(p.namespaces, l.namespace)
		}
	}
	if p.pending {
		k.backlog--
	}
	if p.refs--; p.refs > 0 {
		return
	}
	a.drop(k, p)
	k.dropped--
	if p.blocked {
		k.blocked--
	}
	p.blocked, p.pending, p.queued = false, false, none
	last := k.all[len(k.all)-1]
	k.all[p.index], last.index = last, p.index
	k.all[len(k.all)-1] = nil
	k.all = k.all[:len(k.all)-1]
	delete(k.projections, p.digest)
	a.releaseRow(p.row)
	a.releaseFacts(p.facts)
	p.row, p.facts = nil, nil
	a.charge(p.owner, -projectionBytes)
	p.owner.holds--
	a.expel(p.owner)
}

// forget removes an object. The caller touches its namespace.
func (a *Auditor) forget(k *kind, l *lot, name string) {
	o := l.objects[name]
	delete(l.objects, name)
	delete(k.odd, place{l.namespace.name, name})
	k.objects--
	a.charge(l.namespace, -objectBytes-int64(len(name)))
	a.leave(k, l, place{l.namespace.name, name}, o.projection)
}

// stale reports whether a projection is to be judged.
func (a *Auditor) stale(k *kind, p *projection) bool {
	return p.row == nil || p.epoch < k.epoch || p.again || p.facts != nil && a.facts.changed(p.facts, p.seen)
}

// enqueue has a projection judged that is not urgent, at its turn among those of its namespace.
func (a *Auditor) enqueue(k *kind, p *projection) { a.enqueueAt(k, p.owner, p, cold) }

func (a *Auditor) enqueueAt(k *kind, n *namespace, p *projection, how priority) {
	if !p.pending {
		p.pending = true
		k.backlog += int(p.refs)
	}
	if p.queued >= how || p.judging {
		return
	}
	p.queued = how
	if how == hot {
		k.hot.push(n, p)
	} else {
		k.cold.push(n, p)
	}
	a.notify(a.wake)
}

// settle notes that a projection need not be judged.
func (a *Auditor) settle(k *kind, p *projection) {
	if p.pending {
		p.pending = false
		k.backlog -= int(p.refs)
	}
	p.queued = none
}

// block notes that a projection cannot be judged by what is kept of it.
func (a *Auditor) block(k *kind, p *projection) {
	p.queued = none
	if !p.blocked {
		p.blocked = true
		k.blocked++
	}
	a.request(k)
}
