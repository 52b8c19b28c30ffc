package admission

import (
	"context"
	"fmt"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/rule"
)

// An Outcome is the value of one expression, or its error.
type Outcome struct {
	Value ref.Val
	Err   error
}

// A Corpus is expressions of any type, each a program with the variables of a policy.
type Corpus struct {
	programs []*Program
	// withVariables says of each whether it reads variables.
	withVariables []bool
}

// CompileAny compiles expressions of any type. They see what validations of s see.
func CompileAny(s Code, texts ...string) (*Corpus, error) {
	count := func(e *cel.Environment, ast *celgo.Ast) (*cel.Program, error) {
		return e.PlanCounted(ast, celconfig.PerCallLimit)
	}
	counted, _, err := compileAny(s, count, texts)
	if err != nil {
		return nil, err
	}
	all, asts, err := compileAny(s, (*cel.Environment).Plan, texts)
	if err != nil {
		return nil, err
	}
	corpus := &Corpus{}
	for i := range texts {
		p := &Program{
			source: s, variables: all.variables, validations: all.validations[i : i+1], messages: []expression{{}},
			counted: func() []*cel.Program { return counted.counted() },
		}
		// What it reads does not depend on the other expressions.
		a := newAnalysis()
		for j := range s.Variables {
			a.add(asts[j])
			p.variables[j].has = a.variable(s.Variables[j].Name, p.variables[:j])
		}
		a.add(asts[len(s.Variables)+i])
		corpus.withVariables = append(corpus.withVariables, a.names.Mentions(variablesName))
		a.into(&a.limits.validations)
		a.reads.object, a.reads.old, a.reads.params = a.reads.keyed(objectName), a.reads.keyed(oldObjectName), a.reads.keyed(paramsName)
		p.reads, p.limits, p.deciding = a.reads, a.limits, a.limits
		corpus.programs = append(corpus.programs, p)
	}
	return corpus, nil
}

func compileAny(s Code, plan planner, texts []string) (*Program, []*celgo.Ast, error) {
	e := takeEnvironments()
	defer e.release()
	c := &compilation{environments: e, budget: &cel.Budget{}, plan: plan, declared: declared{params: s.Params, authorizer: true}, analysis: newAnalysis()}
	p := &Program{source: s}
	var asts []*celgo.Ast
	compile := func(field, text string, outputs ...*celgo.Type) (expression, *celgo.Type) {
		compiled, output := c.compile(field, text, outputs...)
		var ast *celgo.Ast
		if compiled.err == nil {
			ast, _, _ = e.of[c.declared].Check(&cel.Budget{}, text)
		}
		asts = append(asts, ast)
		return compiled, output
	}
	for i, v := range s.Variables {
		compiled, output := compile(fmt.Sprintf("spec.variables[%d].expression", i), v.Expression, celgo.AnyType, celgo.DynType)
		e.variables.Fields[v.Name] = required(v.Name, declaredType(output))
		p.variables = append(p.variables, variable{name: v.Name, expression: compiled})
	}
	for _, text := range texts {
		compiled, _ := compile("spec.validations", text, celgo.AnyType)
		p.validations = append(p.validations, compiled)
	}
	p.counted = func() []*cel.Program { return c.programs }
	return p, asts, nil
}

// ValueOf evaluates the ith expression, counting its cost, and returns what is left of the budget.
// The error is [*fact.Missing], or that the budget is spent.
func (c *Corpus) ValueOf(ctx context.Context, in *Input, i int, budget int64) (Outcome, int64, error) {
	p := c.programs[i]
	a := in.activation(p, withNamespace|withAuthorizer)
	a.counted = p.counted()
	return a.valueOf(ctx, budget)
}

// PlainValueOf is ValueOf without counting.
func (c *Corpus) PlainValueOf(ctx context.Context, in *Input, i int) (Outcome, error) {
	a := in.activation(c.programs[i], withNamespace|withAuthorizer)
	a.counted = nil
	value, _, err := a.valueOf(ctx, celconfig.RuntimeCELCostBudget)
	return value, err
}

func (a *activation) valueOf(ctx context.Context, budget int64) (Outcome, int64, error) {
	values, left, err := a.evaluateAll(ctx, a.program.validations, budget)
	if stop := interrupted(ctx, a); stop != nil {
		return Outcome{}, -1, stop
	}
	if err != nil {
		return Outcome{}, -1, err
	}
	return Outcome{values[0].value, values[0].err}, left, nil
}

// Bound returns the bound of the cost of the ith expression with the variables, if it reads any.
func (c *Corpus) Bound(in *Input, i int) float64 {
	p := c.programs[i]
	size := p.reads.size(in, p)
	bound := p.limits.validations.At(size)
	if c.withVariables[i] {
		bound += p.limits.variables.At(size)
	}
	return bound
}

// ReadPaths returns the paths that the ith expression reads.
func (c *Corpus) ReadPaths(i int) (object, old *usher.Paths) { return c.programs[i].ReadPaths() }

// CompileBoth compiles expressions of any type to programs of which ValueOf is what cel-go says without
// counting, and PlainValueOf what closures say. Expressions may also make patches.
func CompileBoth(s Code, texts ...string) (*Corpus, error) {
	e := takeEnvironments()
	defer e.release()
	var interpreted []*cel.Program
	plan := func(e *cel.Environment, ast *celgo.Ast) (*cel.Program, error) {
		whole, err := e.PlanPart(ast, ast.NativeRep().Expr())
		if err != nil {
			return nil, err
		}
		closures, err := e.Plan(ast)
		if err == nil {
			interpreted = append(interpreted, whole)
		}
		return closures, err
	}
	c := &compilation{environments: e, budget: &cel.Budget{}, plan: plan, declared: declared{params: s.Params, authorizer: true, patchTypes: true}, analysis: newAnalysis()}
	all := &Program{source: s}
	for i, v := range s.Variables {
		compiled, output := c.compile(fmt.Sprintf("spec.variables[%d].expression", i), v.Expression, celgo.AnyType, celgo.DynType)
		e.variables.Fields[v.Name] = required(v.Name, declaredType(output))
		all.variables = append(all.variables, variable{name: v.Name, expression: compiled})
	}
	corpus := &Corpus{}
	for _, text := range texts {
		compiled, _ := c.compile("spec.validations", text, celgo.AnyType)
		corpus.programs = append(corpus.programs, &Program{
			source: s, variables: all.variables, validations: []expression{compiled}, messages: []expression{{}},
			counted: func() []*cel.Program { return interpreted },
		})
	}
	if len(interpreted) != len(c.programs) {
		return nil, fmt.Errorf("%d programs of cel-go, but %d", len(interpreted), len(c.programs))
	}
	return corpus, nil
}

// Sizes returns the sizes that a memo knows, by the keys of their paths.
func Sizes(m *rule.Memo) map[string]cel.Size { return rule.Kept[memo](m).ofPaths }

// CompileInterpreted is Compile to programs of cel-go that do not count their cost.
func CompileInterpreted(s Code) (*Program, error) {
	p := &Program{source: s}
	c, err := p.compile(&cel.Budget{}, func(e *cel.Environment, ast *celgo.Ast) (*cel.Program, error) {
		return e.PlanPart(ast, ast.NativeRep().Expr())
	})
	if err != nil {
		return nil, err
	}
	p.counted = func() []*cel.Program { return c.programs }
	return p, nil
}

// Unbounded returns the functions that some expressions may name, and none can call.
func Unbounded() ([]string, error) {
	e := takeEnvironments()
	defer e.release()
	var all []string
	for _, d := range []declared{{}, {params: true, authorizer: true, data: true}, {authorizer: true, patchTypes: true}} {
		env, err := e.with(d)
		if err != nil {
			return nil, err
		}
		all = append(all, env.Unbounded()...)
	}
	return all, nil
}
