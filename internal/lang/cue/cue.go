// Package cue runs policies written in CUE: as Go closures if their result is certain to be the
// same, otherwise on CUE's own evaluator.
//
// A source is compiled once; the cost of an evaluation depends on the part of the object that the
// source reads, since only that is passed to the evaluator. Sources mean what they meant to CUE
// v0.4.3, which the original engine embeds. Where the newer evaluator cannot keep that meaning and
// the source shows it, Compile says so. Two things it cannot see: lists of objects that come from
// the input compare by content (v0.4.3 called them different, always), and an expression that only
// bounds narrow down to one value, such as >0 & <2 & int, is not that value.
//
// The evaluator can be neither cancelled nor bounded, and remembers every field name
// that it ever saw. So it runs in processes that can be killed: see [Main].
package cue

import (
	"context"
	"fmt"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/breaker"
	"github.com/usher-dev/usher/internal/lang/cue/internal/closure"
	"github.com/usher-dev/usher/internal/rule"
)

// A Form defines which parameters a source gets and where its result is.
type Form int

const (
	// Override sources turn object into patches. They get no oldObject, not even on
	// UPDATE.
	Override Form = iota
	// Validate sources turn object, and on UPDATE oldObject, into validate.
	Validate
	// RenderedOverride sources turn data.object, data.oldObject ({} if there is none)
	// and data.extraParams into patches.
	RenderedOverride
	// RenderedValidate sources turn data.object, data.oldObject (null but on UPDATE) and
	// data.extraParams into validate.
	RenderedValidate
)

// String is the form in one word.
func (f Form) String() string {
	switch f {
	case Override:
		return "override"
	case Validate:
		return "validate"
	case RenderedOverride:
		return "rendered override"
	case RenderedValidate:
		return "rendered validate"
	}
	return fmt.Sprintf("form %d", int(f))
}

// field is the field of a policy that holds sources of this form.
func (f Form) field() string {
	if f == RenderedOverride || f == RenderedValidate {
		return "renderedCue"
	}
	return "cue"
}

// output is the name of the field that holds the result.
func (f Form) output() string {
	if f == Override || f == RenderedOverride {
		return "patches"
	}
	return "validate"
}

// params are the names that a source of this form is given.
func (f Form) params() []string {
	switch f {
	case Override:
		return []string{"object"}
	case Validate:
		return []string{"object", "oldObject"}
	case RenderedOverride, RenderedValidate:
	}
	return []string{"data"}
}

// Options are what a source needs besides its text. The zero Options works.
type Options struct {
	// ExtraParams returns data.extraParams of the rendered forms; nil means none. Its
	// error, which may be *fact.Missing, is that of the program.
	ExtraParams func(*rule.Input) (map[string]any, error)
	// DependsOn says on what ExtraParams depends.
	DependsOn rule.Dependencies
	// Evaluator is where the program runs; nil means [Default].
	Evaluator *Evaluator
	// Tenant is the owner of the source: the namespace of the policy. Evaluations of a tenant wait
	// in its own queue.
	Tenant string
}

// A Program is a compiled source.
type Program struct {
	form      Form
	source    string
	key       string
	tenant    string
	extra     func(*rule.Input) (map[string]any, error)
	dependsOn rule.Dependencies
	evaluator *Evaluator
	breaker   breaker.Breaker

	analysis
}

// An analysis is the result of analysing a source.
type analysis struct {
	// reads is what the evaluator gets of each parameter; a parameter that is missing here is not
	// read.
	reads map[string]*need
	// fetches means that the source may have a processing.http block.
	fetches bool
	// pointers are the paths that the source may patch, as far as they are literals.
	pointers []string
	// translation is the source as closures, nil if that is not possible; obstacle then has the
	// reason.
	translation *closure.Program
	obstacle    string
	// object and old are the paths to all that is read of the object and of the old one.
	object, old usher.Paths
}

// Fetches reports whether the source may ask for facts over HTTP.
func (p *Program) Fetches() bool { return p.fetches }

// Run evaluates the source. It needs a worker if closures have no result, and returns when ctx is
// done or the evaluator's limits are reached; the errors then are ctx's own, [ErrOverrun],
// [ErrSuspended] or [ErrTooLarge].
func (p *Program) Run(ctx context.Context, in *rule.Input) (rule.Outcome, error) {
	params, err := p.params(in)
	if err != nil {
		return rule.Outcome{}, err
	}
	if p.translation != nil && ctx.Err() == nil {
		if outcome, ok := p.translated(&params); ok {
			return outcome, nil
		}
	}
	r := p.question(params)
	answer, err := p.evaluator.evaluate(ctx, p, writerOf(in), r)
	if err != nil {
		return rule.Outcome{}, err
	}
	if answer.Fetch == nil {
		return answer.outcome(), nil
	}
	if r.Output, err = p.fetch(in, answer.Fetch); err != nil {
		return rule.Outcome{}, err
	}
	if answer, err = p.evaluator.evaluate(ctx, p, writerOf(in), r); err != nil {
		return rule.Outcome{}, err
	}
	return answer.outcome(), nil
}

// Glance implements [rule.Glancer]: closures may know soon that an object is valid.
func (p *Program) Glance(_ context.Context, in *rule.Input) (rule.Outcome, bool) {
	if p.translation == nil || p.extra != nil || p.form == Override || p.form == RenderedOverride {
		return rule.Outcome{}, false
	}
	params, err := p.params(in)
	return rule.Outcome{}, err == nil && p.translation.Passes(&params)
}

// DependsOn implements [rule.Dependent].
func (p *Program) DependsOn(usher.Operation) rule.Dependencies {
	if p.fetches {
		return p.dependsOn | rule.OnHTTP
	}
	return p.dependsOn
}

// writerOf names who writes the object of a request.
func writerOf(in *rule.Input) string {
	if in.Request == nil {
		return ""
	}
	return breaker.Writer(in.Request.User.Name, in.Request.Namespace)
}

// question calls an evaluator. It has a copy of the parameters, so that those of [Program.Run] stay
// on the stack if closures have the result.
func (p *Program) question(params closure.Params) *request {
	return &request{Key: p.key, Form: p.form, input: func() (map[string]any, error) { return p.project(&params) }}
}

// translated runs p as closures. It is not ok where the evaluator has to answer.
func (p *Program) translated(params *closure.Params) (rule.Outcome, bool) {
	if p.form == Override || p.form == RenderedOverride {
		return p.translation.Patch(params)
	}
	return p.translation.Verdict(params)
}

// Reads lists what of its parameters the source reads, sorted, such as
// "object.spec.containers[].image". What ends in ".*" is read whole.
func (p *Program) Reads() []string { return listReads(p.reads) }

// SlowPath returns why the program runs on CUE's evaluator, which is about a hundred times slower
// than closures, with the first place in the source that needs it; "" if it does not.
func (p *Program) SlowPath() string { return p.obstacle }

// String names the parameters and the result of the program.
func (p *Program) String() string {
	reads := p.Reads()
	if len(reads) == 0 {
		return p.form.output() + " from nothing"
	}
	return p.form.output() + " from " + strings.Join(reads, ", ")
}

// params returns the values of the parameters.
func (p *Program) params(in *rule.Input) (closure.Params, error) {
	update := in.OldObject != nil && in.Request != nil && in.Request.Operation == usher.Update
	switch {
	case p.form == Validate && update:
		return closure.Params{{Name: "object", Value: tree(in.Object)}, {Name: "oldObject", Value: in.OldObject}}, nil
	case p.form == Override, p.form == Validate:
		return closure.Params{{Name: "object", Value: tree(in.Object)}}, nil
	}
	data := map[string]any{"object": tree(in.Object), "extraParams": map[string]any{}}
	switch {
	case p.form == RenderedOverride && in.OldObject == nil:
		data["oldObject"] = map[string]any{}
	case p.form == RenderedOverride || update:
		data["oldObject"] = in.OldObject
	default:
		data["oldObject"] = nil
	}
	if p.extra != nil {
		extra, err := p.extra(in)
		if err != nil {
			return closure.Params{}, err
		}
		if extra != nil {
			data["extraParams"] = extra
		}
	}
	return closure.Params{{Name: "data", Value: data}}, nil
}

// tree turns a nil object into JSON null.
func tree(object map[string]any) any {
	if object == nil {
		return nil
	}
	return object
}
