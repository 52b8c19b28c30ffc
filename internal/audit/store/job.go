package store

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/audit/queue"
	"github.com/usher-dev/usher/internal/audit/result"
)

// A Job is a projection that is being judged, until [Store.Finish]. It is what one goroutine needs for that
// without the lock.
type Job struct {
	Plan *judge.Plan

	projection *Projection
	text       []byte
	// dictionary is what the text is compressed by, nil if it is not.
	dictionary *dictionary
	// epoch and seen are the changes of policies and facts that the judgements follow.
	epoch, seen uint64
	// view has all policies; some are the ones that judge, nil if all do.
	view *view
	some map[uint32]bool
	// failed means that some of them could not judge.
	failed bool
}

// Kind returns the kind of the objects.
func (j *Job) Kind() *Kind { return j.projection.kind() }

// Object returns what is known of the objects.
func (j *Job) Object() (map[string]any, error) {
	text := j.text
	if j.dictionary != nil {
		var err error
		if text, err = j.dictionary.decompress(text); err != nil {
			return nil, err
		}
	}
	tree, err := usher.RawObject(text).Tree()
	if err != nil {
		return nil, fmt.Errorf("judge object: %w", err)
	}
	return tree, nil
}

// Policies returns those that judge, in the order of their numbers; nil if all of the plan do, and an empty
// list if none does.
func (j *Job) Policies() []usher.PolicyRef {
	if j.some == nil || len(j.some) > 0 && len(j.some) == len(j.view.refs) {
		return nil
	}
	some := make([]usher.PolicyRef, 0, len(j.some))
	for _, number := range slices.Sorted(maps.Keys(j.some)) {
		if ref, known := j.view.refs[number]; known {
			some = append(some, ref)
		}
	}
	return some
}

// Fail returns the judgements with an error of each policy that has none.
func (j *Job) Fail(judgements []judge.Judgement, err error) []judge.Judgement {
	j.failed = true
	judged := map[usher.PolicyRef]bool{}
	for i := range judgements {
		judged[judgements[i].Policy] = true
	}
	for ref := range j.view.numbers {
		if !judged[ref] {
			judgements = append(judgements, judge.Judgement{Policy: ref, Results: []result.Result{{Policy: ref, Status: result.Error, Message: err.Error()}}})
		}
	}
	return judgements
}

// Begin returns the job of a projection that was queued; nil if there is nothing to do, or it cannot be
// done.
func (s *Store) Begin(p *Projection) *Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.refs == 0 {
		return nil
	}
	return p.begin(p.text, p.dictionary)
}

func (p *Projection) begin(text []byte, by *dictionary) *Job {
	k := p.kind()
	s := k.store
	switch {
	case p.judging:
		return nil
	case !p.stale():
		p.settle()
		return nil
	case text == nil || !p.selection.suffices():
		p.block()
		return nil
	}
	s.queue.Remove(p)
	p.judging = true
	s.evaluations++
	j := &Job{
		projection: p, Plan: k.plan, text: text, dictionary: by, epoch: k.policies.epoch, seen: s.facts.seq, view: k.policies.view,
	}
	if p.assessment == nil {
		return j
	}
	j.some = k.policies.since(p.epoch)
	again := map[uint32]bool{}
	if p.again {
		p.assessment.failed(again)
		p.again = false
	}
	if p.facts != nil && p.seen != s.facts.seq {
		for _, u := range p.facts.uses {
			if !again[u.policy] && s.facts.met(u, p.seen) {
				again[u.policy] = true
			}
		}
	}
	if len(again) > 0 {
		maps.Copy(again, j.some)
		j.some = again
	}
	return j
}

// settle notes that a projection need not be judged.
func (p *Projection) settle() {
	k := p.kind()
	if p.pending {
		p.pending = false
		k.backlog -= int(p.refs)
	}
	k.store.queue.Remove(p)
}

// block notes that a projection cannot be judged by what is kept of it.
func (p *Projection) block() {
	k := p.kind()
	k.store.queue.Remove(p)
	if !p.blocked {
		p.blocked = true
		k.blocked++
	}
	k.request()
}

// Finish keeps the judgements of a job.
func (s *Store) Finish(j *Job, judged []judge.Judgement) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := j.projection
	p.judging = false
	if p.refs == 0 {
		return
	}
	inForce := p.kind().policies.view
	all := p.assessment.judgements(s.judgements[:0], inForce.refs, j.some)
	uses := p.facts.remaining(inForce.refs, j.some)
	for i := range judged {
		next := &judged[i]
		number := j.view.numbers[next.Policy]
		if number == 0 || inForce.numbers[next.Policy] != number || j.some != nil && !j.some[number] {
			continue
		}
		all = append(all, judgement{count{number, uint32(next.Pass), uint32(next.Skip)}, s.pool.resultSet(p.owner, next.Results)})
		for _, ref := range next.Facts {
			if u, ok := useOf(number, ref); ok {
				uses = append(uses, u)
			}
		}
	}
	slices.SortFunc(all, func(a, b judgement) int { return cmp.Compare(a.count.policy, b.count.policy) })
	p.uncertain = j.failed || slices.ContainsFunc(uses, func(u factUse) bool {
		i, found := slices.BinarySearchFunc(all, u.policy, func(j judgement, policy uint32) int { return cmp.Compare(j.count.policy, policy) })
		return found && all[i].set != nil && all[i].set.counts.Error > 0
	})
	p.assess(s.pool.assessment(p.owner, all), s.pool.facts(p.owner, uses))
	clear(all)
	s.judgements = all
	p.epoch, p.seen = j.epoch, j.seen
	if p.uncertain {
		s.retries.add(p, time.Now())
		s.rescheduled.Send()
	}
	if p.stale() {
		// Something has changed meanwhile.
		p.enqueue(p.owner, queue.Low)
		return
	}
	k := p.kind()
	wasPending := k.backlog > 0
	p.settle()
	if wasPending && k.backlog == 0 {
		// The kind is complete now.
		s.touch("")
	}
}

// assess replaces the assessment of a projection and the facts that were used, and touches the namespaces
// whose objects have another assessment than before.
func (p *Projection) assess(a *assessment, facts *factSet) {
	s := p.kind().store
	before, previous := p.assessment, p.previous
	s.pool.factSets.release(p.facts)
	p.assessment, p.facts, p.previous = a, facts, nil
	changed := a != before
	if before == nil {
		// All objects that have a previous assessment have waited; the others have changed.
		changed = len(previous) < int(p.refs)
	}
	for at, shown := range previous {
		changed = changed || shown != a
		s.memory.charge(s.memory.namespaces[at.Namespace], -previousBytes)
		s.pool.assessments.release(shown)
	}
	switch {
	case !changed:
	case p.namespaces == nil:
		s.touch(p.owner.name)
	default:
		for n := range p.namespaces {
			s.touch(n.name)
		}
	}
	s.pool.assessments.release(before)
}
