package engine

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	usher "github.com/usher-dev/usher"
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
	repeat  record
	culprit *rule.Step
	failure error
	// silent is how many findings the first attempt has told.
	silent int

	decision usher.Decision
	err      error

	// What follows is that of the first attempt, and read by who leaves it.
	mu   sync.Mutex
	left bool
	record
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

// leavable reports whether the evaluation has to go on on a goroutine that can be left, because of rules to run.
func (a *attempt) leavable(rules ...*rule.Rule) bool {
	return !a.inline && !a.careful && !a.moved && slices.ContainsFunc(rules, func(r *rule.Rule) bool { return !r.Brief() })
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
	e, kept := a.engine, a.record
	if cap(kept.events) > maxKeptEvents || cap(kept.said) > maxKeptEvents {
		kept = record{}
	}
	clear(kept.events)
	clear(kept.said)
	*a = attempt{record: record{kept.events[:0], kept.said[:0]}}
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
	second.repeat, second.silent, second.inspects = a.record, a.told, a.inspects
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
func (a *attempt) overdue(ctx context.Context, err error) *OverrunError {
	limit := time.Since(a.began)
	if at, ok := ctx.Deadline(); ok {
		limit = max(at.Sub(a.began), 0)
	}
	return &OverrunError{Limit: limit.Round(time.Millisecond), Request: true, Err: err}
}

// repeats reports whether there is more that the first attempt has found out.
func (a *attempt) repeats() bool { return len(a.repeat.events) > 0 || a.culprit != nil }

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

// pause is end for work that cannot be repeated.
func (a *attempt) pause() {
	a.lock()
	a.until = time.Time{}
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
func (a *attempt) tell(d *findings, f *usher.Finding) {
	if a.silent > 0 {
		a.silent--
		return
	}
	if d.last == nil {
		d.last = &usher.Finding{}
	}
	*d.last = *f
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
