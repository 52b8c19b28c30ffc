package cue

import "context"

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
