package engine

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/breaker"
	"github.com/usher-dev/usher/internal/overrun"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/stall"
)

// How long programs that heed their context have to return when their time is over, before they are left
// behind: that of the rule, and that of the request, from which the doors reserve some for the response. On
// a machine under load a rule may go on after its time without a defect.
const (
	ruleGrace    = overrun.Late
	requestGrace = 20 * time.Millisecond
	// maxKeptEvents limits the memory that is used again.
	maxKeptEvents = 1024
)

// An attempt runs the programs for a request. The first attempt begins on the goroutine of the caller, and stays there
// as long as rules are brief. With the first one that is not, the evaluation goes on on a goroutine for which the caller
// waits. If a program does not end, the goroutine is left behind, with everything that it can change. The second attempt evaluates the request again on the goroutine of the caller: it
// takes what programs have said from the first attempt, has the one that did not end fail, and runs each
// of the others on a goroutine that can be left.
type attempt struct {
	engine  *Engine
	request *usher.Request
	began   time.Time
	// inline says that nobody leaves it, and moved that it is on a goroutine that can be left.
	inline, moved bool
	// careful says that it is a second attempt, or that there is no first one.
	careful bool
	// repeat are the events of the first attempt that are yet to be repeated. Then culprit is the step that
	// did not end, nil if none was at work, and failure its error.
	repeat  []event
	heard   []said
	culprit *rule.Step
	failure error
	// silent is how many findings the first attempt has told.
	silent int

	decision usher.Decision
	err      error

	// What follows is that of the first attempt, and read by who leaves it.
	mu     sync.Mutex
	left   bool
	events []event
	// said is what those events have that are more than that a program said nothing.
	said []said
	running
	told int
	// inspects says that it has come to the objects that exist, and holds that others wait for it to end.
	inspects, holds bool
}

// A running is the rule at work, or the last one. Its step has time until until, zero if it does not run.
type running struct {
	rule  *rule.Rule
	step  *rule.Step
	until time.Time
	retry breaker.Retry
	turn  *overrun.Turn
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

// carefully returns an attempt whose evaluation is on the goroutine of the caller.
func (e *Engine) carefully(r *usher.Request) *attempt {
	return &attempt{engine: e, request: r, began: time.Now(), careful: true}
}

// attempt decides a request by the rules of passes.
func (e *Engine) attempt(ctx context.Context, r *usher.Request, passes []int, each func(*usher.Finding)) (usher.Decision, error) {
	d, err := e.evaluation(r, each)
	if err != nil {
		return undecodable(ctx, r, err)
	}
	for ; len(passes) > 0; passes = passes[1:] {
		matched, err := d.match(passes[0])
		if err != nil {
			return undecodable(ctx, r, err)
		}
		if len(matched) > 0 {
			break
		}
	}
	if len(passes) == 0 {
		return d.allow(nil), nil
	}
	d.begun = true
	first := e.attempts.Get().(*attempt)
	first.engine, first.request, first.began, first.inline = e, r, time.Now(), e.inline
	d.attempt = first
	decision, err := d.decide(ctx, passes)
	if !first.left {
		first.free()
	}
	return decision, err
}

// moves reports whether the evaluation has to go on on a goroutine that can be left, because of rules to run.
func (d *evaluation) moves(rules ...*rule.Rule) bool {
	a := d.attempt
	return !d.brief && !a.inline && !a.careful && !a.moved && slices.ContainsFunc(rules, func(r *rule.Rule) bool { return !r.Brief() })
}

// move goes on with the rest of the evaluation, from the rules that match, on a goroutine that can be left.
func (d *evaluation) move(ctx context.Context, rest func() (usher.Decision, error)) (usher.Decision, error) {
	// If the goroutine is left, nothing of d may be read.
	e, r, each, first := d.engine, d.request, d.each, d.attempt
	d.begun, first.moved = true, true
	g := e.options.Overruns.Go(func() { first.decision, first.err = rest() })
	if first.wait(ctx, g) {
		return first.decision, first.err
	}
	second := first.leave(ctx, g)
	if ctx.Err() != nil && !overdue(ctx) {
		return usher.Decision{}, fmt.Errorf("decide request: %w", context.Cause(ctx))
	}
	again, err := e.evaluation(r, each)
	if err != nil {
		return undecodable(ctx, r, err)
	}
	again.attempt = second
	return again.decide(ctx, e.passes[r.Phase])
}

// evaluation returns one of the object as the matcher reads it.
func (e *Engine) evaluation(r *usher.Request, each func(*usher.Finding)) (*evaluation, error) {
	looks := e.readPaths(r)
	tree, err := r.Target().Part(looks)
	if err != nil {
		return nil, err
	}
	d := newEvaluation(e, r, tree, looks)
	d.each = each
	return d, nil
}

func (d *evaluation) decide(ctx context.Context, passes []int) (usher.Decision, error) {
	d.work = stall.Of(ctx)
	if d.request.Phase == usher.Mutate {
		return d.mutate(ctx, passes)
	}
	return d.validate(ctx, passes)
}

// free makes the attempt available for another request.
func (a *attempt) free() {
	e, events, said := a.engine, a.events, a.said
	if cap(events) > maxKeptEvents || cap(said) > maxKeptEvents {
		events, said = nil, nil
	}
	clear(events)
	clear(said)
	*a = attempt{events: events[:0], said: said[:0]}
	e.attempts.Put(a)
}

// wait waits for the evaluation, and reports whether it has ended in time.
func (a *attempt) wait(ctx context.Context, g *overrun.Goroutine) bool {
	left := a.remaining(ctx, a.began)
	for left > 0 {
		if g.Wait(left) {
			return true
		}
		left = a.remaining(ctx, time.Now())
	}
	return false
}

// remaining returns how long to wait from now for the evaluation until it may be too late.
func (a *attempt) remaining(ctx context.Context, now time.Time) time.Duration {
	a.mu.Lock()
	until := a.until
	a.mu.Unlock()
	if until.IsZero() {
		until = now.Add(a.engine.options.RuleTimeout)
	}
	until = until.Add(ruleGrace)
	if at, ok := ctx.Deadline(); ok && at.Add(requestGrace).Before(until) {
		until = at.Add(requestGrace)
	}
	return until.Sub(now)
}

// leave leaves the goroutine behind, which ends when its program does, and returns the second attempt.
func (a *attempt) leave(ctx context.Context, g *overrun.Goroutine) *attempt {
	second := a.engine.carefully(a.request)
	second.began = a.began
	a.mu.Lock()
	a.left = true
	second.repeat, second.heard, second.silent, second.inspects = a.events, a.said, a.told, a.inspects
	late := overrun.Overrun{User: a.request.User.Name, Namespace: a.request.Namespace, Due: a.until, Retry: a.retry}
	if a.rule != nil {
		late.Policy, late.Rule = a.rule.Policy, a.rule.Name
	}
	if !a.until.IsZero() && !a.inspects {
		second.culprit = a.step
	}
	turn := a.turn
	a.mu.Unlock()
	a.release()
	turn.Leave()
	if at, ok := ctx.Deadline(); ok && (late.Due.IsZero() || at.Before(late.Due)) {
		late.Due = at
	}
	if late.Due.IsZero() {
		late.Due = time.Now()
	}
	second.failure = &OverrunError{Limit: a.engine.options.RuleTimeout}
	if overdue(ctx) {
		second.failure = a.overdue(ctx, nil)
	}
	g.Leave(late)
	return second
}

// overdue is the error of a rule when the time of the request is over. err is that of its program.
func (a *attempt) overdue(ctx context.Context, err error) error {
	limit := time.Since(a.began)
	if at, ok := ctx.Deadline(); ok {
		limit = max(at.Sub(a.began), 0)
	}
	return &OverrunError{Limit: limit.Round(time.Millisecond), Request: true, Err: err}
}

// repeats reports whether there is more that the first attempt has found out.
func (a *attempt) repeats() bool { return len(a.repeat) > 0 || a.culprit != nil }

// next returns what the program of a step has said in the first attempt.
func (a *attempt) next(step *rule.Step) (out rule.Outcome, err error, known bool) {
	if len(a.repeat) > 0 {
		if e := &a.repeat[0]; e.step == step {
			a.repeat = a.repeat[1:]
			if e.said == 0 {
				return rule.Outcome{}, nil, true
			}
			heard := &a.heard[e.said-1]
			return heard.out, heard.err, true
		}
		// It is not the same evaluation any more: what is left is evaluated.
		a.repeat = nil
	}
	culprit := a.culprit
	a.culprit = nil
	return out, a.failure, culprit != nil && culprit == step
}

// nextFact is next for a fact.
func (a *attempt) nextFact(ref fact.Ref) (value any, err error, known bool) {
	if len(a.repeat) == 0 {
		return nil, nil, false
	}
	e := &a.repeat[0]
	if e.step != nil || a.heard[e.said-1].fact != ref.Key() {
		a.repeat = nil
		return nil, nil, false
	}
	a.repeat = a.repeat[1:]
	heard := &a.heard[e.said-1]
	return heard.value, heard.err, true
}

// start begins a step. It does not return if the goroutine was left behind.
func (a *attempt) start(r running) {
	a.lock()
	a.running = r
	a.mu.Unlock()
}

// end ends a step. It does not return if the goroutine was left behind.
func (a *attempt) end(out *rule.Outcome, err error) {
	a.lock()
	a.add(a.step, out, err)
	a.until, a.retry = time.Time{}, nil
	a.mu.Unlock()
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

// pause is end for work that cannot be repeated.
func (a *attempt) pause() {
	a.lock()
	a.until = time.Time{}
	a.mu.Unlock()
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

// lock locks a for its goroutine, which ends here if it was left behind: nobody waits for it, and all that
// it can change is its own.
func (a *attempt) lock() {
	a.mu.Lock()
	if a.left {
		a.mu.Unlock()
		runtime.Goexit()
	}
}

// tell calls each with a finding, unless the first attempt has done so.
func (a *attempt) tell(d *findings, f usher.Finding) {
	if a.silent > 0 {
		a.silent--
		return
	}
	if d.last == nil {
		d.last = &usher.Finding{}
	}
	*d.last = f
	// Who leaves a waits for the call to end.
	a.lock()
	defer a.mu.Unlock()
	a.told++
	d.each(d.last)
}

// inspect reports whether objects that exist may be inspected. A request that took too long has no time
// left for that.
func (a *attempt) inspect() bool {
	if a.careful {
		return false
	}
	a.lock()
	a.inspects = true
	a.mu.Unlock()
	return true
}

// hold remembers that others wait for the end of an inspection.
func (a *attempt) hold() {
	a.mu.Lock()
	left := a.left
	a.holds = !left
	a.mu.Unlock()
	if left {
		<-a.engine.inspections
		runtime.Goexit()
	}
}

// release lets others inspect objects. A goroutine that was left behind keeps nobody waiting.
func (a *attempt) release() {
	a.mu.Lock()
	held := a.holds
	a.holds = false
	a.mu.Unlock()
	if held {
		<-a.engine.inspections
	}
}
