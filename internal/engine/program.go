package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/breaker"
	"github.com/usher-dev/usher/internal/overrun"
	"github.com/usher-dev/usher/internal/rule"
)

// errNotInspected is the error of an inspection of a request for which a policy took too long.
var errNotInspected = errors.New("the objects that exist were not judged: evaluating the request took too long")

// program runs the program of the step at work, or returns what it has said in the attempt before.
func (a *ruleRun) program(ctx context.Context) (out rule.Outcome, err error) {
	at, r := a.attempt, a.request
	if out, err, known := at.next(a.step); known {
		return out, err
	}
	if at.inline || a.brief || brief(a.step.Program) {
		out, err = run(a.step.Program, a.frame)
		a.turn.End()
		err = a.overrun(ctx, err)
		at.ran(a.step, &out, err)
		return out, err
	}
	watch := a.engine.options.Overruns
	retry, err := watch.Allow(a.rule.Policy, a.rule.Name, r.User.Name, r.Namespace)
	if err != nil {
		return a.unrun(err)
	}
	if at.careful {
		return a.careful(ctx, retry)
	}
	at.start(running{a.rule, a.step, a.frame.ctx.At, retry, a.turn})
	out, err = run(a.step.Program, a.frame)
	a.turn.End()
	err = a.overrun(ctx, err)
	at.end(&out, err)
	if retry != nil {
		watch.Ended(a.rule.Policy, a.rule.Name, r.User.Name, r.Namespace, retry)
	}
	return out, err
}

func brief(p rule.Program) bool {
	b, ok := p.(rule.Brief)
	return ok && b.Brief()
}

// unrun is the outcome of a rule that must not run: it fails, unless it is not for the request.
func (a *ruleRun) unrun(why error) (out rule.Outcome, err error) {
	defer catch(&err)
	if s, ok := a.step.Program.(rule.Skipper); ok {
		if out.Skipped, err = s.Skips(&a.frame.input); err != nil || out.Skipped != "" {
			return out, err
		}
	}
	return rule.Outcome{}, fmt.Errorf("not run: %w", why)
}

// run runs a program. It turns a panic into an error.
func run(p rule.Program, f *frame) (out rule.Outcome, err error) {
	defer catch(&err)
	return p.Run(&f.ctx, &f.input)
}

// careful runs the program of the step at work on a goroutine that can be left.
func (a *ruleRun) careful(ctx context.Context, t breaker.Retry) (rule.Outcome, error) {
	if overdue(ctx) {
		return rule.Outcome{}, a.attempt.overdue(ctx, nil)
	}
	// The memo is that of the program alone: it may go on using it.
	var said struct {
		out rule.Outcome
		err error
	}
	own := a.frame
	own.input.Memo = &rule.Memo{}
	program := a.step.Program
	g := a.engine.options.Overruns.Go(func() { said.out, said.err = run(program, own) })
	due := own.ctx.At.Add(ruleGrace)
	if at, ok := ctx.Deadline(); ok && at.Add(requestGrace).Before(due) {
		due = at.Add(requestGrace)
	}
	if !g.Wait(time.Until(due)) {
		at, _ := own.ctx.Deadline()
		g.Leave(late(a.evaluation, a.rule, at, t))
		a.turn.Leave()
		return rule.Outcome{}, a.overrun(ctx, context.DeadlineExceeded)
	}
	a.turn.End()
	if t != nil {
		a.engine.options.Overruns.Ended(a.rule.Policy, a.rule.Name, a.request.User.Name, a.request.Namespace, t)
	}
	return said.out, a.overrun(ctx, said.err)
}

// late describes the rule that is left.
func late(d *evaluation, r *rule.Rule, due time.Time, t breaker.Retry) overrun.Overrun {
	return overrun.Overrun{
		Policy: r.Policy, Rule: r.Name, User: d.request.User.Name, Namespace: d.request.Namespace, Due: due, Retry: t,
	}
}

// overrun returns the error of a program, which says so if its time is over.
func (a *ruleRun) overrun(ctx context.Context, err error) error {
	switch {
	case err == nil || isMissing(err):
		return err
	case overdue(ctx):
		over := a.attempt.overdue(ctx, err)
		over.Starved = a.turn.Starved()
		return over
	case a.frame.ctx.Err() != nil && ctx.Err() == nil:
		return &OverrunError{Limit: a.engine.options.RuleTimeout, Starved: a.turn.Starved(), Err: err}
	}
	return err
}

// lookUp resolves a fact for a rule. In a second attempt it does not wait for a resolver that goes on after the
// request's time.
func lookUp(ctx context.Context, d *evaluation, r *rule.Rule, ref fact.Ref) (any, error) {
	resolver := d.engine.resolver
	if !d.attempt.careful {
		d.attempt.start(running{rule: r})
		return resolver.Resolve(ctx, ref)
	}
	at, limited := ctx.Deadline()
	if !limited {
		return resolver.Resolve(ctx, ref)
	}
	var found struct {
		value any
		err   error
	}
	g := d.engine.options.Overruns.Go(func() { found.value, found.err = resolver.Resolve(ctx, ref) })
	if !g.Wait(time.Until(at.Add(requestGrace))) {
		g.Leave(late(d, r, at, nil))
		return nil, context.DeadlineExceeded
	}
	return found.value, found.err
}

// ended reports whether the time of the request is over, or nobody waits for a decision. What rules are
// known to have said was said in time.
func (d *evaluation) ended(ctx context.Context) bool { return !d.attempt.repeats() && ctx.Err() != nil }

// unreached is the finding of a rule that is not run, since ctx has ended. The error is that of ctx if
// there is no decision.
func (d *evaluation) unreached(ctx context.Context, r *rule.Rule) (result, usher.Finding, error) {
	var res result
	finding := usher.Finding{Policy: r.Policy, Rule: r.Name}
	if d.workload != nil {
		finding.PodOf = d.workload.String()
	}
	if overdue(ctx) {
		fail(d, r, &res, &finding, d.attempt.overdue(ctx, rule.ErrUnreached))
		return res, finding, nil
	}
	finding.Outcome, finding.Err, finding.Ignored = usher.Failed, ended(ctx, r), d.ignores(r)
	return res, finding, finding.Err
}
