package cel

import (
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/parser"
)

// Checking returns an environment with the declarations of env that makes no programs.
func Checking(env *cel.Env) *Environment {
	return &Environment{Env: env, functions: sync.OnceValue(env.Functions)}
}

// Check parses and checks an expression, within a budget. What the checker and what comes after it
// take is estimated before. The error is that of [Budget.Done], or a panic of the compiler, which does not
// survive [?object.x], for example.
func (e *Environment) Check(b *Budget, text string) (ast *cel.Ast, issues *cel.Issues, err error) {
	defer survive(&err)
	parsed, issues, err := e.Parse(b, text)
	if err != nil || issues != nil {
		return nil, issues, err
	}
	if err := e.Admit(b, parsed.NativeRep().Expr()); err != nil {
		return nil, nil, err
	}
	if ast, issues = e.Env.Check(parsed); issues.Err() != nil {
		return nil, issues, nil
	}
	return ast, nil, nil
}

func survive(err *error) {
	if panicked := recover(); panicked != nil {
		*err = fmt.Errorf("the compiler panicked: %v", panicked)
	}
}

// Parse parses an expression within a budget. The issues are nil if there are none; the error is that
// of [Budget.Done], or a panic of the parser.
func (e *Environment) Parse(b *Budget, text string) (ast *cel.Ast, issues *cel.Issues, err error) {
	defer survive(&err)
	if err := b.Done(); err != nil {
		return nil, nil, err
	}
	b.before = b.spent
	if err := b.spend(expressionEffort+byteEffort*float64(len(text)), fmt.Sprintf("its text of %d bytes", len(text))); err != nil {
		return nil, nil, err
	}
	p, err := e.parser()
	if err != nil {
		return nil, nil, err
	}
	defer e.parsers.Put(p)
	p.budget, p.err = b, nil
	ast, issues = p.env.Parse(text)
	p.budget = nil
	if p.err != nil {
		return nil, nil, p.err
	}
	if issues.Err() != nil {
		return nil, issues, nil
	}
	return ast, nil, nil
}

// A parsing is a parser for one expression at a time. Some macros copy the expression that they are
// called on, so that a chain of them doubles it at each link: it counts what they copy.
type parsing struct {
	env    *cel.Env
	budget *Budget
	err    error
}

// parser returns a parser that nobody else uses until it is put back.
func (e *Environment) parser() (*parsing, error) {
	if p, ok := e.parsers.Get().(*parsing); ok {
		return p, nil
	}
	p := &parsing{}
	var bounded []cel.Macro
	for _, macro := range e.Macros() {
		bounded = append(bounded, boundedMacro{macro, p})
	}
	var err error
	// The parser knows macros by their names and arguments: these are in place of those before.
	if p.env, err = e.Extend(cel.Macros(bounded...)); err != nil {
		return nil, fmt.Errorf("make parser: %w", err)
	}
	return p, nil
}

// A boundedMacro is a macro that copies within a budget.
type boundedMacro struct {
	cel.Macro

	parsing *parsing
}

// Expander implements [cel.Macro].
func (m boundedMacro) Expander() parser.MacroExpander {
	expand := m.Macro.Expander()
	return func(helper parser.ExprHelper, target celast.Expr, args []celast.Expr) (celast.Expr, *common.Error) {
		if m.parsing.err == nil {
			expanded, err := expand(boundedHelper{helper, m.parsing}, target, args)
			if m.parsing.err == nil {
				return expanded, err
			}
		}
		return nil, &common.Error{Message: m.parsing.err.Error()}
	}
}

// A boundedHelper is what a macro makes expressions with.
type boundedHelper struct {
	parser.ExprHelper

	parsing *parsing
}

// Copy implements [parser.ExprHelper].
func (h boundedHelper) Copy(e celast.Expr) celast.Expr {
	if h.parsing.err != nil {
		return e
	}
	most := int((compileBudget-h.parsing.budget.spent)/nodeEffort) + 1
	if err := h.parsing.budget.spend(nodeEffort*float64(countUpTo(e, most)), "its macros copy too much of what they are called on"); err != nil {
		h.parsing.err = err
		return e
	}
	return h.ExprHelper.Copy(e)
}

// countUpTo returns the number of nodes of an expression; it stops counting above most.
func countUpTo(e celast.Expr, most int) int {
	n := 1
	for _, part := range Parts(e) {
		if n > most {
			return n
		}
		n += countUpTo(part, most-n)
	}
	return n
}
