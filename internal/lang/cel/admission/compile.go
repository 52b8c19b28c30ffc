// Package admission compiles and evaluates the CEL expressions of Kubernetes' admission policies:
// conditions, variables, validations, messages and audit annotations.
//
// Expressions mean what they mean to an API server, down to the texts of errors and to the
// budgets at which it stops them. They are evaluated over the decoded objects of a request; what
// they read besides, such as the namespace of the object, are facts.
package admission

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/traits"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/rule"
)

// Code is the expressions of one policy, as they are written.
type Code struct {
	// Params says that there is a variable params.
	Params bool
	// Data are the fields of the variable data, which there is if there are any.
	Data        []Data
	Variables   []Named
	Conditions  []Named
	Validations []Validation
	Annotations []Annotation
	Mutations   []Mutation
	// Texts are expressions of type string that are evaluated on their own: see [Program.Text].
	Texts []Text
	// Ignore says that errors of evaluation count as if the expression had not been there.
	Ignore bool
	// LazyMessages says that messages are evaluated only for validations that deny, and that one that
	// exceeds the budget is left out. API servers evaluate all of them, and then fail.
	LazyMessages bool
	// ShortErrors says that the error of a variable is its name and the cause, also of one that reads
	// another. That of API servers is a sentence for each.
	ShortErrors bool
}

// A Named is an expression with a name.
type Named struct{ Name, Expression string }

// A Validation denies a request when its expression is false.
type Validation struct {
	Expression string
	// Program, unless nil, decides in place of the expression: the request is denied if its verdict
	// is Deny, and its message is told unless there is another.
	Program rule.Program
	// Message, or the result of MessageExpression, tells why.
	Message, MessageExpression string
	// Reason is a metav1.StatusReason; empty is Invalid.
	Reason string
}

// An Annotation goes into the audit log.
type Annotation struct{ Key, ValueExpression string }

// A Text is an expression of type string, which is in a field of the policy.
type Text struct{ Field, Expression string }

// A Program is the compiled expressions of one policy. It is safe for concurrent use.
type Program struct {
	source Code
	// data are the name expressions of the sources of data, of which names are the names.
	data        []addressing
	names       []string
	variables   []variable
	conditions  []expression
	validations []expression
	// messages has no program where a validation has no messageExpression.
	messages    []expression
	annotations []expression
	mutations   []expression
	texts       []expression
	reads       reads
	// patched are the paths that mutations change.
	patched usher.Paths
	// tellings are what the policy tells.
	tellings []Telling
	// limits are those of all expressions, deciding of those that every request needs.
	limits, deciding limits
	// heavy says that compiling again takes too long for a request that meets a policy of a namespace.
	heavy bool
	// glanced says that what it decides by may be known at a glance: see [Program.Glance].
	glanced bool
	// counted are the programs of all expressions, by their index, that count their cost.
	counted func() []*cel.Program
	// traced is what finding fields needs, compiled when a validation fails for the first time.
	traced func() *traced
}

// An expression is one that is compiled, or the error that compiling gave. The zero expression is
// none.
type expression struct {
	text    string
	program *cel.Program
	err     error
	// index is that of the expression in the order in which a policy is compiled.
	index int
	// other is a program of another language, in place of an expression.
	other rule.Program
	// identity is set for conditions and variables.
	identity identity
	// constant says that the value is the same for every request.
	constant bool
	// brief says that it takes the same time for every object.
	brief  bool
	glance glance
	// operations is how many operations a mutation says at most; more than are few if it is not known to take a moment.
	operations int
	// said is the value of a mutation that is always the same, once it is known.
	said *atomic.Pointer[said]
}

// A variable is the expression of a variable.
type variable struct {
	name string
	expression
	// has is what of an activation its value depends on.
	has has
}

// Compile compiles expressions. Problems have no Policy and no File; their fields are below spec.
// With problems of severity Error the program evaluates to what an API server makes of expressions
// that do not compile.
func Compile(s Code) (*Program, []rule.Problem) {
	return CompileWithin(&cel.Budget{}, s)
}

// heavy is how much of a budget is spent for expressions of a policy of a namespace that take too long to
// compile again for one request: some 50 milliseconds.
const heavy = 0.05

// CompileWithin is Compile with the budget of a policy. What is not compiled before its context is done
// is a problem that is Pending.
func CompileWithin(budget *cel.Budget, s Code) (*Program, []rule.Problem) {
	p, before := &Program{source: s}, budget.Spent()
	c, err := p.compile(budget, (*cel.Environment).Plan)
	if err != nil {
		return nil, []rule.Problem{{Severity: rule.Error, Field: "spec", What: err.Error(), Do: "report this as a defect"}}
	}
	p.heavy = budget.Namespace != "" && budget.Spent()-before > heavy
	p.counted = sync.OnceValue(func() []*cel.Program {
		// What compiled once compiles again.
		again := &Program{source: s}
		c, err := again.compile(&cel.Budget{}, func(e *cel.Environment, ast *celgo.Ast) (*cel.Program, error) {
			return e.PlanCounted(ast, celconfig.PerCallLimit)
		})
		if err != nil {
			return nil
		}
		return c.programs
	})
	p.glanced = p.isGlanced()
	p.traced = sync.OnceValue(func() *traced { return traceDecisions(&p.source) })
	return p, c.problems
}

// A planner makes programs in an environment.
type planner func(e *cel.Environment, ast *celgo.Ast) (*cel.Program, error)

// compile compiles the expressions of the source into p.
func (p *Program) compile(budget *cel.Budget, plan planner) (*compilation, error) {
	e := takeEnvironments()
	defer e.release()
	c := &compilation{
		environments: e, budget: budget, plan: plan, analysis: newAnalysis(), optionals: map[string]bool{},
		declared: declared{params: p.source.Params, authorizer: true, data: len(p.source.Data) > 0},
	}
	if _, err := e.with(c.declared); err != nil {
		return nil, err
	}
	c.data(p)
	data := c.limits.variables
	c.named(p)
	c.into(&c.limits.conditions)
	for i, v := range p.source.Validations {
		compiled := expression{other: v.Program}
		if v.Program == nil {
			compiled, _ = c.compile(fmt.Sprintf("spec.validations[%d].expression", i), v.Expression, celgo.BoolType)
		}
		p.validations = append(p.validations, compiled)
	}
	c.into(&c.limits.validations)
	for i, a := range p.source.Annotations {
		compiled, _ := c.compile(fmt.Sprintf("spec.auditAnnotations[%d].valueExpression", i), a.ValueExpression, celgo.StringType, celgo.NullType)
		c.tell(fmt.Sprintf("spec.auditAnnotations[%d].valueExpression", i), false)
		p.annotations = append(p.annotations, compiled)
	}
	c.into(&c.limits.annotations)
	c.mutations(p)
	c.into(&c.limits.validations)
	deciding, before := len(c.added), c.limits
	c.declared.authorizer = false
	for i, v := range p.source.Validations {
		var compiled expression
		if v.MessageExpression != "" {
			field := fmt.Sprintf("spec.validations[%d].messageExpression", i)
			compiled, _ = c.compile(field, v.MessageExpression, celgo.StringType)
			c.tell(field, false)
		}
		p.messages = append(p.messages, compiled)
	}
	for _, t := range p.source.Texts {
		compiled, _ := c.compile(t.Field, t.Expression, celgo.StringType)
		c.tell(t.Field, false)
		p.texts = append(p.texts, compiled)
	}
	c.into(&c.limits.validations)
	c.limits.small = cel.LimitOf(c.limits.within)
	c.reads.object, c.reads.old, c.reads.params = c.reads.keyed(objectName), c.reads.keyed(oldObjectName), c.reads.keyed(paramsName)
	c.reads.plain = !c.reads.Mentions(requestName) && !c.reads.Mentions(namespaceName) && len(c.reads.Whole(dataName)) == 0
	p.reads, p.limits, p.deciding, p.patched, p.tellings = c.reads, c.limits, c.limits, c.patched, c.tellings
	if p.source.LazyMessages {
		p.deciding = c.without(deciding, before, data)
	}
	return c, nil
}

// named compiles the variables and the conditions of p.
func (c *compilation) named(p *Program) {
	for i, v := range p.source.Variables {
		compiled, output := c.compile(fmt.Sprintf("spec.variables[%d].expression", i), v.Expression, celgo.AnyType, celgo.DynType)
		c.environments.variables.Fields[v.Name] = required(v.Name, declaredType(output))
		c.budget.Variable(v.Name, cmp.Or(output, celgo.DynType))
		c.optionals[v.Name] = output != nil && output.TypeName() == optionalType
		p.variables = append(p.variables, variable{name: v.Name, expression: compiled, has: c.has(v.Name, p.variables)})
	}
	for i := range p.variables {
		p.identify(&p.variables[i].expression, &c.defined[i], i)
	}
	for i, m := range p.source.Conditions {
		compiled, _ := c.compile(fmt.Sprintf("spec.matchConditions[%d].expression", i), m.Expression, celgo.BoolType)
		p.identify(&compiled, &c.added[len(c.added)-1], len(p.variables))
		p.conditions = append(p.conditions, compiled)
	}
}

// has makes the last expression a variable, and returns what its value depends on. After the end of
// the budget nothing reads variables.
func (c *compilation) has(name string, before []variable) has {
	if c.ended == "" {
		return c.variable(name, before)
	}
	last := len(c.added) - 1
	c.added, c.defined = c.added[:last], append(c.defined, c.added[last])
	return 0
}

type compilation struct {
	*environments
	analysis

	plan   planner
	budget *cel.Budget
	// ended says why nothing more is compiled; a problem says so, too.
	ended string
	// optionals are the variables whose values are optional.
	optionals map[string]bool
	patched   usher.Paths
	declared  declared
	tellings  []Telling
	programs  []*cel.Program
	problems  []rule.Problem
}

// compile compiles one expression, whose value has to be of one of the types; any does for
// [celgo.AnyType]. The type is nil if there is an error.
func (c *compilation) compile(field, text string, outputs ...*celgo.Type) (expression, *celgo.Type) {
	failed := func(what string, problems ...rule.Problem) (expression, *celgo.Type) {
		c.add(nil)
		if len(problems) == 0 {
			problems = []rule.Problem{{Severity: rule.Error, What: what}}
		}
		for _, p := range problems {
			if p.Field, p.Do = field, cmp.Or(p.Do, c.advice(text, p.What)); isAddressing(field) {
				p.Do = "use object, oldObject, request and namespaceObject: the expression sees nothing else"
			}
			c.problems = append(c.problems, p)
		}
		return expression{text: text, err: &apiservercel.Error{Type: apiservercel.ErrorTypeInvalid, Detail: what}}, nil
	}
	env, err := c.with(c.declared)
	if err != nil {
		return failed(err.Error())
	}
	if c.ended != "" {
		c.add(nil)
		return expression{text: text, err: &apiservercel.Error{Type: apiservercel.ErrorTypeInvalid, Detail: c.ended}}, nil
	}
	ast, issues, err := env.Check(c.budget, text)
	if err != nil {
		p := rule.Problem{Severity: rule.Error, What: "compilation failed: " + err.Error()}
		if c.budget.Done() != nil {
			c.ended = p.What
		}
		if errors.Is(err, cel.ErrTooLarge) {
			p.Do = "write less in one policy: see docs/cel.md for what expressions may take"
		} else if c.ended != "" {
			p.Pending, p.Do = true, "wait, or try again"
		}
		return failed(p.What, p)
	}
	if issues != nil {
		return failed("compilation failed: "+issues.String(), problems(text, issues)...)
	}
	if !isOneOf(ast.OutputType(), outputs) {
		if len(outputs) == 1 {
			return failed(fmt.Sprintf("must evaluate to %v but got %v", outputs[0].String(), ast.OutputType().String()))
		}
		return failed(fmt.Sprintf("must evaluate to one of %v but got %v", outputs, ast.OutputType().String()))
	}
	program, err := c.plan(env, ast)
	if err != nil {
		return failed("program instantiation failed: " + err.Error())
	}
	c.add(ast)
	c.warn(field, text, ast)
	c.programs = append(c.programs, program)
	compiled := expression{text: text, program: program, index: len(c.programs) - 1, constant: isAlwaysSame(ast), brief: isBrief(ast), glance: glanceOf(ast)}
	if c.declared.patchTypes {
		patched(&c.patched, ast)
		compiled.operations = briefOperations(ast)
	}
	return compiled, ast.OutputType()
}

func isOneOf(t *celgo.Type, outputs []*celgo.Type) bool {
	for _, output := range outputs {
		if t.IsExactType(output) || celgo.AnyType.IsExactType(output) {
			return true
		}
	}
	return false
}

// problems are what the compiler objects to, each with the place in the expression.
func problems(text string, issues *celgo.Issues) []rule.Problem {
	var all []rule.Problem
	for _, issue := range cel.Issues(text, issues) {
		all = append(all, rule.Problem{Severity: rule.Error, At: rule.PlaceIn(text, issue.Line, issue.Column), What: issue.What, Do: issue.Do})
	}
	return all
}

// objections are those of the compiler in one line.
func objections(text string, issues *celgo.Issues) string {
	var all []string
	for _, p := range problems(text, issues) {
		all = append(all, p.Text())
	}
	return strings.Join(all, "; ")
}

// declaredType is convertCelTypeToDeclType of k8s.io/apiserver/pkg/admission/plugin/cel.
func declaredType(t *celgo.Type) *apiservercel.DeclType {
	switch t {
	case nil:
		return apiservercel.DynType
	case celgo.AnyType:
		return apiservercel.AnyType
	case celgo.BoolType:
		return apiservercel.BoolType
	case celgo.BytesType:
		return apiservercel.BytesType
	case celgo.DoubleType:
		return apiservercel.DoubleType
	case celgo.DurationType:
		return apiservercel.DurationType
	case celgo.IntType:
		return apiservercel.IntType
	case celgo.NullType:
		return apiservercel.NullType
	case celgo.StringType:
		return apiservercel.StringType
	case celgo.TimestampType:
		return apiservercel.TimestampType
	case celgo.UintType:
		return apiservercel.UintType
	}
	if t.HasTrait(traits.ContainerType) && t.HasTrait(traits.IndexerType) {
		switch parameters := t.Parameters(); len(parameters) {
		case 1:
			return listOf(declaredType(parameters[0]))
		case 2:
			return apiservercel.NewMapType(declaredType(parameters[0]), declaredType(parameters[1]), -1)
		}
	}
	return apiservercel.DynType
}
