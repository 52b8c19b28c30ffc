package cue

import (
	"context"
	"encoding/json"
	"time"

	"github.com/usher-dev/usher/internal/lang/cue/internal/closure"
	"github.com/usher-dev/usher/internal/rule"
)

// Whole returns p as it would be if it read its parameters whole.
func (p *Program) Whole() *Program {
	slow := p.Slowly()
	slow.reads = map[string]*need{}
	for _, name := range p.form.params() {
		slow.reads[name] = &need{whole: true}
	}
	return slow
}

// Slowly returns p as it would be if it were not translated.
func (p *Program) Slowly() *Program {
	slow := &Program{
		form: p.form, source: p.source, key: p.key, tenant: p.tenant, extra: p.extra, evaluator: p.evaluator, analysis: p.analysis,
	}
	slow.translation = nil
	return slow
}

// On returns p as it would be on another evaluator.
func (p *Program) On(e *Evaluator) *Program {
	other := p.Slowly()
	other.evaluator, other.translation = e, p.translation
	return other
}

// Fake returns an evaluator that is answered by a function.
func Fake(l Limits, answer func(ctx context.Context, limit time.Duration) (time.Duration, error)) *Evaluator {
	return newEvaluator(l, fake(answer))
}

type fake func(ctx context.Context, limit time.Duration) (time.Duration, error)

func (f fake) do(ctx context.Context, _ string, limit time.Duration, _ *request, _ string) (*response, time.Duration, error) {
	took, err := f(ctx, limit)
	return &response{}, took, err
}

func (fake) hold()    {}
func (fake) release() {}

// Idle returns a program that exists only to be suspended.
func Idle(e *Evaluator) *Program { return &Program{evaluator: e} }

// Evaluate runs p for an object of this writer.
func Evaluate(ctx context.Context, p *Program, writer string) error {
	_, err := p.evaluator.evaluate(ctx, p, writer, &request{})
	return err
}

// Decode reads what a worker has sent.
func Decode(data []byte, limit int) error {
	r, err := read(data, limit)
	if err == nil {
		_ = r.outcome()
	}
	return err
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
	j := projection{limits: &Limits{Values: 1 << 30, Bytes: 1 << 30}}
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

// Requests returns a request in the form in which it is sent, and in that of json.Marshal.
func Requests(source string, check bool, input, output map[string]any) (sent, marshaled []byte, err error) {
	r := &request{Key: keyOf(source, Validate), Source: source, Form: Validate, Check: check, Input: input, Output: output}
	if sent, err = r.encode(); err != nil {
		return nil, nil, err
	}
	marshaled, err = json.Marshal(r)
	return sent, marshaled, err
}
