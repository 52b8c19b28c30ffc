package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/deadline"
	"github.com/usher-dev/usher/internal/overrun"
	"github.com/usher-dev/usher/internal/rule"
)

// A result is that of a rule: complete or, after a failure, empty. After a rejection there are
// warnings, but no patch.
type result struct {
	rejected bool
	message  string
	note     string
	reason   string
	code     int32
	// skipped, unless empty, is why the rule turned out not to be for the request.
	skipped string
	// condition is the match condition that is false, if that is why.
	condition string
	audit     []rule.Annotation
	checks    []usher.Check
	// patch is what the rule changed.
	patch    usher.Patch
	warnings []string
	inspect  *rule.Inspection
}

// An attempt is one rule at work.
type ruleRun struct {
	*evaluation
	rule *rule.Rule
	// turn is that of the namespace of the rule, nil for a rule of the cluster.
	turn *overrun.Turn
	// step is the one at work, or the last one.
	step  *rule.Step
	frame *frame
	// facts are those that the rule has used and, if its bounds allow them, those that the rules
	// before have used.
	facts *fact.Known
	// asked counts the facts that the rule has used.
	asked int
}

// A frame is the input of a program. Only after brief programs it is reused for another rule: others may have left
// goroutines that still read it.
type frame struct {
	ctx   deadline.Context
	input rule.Input
}

// A frames has the frames of an evaluation: those that nobody has used, and the one of all brief rules.
type frames struct {
	unused []frame
	brief  *frame
}

// frame returns the frame of a rule.
func (d *evaluation) frame(r *rule.Rule) *frame {
	const several = 8
	of := &d.frames
	if r.Brief() {
		if of.brief == nil {
			of.brief = &frame{}
		}
		return of.brief
	}
	if len(of.unused) == 0 {
		of.unused = make([]frame, min(several, max(len(d.matched), 1)))
	}
	f := &of.unused[0]
	of.unused = of.unused[1:]
	return f
}

// share returns the share of the namespace of a rule, which is also that for the pod that a workload would
// make.
func (d *evaluation) share(r *rule.Rule) overrun.Share {
	request := d
	for request.of != nil {
		request = request.of
	}
	return request.shares.Of(d.engine.options.Overruns, r.Policy.Namespace)
}

// runRule runs the steps of a rule. It turns a panic into an error.
func runRule(ctx context.Context, d *evaluation, r *rule.Rule, start time.Time) (res result, err error) {
	share := d.share(r)
	a := ruleRun{evaluation: d, rule: r, turn: share.Turn, frame: d.frame(r), facts: d.factsOf(r)}
	a.frame.ctx = deadline.Context{Context: ctx, At: start.Add(d.engine.options.RuleTimeout)}
	a.frame.input = rule.Input{
		Request: d.request, Object: d.tree, Unchanged: len(d.applied) == 0 && d.less == nil, Matched: d.began, OldObject: d.old,
		Workload: d.workload, Facts: a.facts, Allowance: share.Allowance, Memo: d.memo, Exempt: d.less,
	}
	defer func() {
		a.frame.ctx.Release()
		if err != nil {
			res, err = result{}, a.explain(err)
		}
	}()
	defer catch(&err)
	return a.steps(ctx)
}

// explain prefixes err with the name of the step.
func (a *ruleRun) explain(err error) error {
	if a.step == nil || a.step.Name == "" {
		return err
	}
	return fmt.Errorf("%s: %w", a.step.Name, err)
}

func (a *ruleRun) steps(ctx context.Context) (res result, _ error) {
	for i := range a.rule.Steps {
		a.step = &a.rule.Steps[i]
		out, err := a.outcome(ctx)
		if err != nil {
			return result{}, err
		}
		res.add(&out)
		if out.Verdict == usher.Deny {
			res.rejected, res.message, res.note = true, out.Message, out.Note
			res.reason, res.code = out.Reason, out.Code
			return res, nil
		}
		if out.Skipped != "" {
			break
		}
		if len(out.Patch) == 0 || a.request.Phase != usher.Mutate {
			continue
		}
		if err := a.change(out.Patch); err != nil {
			return result{}, err
		}
		a.frame.input.Object, a.frame.input.Unchanged = a.tree, false
	}
	res.patch = a.changed()
	return res, nil
}

// add takes over what a step says besides its verdict.
func (r *result) add(out *rule.Outcome) {
	r.warnings = append(r.warnings, out.Warnings...)
	r.checks = append(r.checks, out.Checks...)
	r.audit = append(r.audit, out.Audit...)
	r.skipped, r.condition = out.Skipped, out.Condition
	if out.Inspect != nil {
		r.inspect = out.Inspect
	}
}

// outcome runs the program of a step, again each time that a fact it lacks is known.
func (a *ruleRun) outcome(ctx context.Context) (out rule.Outcome, err error) {
	for {
		if out, err = a.program(ctx); err == nil {
			return out, nil
		}
		if missing, ok := errors.AsType[*fact.Missing](err); ok {
			if err := a.resolve(ctx, missing.Ref); err != nil {
				return rule.Outcome{}, a.overrun(ctx, err)
			}
			continue
		}
		return rule.Outcome{}, err
	}
}

// resolve resolves a fact, or stores the error. The time it takes does not count as the program's.
func (a *ruleRun) resolve(ctx context.Context, ref fact.Ref) error {
	if _, err := a.facts.Value(ref); !isMissing(err) {
		return fmt.Errorf("asked again for the fact %s, which is known", ref)
	}
	if a.asked == a.engine.options.MaxFacts {
		return fmt.Errorf("asked for more than %d facts, the next being %s", a.asked, ref)
	}
	if a.workload != nil && !ref.Safe() {
		// The refusal is no fact that other rules share.
		return fmt.Errorf("fact %s: %w", ref, errNoPod)
	}
	a.asked++
	left := time.Until(a.frame.ctx.At)
	value, err, known := a.attempt.nextFact(ref)
	if !known {
		if value, err = a.fetch(ctx, ref); err != nil {
			if ctx.Err() != nil {
				return err
			}
			err = fmt.Errorf("fact %s: %w", ref, err)
		}
		a.attempt.keepFact(ref, value, err)
	}
	a.facts.Set(ref, value, err)
	a.frame.ctx.Release()
	a.frame = &frame{
		ctx:   deadline.Context{Context: ctx, At: time.Now().Add(left)},
		input: a.frame.input,
	}
	return nil
}

// fetch resolves a fact. Usher's webhooks declare no side effects, so API servers send dry runs:
// those must change nothing.
func (a *ruleRun) fetch(ctx context.Context, ref fact.Ref) (any, error) {
	if a.request.DryRun && !ref.Safe() {
		return nil, fact.ErrDryRun
	}
	// Nothing refers to a itself, so that it is on the stack.
	d, r := a.evaluation, a.rule
	from := fact.ResolverFunc(func(ctx context.Context, ref fact.Ref) (any, error) { return lookUp(ctx, d, r, ref) })
	return r.Facts.Resolve(fact.ForTenant(ctx, r.Policy.Namespace), from, ref)
}

func isMissing(err error) bool {
	_, ok := errors.AsType[*fact.Missing](err)
	return ok
}
