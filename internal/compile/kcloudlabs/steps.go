package kcloudlabs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/lang/condition"
	"github.com/usher-dev/usher/internal/lang/cue"
	"github.com/usher-dev/usher/internal/lang/origin"
	"github.com/usher-dev/usher/internal/lang/patch"
	"github.com/usher-dev/usher/internal/lang/template"
	"github.com/usher-dev/usher/internal/rule"
)

// overriders returns the steps of an override rule in the documented order of kinitiras:
// template, cue, plaintext, origin.
func (c *compilation) overriders(ctx context.Context, field string, o *v1alpha1.Overriders) []rule.Step {
	var steps []rule.Step
	if o.Template != nil {
		steps = append(steps, c.step("template", field, func() (rule.Program, []rule.Problem) {
			return overrideTemplate(ctx, o.Template, c.options())
		}))
	}
	if o.Cue != "" {
		steps = append(steps, c.step("cue", field, func() (rule.Program, []rule.Problem) {
			return handWritten(ctx, o.Cue, cue.Override, c.options())
		}))
	}
	if len(o.Plaintext) > 0 {
		steps = append(steps, c.step("plaintext", field, func() (rule.Program, []rule.Problem) {
			return patch.Compile(o.Plaintext)
		}))
	}
	if len(o.Origin) > 0 {
		steps = append(steps, c.step("origin", field, func() (rule.Program, []rule.Problem) {
			return origin.Compile(o.Origin)
		}))
	}
	c.idle(field, steps, o.RenderedCue, "add template, cue, plaintext or origin")
	return steps
}

// validators returns the steps of a validate rule: template, then cue.
func (c *compilation) validators(ctx context.Context, field string, r *v1alpha1.ValidateRule) []rule.Step {
	var steps []rule.Step
	if r.Template != nil {
		steps = append(steps, c.step("template", field, func() (rule.Program, []rule.Problem) {
			return validateTemplate(ctx, r.Template, c.options())
		}))
	}
	if r.Cue != "" {
		steps = append(steps, c.step("cue", field, func() (rule.Program, []rule.Problem) {
			return handWritten(ctx, r.Cue, cue.Validate, c.options())
		}))
	}
	c.idle(field, steps, r.RenderedCue, "add template or cue")
	return steps
}

// idle warns of a rule without steps.
func (c *compilation) idle(field string, steps []rule.Step, renderedCue, do string) {
	switch {
	case len(steps) > 0:
	case renderedCue != "":
		c.warn(join(field, "renderedCue"), "renderedCue is run for a template only and there is none: the rule does nothing",
			"move it to cue: it is not the place for programs of your own")
	default:
		c.warn(field, "the rule does nothing", do)
	}
}

// step compiles one step. One that does not compile always fails.
func (c *compilation) step(name, field string, compile func() (rule.Program, []rule.Problem)) rule.Step {
	program, problems := recovered(name, compile)
	c.add(field, problems)
	if errs := rule.Errors(problems); len(errs) > 0 {
		program = broken(errs)
	}
	c.noteSecrets(name, field, program)
	return rule.Step{Name: name, Program: program}
}

// recovered calls compile and turns a panic into a problem: the compiler of a language
// may meet a text that its authors did not think of.
func recovered(name string, compile func() (rule.Program, []rule.Problem)) (program rule.Program, problems []rule.Problem) {
	defer func() {
		if panicked := recover(); panicked != nil {
			program, problems = nil, []rule.Problem{{
				Severity: rule.Error, Field: name, What: fmt.Sprintf("compiling it panicked: %v", panicked),
				Do: "write it in another way, and report it as a defect",
			}}
		}
	}()
	return compile()
}

// overrideTemplate compiles a template to closures, or, if it holds CUE that only an
// evaluator can make sense of, to the program that it renders to.
func overrideTemplate(ctx context.Context, t *v1alpha1.OverrideRuleTemplate, o cue.Options) (rule.Program, []rule.Problem) {
	program, problems := template.Compile(t)
	if program != nil || len(rule.Errors(problems)) > 0 {
		return program, problems
	}
	source, problems := template.Render(t)
	o.ExtraParams, o.DependsOn = template.Params(t), template.ParamsDependOn(t)
	return rendered(ctx, source, problems, cue.RenderedOverride, o)
}

// validateTemplate is overrideTemplate for validate templates.
func validateTemplate(ctx context.Context, t *v1alpha1.ValidateRuleTemplate, o cue.Options) (rule.Program, []rule.Problem) {
	program, problems := condition.Compile(t)
	if t.Condition != nil && t.Condition.Message == "" && t.Condition.AffectMode != v1alpha1.AffectAllow && program != nil {
		problems = append(problems, rule.Problem{
			Severity: rule.Warning, Field: "template.condition.message", What: "who is refused is not told why", Do: "set message",
		})
	}
	if program != nil || len(rule.Errors(problems)) > 0 {
		return program, problems
	}
	source, problems := condition.Render(t)
	o.ExtraParams, o.DependsOn = condition.Params(t), condition.ParamsDependOn(t)
	program, problems = rendered(ctx, source, problems, cue.RenderedValidate, o)
	if program == nil {
		return nil, problems
	}
	return condition.Evaluated(t, program), problems
}

func rendered(ctx context.Context, source string, problems []rule.Problem, form cue.Form, o cue.Options) (rule.Program, []rule.Problem) {
	if len(rule.Errors(problems)) > 0 {
		return nil, problems
	}
	program, found := cue.Compile(ctx, source, form, o)
	for _, p := range found {
		// The author has not written the program and cannot change it.
		p.Field, p.Do = "template", ""
		p.What = "the CUE in the template: " + p.What
		problems = append(problems, p)
	}
	if program == nil {
		return nil, problems
	}
	return program, problems
}

func handWritten(ctx context.Context, source string, form cue.Form, o cue.Options) (rule.Program, []rule.Problem) {
	program, problems := cue.Compile(ctx, source, form, o)
	for i := range problems {
		if problems[i].Field == "" {
			problems[i].Field = "cue"
		}
	}
	if program == nil {
		return nil, problems
	}
	return program, problems
}

// options returns those of all CUE of the policy.
func (c *compilation) options() cue.Options {
	return cue.Options{Tenant: c.ref.Namespace, Evaluator: c.compiler.CUE}
}

// broken stands where a part of the policy does not compile.
func broken(errs []rule.Problem) rule.Program {
	whats := make([]string, len(errs))
	for i, p := range errs {
		whats[i] = p.Text()
	}
	return failure(strings.Join(whats, "; "))
}

// A failure is a program that always fails.
type failure string

func (f failure) Run(context.Context, *rule.Input) (rule.Outcome, error) {
	return rule.Outcome{}, errors.New("policy does not compile: " + string(f))
}

// DependsOn implements [rule.Dependent].
func (f failure) DependsOn(usher.Operation) rule.Dependencies { return 0 }

func (f failure) String() string { return "does not compile: " + string(f) }
