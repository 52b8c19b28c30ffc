package engine

import (
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/rule"
)

// A record is what has happened in an attempt. Said is what those events have that are more than that a program said
// nothing.
type record struct {
	events []event
	said   []said
}

// An event is that a program has run, or that a fact was resolved, without step.
type event struct {
	step *rule.Step
	// said is the place of what is known of it, and one; 0 is that the program said nothing.
	said int
}

// A said is what a program has said, or a fact with its key.
type said struct {
	out   rule.Outcome
	fact  string
	value any
	err   error
}

// next returns what the program of a step has said in the first attempt.
func (a *attempt) next(step *rule.Step) (out rule.Outcome, err error, known bool) {
	if known := a.repeat.events; len(known) > 0 {
		if e := &known[0]; e.step == step {
			a.repeat.events = known[1:]
			if e.said == 0 {
				return rule.Outcome{}, nil, true
			}
			heard := &a.repeat.said[e.said-1]
			return heard.out, heard.err, true
		}
		// It is not the same evaluation any more: what is left is evaluated.
		a.repeat.events = nil
	}
	culprit := a.culprit
	a.culprit = nil
	return out, a.failure, culprit != nil && culprit == step
}

// nextFact is next for a fact.
func (a *attempt) nextFact(ref fact.Ref) (value any, err error, known bool) {
	if len(a.repeat.events) == 0 {
		return nil, nil, false
	}
	e := &a.repeat.events[0]
	if e.step != nil || a.repeat.said[e.said-1].fact != ref.Key() {
		a.repeat.events = nil
		return nil, nil, false
	}
	a.repeat.events = a.repeat.events[1:]
	heard := &a.repeat.said[e.said-1]
	return heard.value, heard.err, true
}

// ran is start and end for a program that is brief.
func (a *attempt) ran(step *rule.Step, out *rule.Outcome, err error) {
	switch {
	case a.moved:
		a.lock()
		a.add(step, out, err)
		a.mu.Unlock()
	case !a.inline && !a.careful:
		a.add(step, out, err)
	}
}

// add adds an event for the second attempt.
func (a *attempt) add(step *rule.Step, out *rule.Outcome, err error) {
	if a.inspects {
		return
	}
	e := event{step: step}
	if err != nil || !out.Silent() {
		a.said = append(a.said, said{out: *out, err: err})
		e.said = len(a.said)
	}
	a.events = append(a.events, e)
}

// keepFact keeps a fact for the second attempt.
func (a *attempt) keepFact(ref fact.Ref, value any, err error) {
	if a.careful {
		return
	}
	a.lock()
	if !a.inspects {
		a.said = append(a.said, said{fact: ref.Key(), value: value, err: err})
		a.events = append(a.events, event{said: len(a.said)})
	}
	a.mu.Unlock()
}
