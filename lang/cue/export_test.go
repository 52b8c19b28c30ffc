package cue

import (
	"context"

	"github.com/usher-dev/usher/lang/cue/internal/closure"
	"github.com/usher-dev/usher/rule"
)

// Whole returns p as it would be if it read its parameters whole.
func (p *Program) Whole() *Program {
	whole := map[string]*need{}
	for _, name := range p.form.params() {
		whole[name] = &need{whole: true}
	}
	return &Program{
		form: p.form, extra: p.extra, evaluator: p.evaluator, context: p.context, value: p.value,
		output: p.output, reads: whole, fetches: p.fetches, labels: p.labels, bound: p.bound,
	}
}

// Idle returns a program that exists only to be suspended.
func Idle(e *Evaluator) *Program { return &Program{evaluator: e} }

// Evaluate runs fn for p the way an evaluation is run.
func Evaluate(ctx context.Context, p *Program, fn func() (int, error)) (int, error) {
	return evaluate(ctx, p, fn)
}

// Slowly returns p as it would be if it were not translated.
func (p *Program) Slowly() *Program {
	return &Program{
		form: p.form, extra: p.extra, evaluator: p.evaluator, context: p.context, value: p.value,
		output: p.output, reads: p.reads, fetches: p.fetches, labels: p.labels, bound: p.bound,
		object: p.object, old: p.old,
	}
}

// Closures runs only the translation of p; it is not ok if there is none, or if it leaves
// the answer to the evaluator.
func (p *Program) Closures(in *rule.Input) (rule.Outcome, bool) {
	params, err := p.params(in)
	if err != nil || p.translation == nil {
		return rule.Outcome{}, false
	}
	return p.translated(&params)
}

// ClosuresOfParts is Closures with nothing of the input but what p reads.
func (p *Program) ClosuresOfParts(in *rule.Input) (rule.Outcome, bool) {
	params, err := p.params(in)
	if err != nil || p.translation == nil {
		return rule.Outcome{}, false
	}
	keys := newKeySet(1 << 30)
	j := projection{limits: &Limits{Values: 1 << 30, Bytes: 1 << 30}, keys: &keys}
	for i := range params {
		need, ok := p.reads[params[i].Name]
		if !ok {
			params[i] = closure.Param{}
			continue
		}
		if params[i].Value, err = j.value(params[i].Value, need, 0); err != nil {
			return rule.Outcome{}, false
		}
	}
	return p.translated(&params)
}
