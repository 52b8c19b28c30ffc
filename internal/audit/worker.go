package audit

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/audit/result"
)

// work judges projections until ctx is done.
func (a *Auditor) work(ctx context.Context) {
	pace := pace{pacer: a.pacer}
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
		}
		for ctx.Err() == nil {
			began := time.Now()
			if !a.next(ctx) {
				break
			}
			pace.spend(time.Since(began))
		}
	}
}

// next judges one projection, and reports whether there was one.
func (a *Auditor) next(ctx context.Context) bool {
	a.mu.Lock()
	k, p := a.take()
	if p == nil {
		a.mu.Unlock()
		return false
	}
	// Others may help.
	a.notify(a.wake)
	c := a.begin(k, p, p.text)
	if c != nil {
		c.like = p.like
	}
	a.mu.Unlock()
	if c != nil {
		a.judgeCall(ctx, c)
	}
	return true
}

// judgeAtOnce judges a projection that has just been read, and keeps nothing of its text.
func (a *Auditor) judgeAtOnce(k *kind, p *projection, text []byte) {
	a.mu.Lock()
	if p.refs == 0 || p.judging || !a.stale(k, p) {
		a.mu.Unlock()
		return
	}
	if !p.pending {
		p.pending = true
		k.backlog += int(p.refs)
	}
	c := a.begin(k, p, bytes.Clone(text))
	a.drop(k, p)
	a.mu.Unlock()
	if c != nil {
		a.judgeCall(context.Background(), c)
	}
}

func (a *Auditor) judgeCall(ctx context.Context, c *call) {
	saids, err := c.judge(ctx)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return // Nothing is judged any more.
	default:
		a.logFailure(c, err)
		saids, c.failed = append(saids, unjudged(c.slots, saids, err)...), true
	}
	a.finish(c, saids)
}

// A call is a projection that is being judged.
type call struct {
	kind       *kind
	projection *projection
	plan       plan
	text       []byte
	// like is what the text is packed with, nil if it is not.
	like *pattern
	// epoch and seen are the changes that it follows.
	epoch, seen uint64
	// slots are those of all policies; some are the ones that judge it, nil if all do.
	slots map[usher.PolicyRef]*slot
	refs  map[uint32]usher.PolicyRef
	some  map[uint32]bool
	// failed means that they could not say anything.
	failed bool
}

// begin prepares the judging of a projection; nil if there is nothing to do, or it cannot be done. The
// caller holds the lock.
func (a *Auditor) begin(k *kind, p *projection, text []byte) *call {
	if p.judging {
		return nil
	}
	if !a.stale(k, p) {
		a.settle(k, p)
		return nil
	}
	if text == nil || !p.extent.holds {
		a.block(k, p)
		return nil
	}
	p.judging, p.queued = true, none
	a.evaluations++
	c := &call{kind: k, projection: p, plan: k.plan, text: text, epoch: k.epoch, seen: a.facts.seq, slots: k.slots, refs: k.view.refs}
	if p.row == nil {
		return c
	}
	c.some = k.changedSince(p.epoch)
	again := map[uint32]bool{}
	if p.again {
		p.row.fails(again)
		p.again = false
	}
	if p.facts != nil && p.seen != a.facts.seq {
		for _, u := range p.facts.uses {
			if !again[u.slot] && a.facts.met(u, p.seen) {
				again[u.slot] = true
			}
		}
	}
	if len(again) > 0 {
		maps.Copy(again, c.some)
		c.some = again
	}
	return c
}

// changedSince returns the policies that are newer than an epoch, by slot: the same map for the same
// epochs.
func (k *kind) changedSince(epoch uint64) map[uint32]bool {
	if k.changed.slots == nil || k.changed.from != epoch || k.changed.to != k.epoch {
		k.changed = changed{from: epoch, to: k.epoch, slots: map[uint32]bool{}}
		for _, s := range k.slots {
			if s.epoch > epoch {
				k.changed.slots[s.id] = true
			}
		}
	}
	return k.changed.slots
}

// policies returns those that judge, in the order of their slots; nil if all do.
func (c *call) policies() []usher.PolicyRef {
	if c.some == nil || len(c.some) == len(c.slots) {
		return nil
	}
	policies := make([]usher.PolicyRef, 0, len(c.some))
	for _, slot := range slices.Sorted(maps.Keys(c.some)) {
		if ref, known := c.refs[slot]; known {
			policies = append(policies, ref)
		}
	}
	return policies
}

// judge returns what the policies say. If they cannot say anything, the results are errors.
func (c *call) judge(ctx context.Context) (saids []judge.Judgement, err error) {
	ctx, cancel := context.WithTimeout(ctx, judgeTimeout)
	defer cancel()
	defer func() {
		if panicked := recover(); panicked != nil {
			err = &panicError{panicked, debug.Stack()}
		}
	}()
	if c.some != nil && len(c.some) == 0 {
		return nil, nil
	}
	text := c.text
	if c.like != nil {
		if text, err = c.like.unpack(text); err != nil {
			return nil, err
		}
	}
	tree, err := usher.RawObject(text).Tree()
	if err != nil {
		return nil, fmt.Errorf("judge object: %w", err)
	}
	return c.plan.Judge(ctx, tree, c.policies())
}

// finish keeps what was said.
func (a *Auditor) finish(c *call, saids []judge.Judgement) {
	a.mu.Lock()
	defer a.mu.Unlock()
	k, p := c.kind, c.projection
	p.judging = false
	if p.refs == 0 {
		return
	}
	cells := p.row.told(a.cells[:0], k.view.refs, c.some)
	uses := p.facts.without(k.view.refs, c.some)
	for i := range saids {
		said := &saids[i]
		slot := c.slots[said.Policy]
		if slot == nil || k.slots[said.Policy] == nil || k.slots[said.Policy].id != slot.id || c.some != nil && !c.some[slot.id] {
			continue
		}
		cells = append(cells, told{count: count{slot.id, uint32(said.Pass), uint32(said.Skip)}, said: a.internSaid(p.owner, said.Results)})
		for _, ref := range said.Facts {
			if u, ok := useOf(slot.id, ref); ok {
				uses = append(uses, u)
			}
		}
	}
	slices.SortFunc(cells, func(a, b told) int { return cmp.Compare(a.count.slot, b.count.slot) })
	a.keep(c, cells, uses)
	clear(cells)
	a.cells = cells
}

// keep makes what was said the row of the projection.
func (a *Auditor) keep(c *call, cells []told, uses []factUse) {
	k, p := c.kind, c.projection
	before := p.row
	p.uncertain = c.failed || slices.ContainsFunc(uses, func(u factUse) bool {
		i, found := slices.BinarySearchFunc(cells, u.slot, func(t told, slot uint32) int { return cmp.Compare(t.count.slot, slot) })
		return found && cells[i].said != nil && cells[i].said.counts.Error > 0
	})
	p.row = a.internRow(p.owner, cells)
	facts := a.internFacts(p.owner, uses)
	a.releaseFacts(p.facts)
	p.facts = facts
	p.epoch, p.seen = c.epoch, c.seen
	a.publish(p, before)
	a.releaseRow(before)
	if p.uncertain {
		a.retry.expect(k, p, time.Now())
		a.notify(a.clockWake)
	}
	if a.stale(k, p) {
		a.enqueue(k, p)
		return
	}
	wasPending := k.backlog > 0
	a.settle(k, p)
	if wasPending && k.backlog == 0 {
		// The kind is complete now.
		a.touchName("")
	}
}

// publish touches the namespaces about whose objects something else is said than before.
func (a *Auditor) publish(p *projection, before *row) {
	waiting := p.waiting
	p.waiting = nil
	changed := p.row != before
	if before == nil {
		// All objects have waited; those that had no results before have changed.
		changed = len(waiting) < int(p.refs)
	}
	for at, shown := range waiting {
		if shown != p.row {
			changed = true
		}
		a.charge(a.namespaces[at.namespace], -waitingBytes)
		a.releaseRow(shown)
	}
	if !changed {
		return
	}
	if p.namespaces == nil {
		a.touch(p.owner)
		return
	}
	for n := range p.namespaces {
		a.touch(n)
	}
}

// unjudged returns an error of each policy that has not judged.
func unjudged(slots map[usher.PolicyRef]*slot, judged []judge.Judgement, err error) []judge.Judgement {
	var saids []judge.Judgement
	for ref := range slots {
		if slices.ContainsFunc(judged, func(s judge.Judgement) bool { return s.Policy == ref }) {
			continue
		}
		saids = append(saids, judge.Judgement{Policy: ref, Results: []result.Result{{Policy: ref, Status: result.Error, Message: err.Error()}}})
	}
	return saids
}

// A panicError is a panic while an object was judged.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("judge object: it panicked: %v", e.value) }

func (a *Auditor) logFailure(c *call, err error) {
	log := a.options.Log.With("kind", c.kind.title(), "error", err)
	if panicked, ok := errors.AsType[*panicError](err); ok {
		log = log.With("stack", string(panicked.stack))
	}
	log.Error("object cannot be judged")
}
