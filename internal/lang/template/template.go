// Package template compiles override templates: changes of annotations, labels,
// resources, tolerations and affinity that are written in fields instead of a program.
//
// A template becomes a plan, a list of guarded edits. [Compile] carries it out in Go and
// [Render] prints it as the CUE program that a policy stores as renderedCue; both come to
// the same patch for every object.
package template

import (
	"context"
	"fmt"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/lang/reference"
	"github.com/usher-dev/usher/internal/rule"
)

// Compile returns the program of t, or nil and the problems of t, with fields relative to the
// overriders. A nil program without a problem means that t contains CUE, which needs an evaluator:
// run what [Render] returns, with [Params].
func Compile(t *v1alpha1.OverrideRuleTemplate) (rule.Program, []rule.Problem) {
	p, problems := compile(t)
	switch {
	case p == nil:
		return nil, problems
	case p.open():
		return nil, nil
	}
	return p, problems
}

// Params returns the function for the extraParams of the rendered program of t: the object or the
// response of its valueRef. Its error may be *fact.Missing.
func Params(t *v1alpha1.OverrideRuleTemplate) func(*rule.Input) (map[string]any, error) {
	p, _ := compile(t)
	return func(in *rule.Input) (map[string]any, error) {
		if p == nil || p.reference == nil {
			return nil, nil
		}
		name, value, err := p.reference.Param(in)
		if err != nil || name == "" {
			return nil, err
		}
		return map[string]any{name: value}, nil
	}
}

// ParamsDependOn returns on what the parameters of the program that [Render] returns depend.
func ParamsDependOn(t *v1alpha1.OverrideRuleTemplate) rule.Dependencies {
	p, _ := compile(t)
	if p == nil {
		return 0
	}
	return p.reference.DependsOn()
}

// compile returns the plan of t, nil if it has an Error problem.
func compile(t *v1alpha1.OverrideRuleTemplate) (*plan, []rule.Problem) {
	if t == nil {
		return nil, []rule.Problem{wrong("", "the template is missing", "say its type")}
	}
	switch t.Operation {
	case v1alpha1.OperatorAdd, v1alpha1.OperatorReplace, v1alpha1.OperatorRemove:
	default:
		return nil, []rule.Problem{wrong("operation", fmt.Sprintf("unknown operation %q", t.Operation), "use add, replace or remove")}
	}
	p := &plan{name: fmt.Sprintf("%s %s", t.Operation, t.Type)}
	var problems []rule.Problem
	switch t.Type {
	case v1alpha1.TemplateAnnotations, v1alpha1.TemplateLabels:
		problems = p.metadata(t)
	case v1alpha1.TemplateResources:
		problems = p.resources(t)
	case v1alpha1.TemplateResourcesOversell:
		problems = p.oversell(t)
	case v1alpha1.TemplateTolerations:
		problems = p.tolerations(t)
	case v1alpha1.TemplateAffinity:
		problems = p.affinity(t)
	default:
		problems = []rule.Problem{wrong("type", fmt.Sprintf("unknown template type(%s)", t.Type),
			"use annotations, labels, resources, resourcesOversell, tolerations or affinity")}
	}
	if len(rule.Errors(problems)) > 0 {
		return nil, problems
	}
	want(p)
	return p, problems
}

// A plan is the steps of a template, in order.
type plan struct {
	name string
	// details say in String what name does not.
	details []string
	steps   []step
	// texts are the texts with interpolations, and reference is where a value comes from,
	// nil if the program does not need it.
	texts     []*reference.Text
	reference *reference.Reference
	// declares make the fields that the rendered program declares for its patches, and
	// imports are the packages that they and the steps use.
	declares []func() []field
	imports  []string
	// inPod means that a step acts on the pod.
	inPod bool
	// object and old are the paths to all that the steps look at.
	object, old usher.Paths
}

// want adds the paths that the steps read in addition to the map that they change: the pod, and
// references.
func want(p *plan) {
	if p.inPod {
		p.object.Add("spec")
		p.object.Add("template", "spec")
	}
	for _, t := range p.texts {
		t.Want(&p.object, &p.old)
	}
	if p.reference != nil {
		p.reference.Want(&p.object, &p.old)
	}
}

// ReadPaths implements [rule.Selective].
func (p *plan) ReadPaths() (object, old *usher.Paths) { return &p.object, &p.old }

// fewSteps is how many steps, each with a key of an object, are taken in a moment.
const fewSteps = 16

// Brief implements [rule.Brief]: texts of constants are put where keys of the object lead.
func (p *plan) Brief() bool {
	return !p.inPod && p.reference == nil && len(p.steps) <= fewSteps && !slices.ContainsFunc(p.texts, func(t *reference.Text) bool {
		_, literal := t.Literal()
		return !literal
	})
}

// DependsOn implements [rule.Dependent].
func (p *plan) DependsOn(usher.Operation) rule.Dependencies { return p.reference.DependsOn() }

// A step returns operations.
type step interface {
	run(*run) error
	// cue is the step as an item of the list patches.
	cue() string
}

// A run is a plan being carried out.
type run struct {
	in    *rule.Input
	pod   pod
	patch usher.Patch
}

func (r *run) emit(op, path string, value any) {
	r.patch = append(r.patch, usher.PatchOp{Op: op, Path: path, Value: value})
}

// Run returns the patch of the template for the object of in.
func (p *plan) Run(ctx context.Context, in *rule.Input) (rule.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return rule.Outcome{}, fmt.Errorf("run template: %w", err)
	}
	r := run{in: in}
	if p.inPod {
		r.pod = podOf(in.Object)
	}
	for _, s := range p.steps {
		if err := s.run(&r); err != nil {
			return rule.Outcome{}, fmt.Errorf("run template %s: %w", p.name, err)
		}
	}
	return rule.Outcome{Patch: r.patch}, nil
}

// String is the template in one stable line.
func (p *plan) String() string {
	if len(p.details) == 0 {
		return p.name
	}
	return p.name + " " + strings.Join(p.details, ", ")
}

// open reports whether only a CUE evaluator can carry the plan out.
func (p *plan) open() bool {
	for _, t := range p.texts {
		if t.Open() {
			return true
		}
	}
	return p.reference != nil && p.reference.Open()
}

func wrong(field, what, do string) rule.Problem {
	return problem(rule.Error, field, what, do)
}

func odd(field, what, do string) rule.Problem {
	return problem(rule.Warning, field, what, do)
}

func problem(severity rule.Severity, field, what, do string) rule.Problem {
	path := "template"
	if field != "" {
		path += "." + field
	}
	return rule.Problem{Severity: severity, Field: path, What: what, Do: do}
}
