// Package mutant makes wrong variants of CEL expressions, to see whether tests notice.
package mutant

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/parser"
)

// A Mutant is an expression with one change.
type Mutant struct {
	// Change says what is other, such as "<= instead of <: object.spec.replicas < 3".
	Change     string
	Expression string
}

// Of returns the mutants of an expression: with other operators, without a clause, a negation, an
// item of a list or one of several lists that are added, and with other constants. None are returned for what does not parse.
func Of(expression string) []Mutant {
	count := 0
	first, info := parse(expression)
	if first == nil {
		return nil
	}
	walk(first, func(ast.Expr, role) { count++ })
	var all []Mutant
	seen := map[string]bool{expression: true, write(first, info): true}
	for i := range count {
		for choice := 0; ; choice++ {
			// Each mutant changes a tree of its own.
			tree, info := parse(expression)
			change := ""
			at := 0
			walk(tree, func(e ast.Expr, as role) {
				if at == i {
					change = mutate(e, info, choice, as)
				}
				at++
			})
			if change == "" {
				break
			}
			if text := write(tree, info); text != "" && !seen[text] {
				seen[text] = true
				all = append(all, Mutant{Change: change, Expression: text})
			}
		}
	}
	return all
}

// parse parses an expression without expanding macros, so that each part stands where it was
// written. The result is nil for a syntax error.
func parse(expression string) (ast.Expr, *ast.SourceInfo) {
	p, err := parser.NewParser(parser.EnableOptionalSyntax(true), parser.EnableIdentEscapeSyntax(true))
	if err != nil {
		return nil, nil
	}
	parsed, issues := p.Parse(common.NewTextSource(expression))
	if issues != nil && len(issues.GetErrors()) > 0 {
		return nil, nil
	}
	return parsed.Expr(), parsed.SourceInfo()
}

func write(e ast.Expr, info *ast.SourceInfo) string {
	text, err := parser.Unparse(e, info)
	if err != nil {
		return ""
	}
	return strings.Join(strings.Fields(text), " ")
}

// A role is what the place of a part says about it.
type role int

const (
	anything role = iota
	// fallback is an argument of orValue.
	fallback
	// list is what a macro goes through, or in searches, if it is a sum.
	list
)

// walk visits an expression and its parts.
func walk(e ast.Expr, visit func(e ast.Expr, as role)) {
	var step func(ast.Expr, role)
	step = func(e ast.Expr, as role) {
		visit(e, as)
		switch e.Kind() {
		case ast.SelectKind:
			step(e.AsSelect().Operand(), anything)
		case ast.CallKind:
			call := e.AsCall()
			if call.IsMemberFunction() {
				step(call.Target(), ofTarget(call.FunctionName()))
			}
			for i, arg := range call.Args() {
				if i == 1 && call.FunctionName() == operators.OptSelect {
					// It is the name of a field.
					continue
				}
				step(arg, ofArgument(e, i, as))
			}
		case ast.ListKind:
			for _, element := range e.AsList().Elements() {
				step(element, anything)
			}
		case ast.MapKind:
			for _, entry := range e.AsMap().Entries() {
				step(entry.AsMapEntry().Value(), anything)
			}
		case ast.StructKind:
			for _, field := range e.AsStruct().Fields() {
				step(field.AsStructField().Value(), anything)
			}
		}
	}
	step(e, anything)
}

// ofTarget returns the role of what a member function is called on.
func ofTarget(function string) role {
	switch function {
	case operators.All, operators.Exists, operators.ExistsOne, "existsOne", operators.Filter, operators.Map:
		return list
	}
	return anything
}

// ofArgument returns the role of an argument of a call that has a role itself.
func ofArgument(e ast.Expr, i int, as role) role {
	switch function := e.AsCall().FunctionName(); {
	case function == "orValue":
		return fallback
	case function == operators.In && i == 1, function == operators.Add && (as == list || isList(e)):
		return list
	}
	return anything
}

// isList reports whether an expression is a list, by its form.
func isList(e ast.Expr) bool {
	switch e.Kind() {
	case ast.ListKind:
		return true
	case ast.CallKind:
		call := e.AsCall()
		switch call.FunctionName() {
		case operators.Filter, operators.Map:
			return call.IsMemberFunction()
		case "orValue", operators.Add:
			return slices.ContainsFunc(call.Args(), isList)
		case operators.Conditional:
			return slices.ContainsFunc(call.Args()[1:], isList)
		}
	}
	return false
}

// mutate makes one of the changes that a part can have, and describes it; there are no more choices
// if it is empty.
func mutate(e ast.Expr, info *ast.SourceInfo, choice int, as role) string {
	switch e.Kind() {
	case ast.CallKind:
		if e.AsCall().FunctionName() == operators.Add && (as == list || isList(e)) {
			return without(e, info, choice)
		}
		return mutateCall(e, info, choice)
	case ast.LiteralKind:
		if choice == 0 {
			return mutateLiteral(e, info, as)
		}
	case ast.ListKind:
		elements := e.AsList().Elements()
		if len(elements) < 2 || choice >= len(elements) {
			return ""
		}
		change := fmt.Sprintf("without %s in %s", write(elements[choice], info), write(e, info))
		factory := ast.NewExprFactory()
		e.SetKindCase(factory.NewList(e.ID(), slices.Delete(slices.Clone(elements), choice, choice+1), nil))
		return change
	}
	return ""
}

// swapped returns the operator or macro that a mutant has instead of one, empty for none.
func swapped(function string) string {
	for _, pair := range [][2]string{
		{operators.Equals, operators.NotEquals}, {operators.Less, operators.LessEquals}, {operators.Greater, operators.GreaterEquals},
		{"all", "exists"}, {"isGreaterThan", "isLessThan"},
	} {
		switch function {
		case pair[0]:
			return pair[1]
		case pair[1]:
			return pair[0]
		}
	}
	return ""
}

func mutateCall(e ast.Expr, info *ast.SourceInfo, choice int) string {
	call := e.AsCall()
	args := call.Args()
	before := write(e, info)
	switch function := call.FunctionName(); function {
	case operators.LogicalAnd, operators.LogicalOr, operators.Conditional:
		return without(e, info, choice)
	case operators.LogicalNot:
		if choice == 0 {
			e.SetKindCase(args[0])
			return "without negation: " + before
		}
	default:
		other := swapped(function)
		if other == "" || choice > 0 {
			return ""
		}
		factory := ast.NewExprFactory()
		if call.IsMemberFunction() {
			e.SetKindCase(factory.NewMemberCall(e.ID(), other, call.Target(), args...))
		} else {
			e.SetKindCase(factory.NewCall(e.ID(), other, args...))
		}
		return fmt.Sprintf("%s instead of %s: %s", spelled(other), spelled(function), before)
	}
	return ""
}

// without leaves out a clause of && or ||, a branch of ?:, or one of two lists that are added.
func without(e ast.Expr, info *ast.SourceInfo, choice int) string {
	args := e.AsCall().Args()
	function := e.AsCall().FunctionName()
	if function == operators.Conditional {
		args = args[1:]
	}
	if choice > 1 {
		return ""
	}
	left, stays := args[choice], args[1-choice]
	change := fmt.Sprintf("without %s in %s", write(left, info), write(e, info))
	e.SetKindCase(stays)
	return change
}

func spelled(function string) string {
	if text, ok := operators.FindReverse(function); ok {
		return text
	}
	return function
}

// mutateLiteral makes a constant another one. Texts and numbers that replace what is absent are
// left: whether they are told apart from others says nothing.
func mutateLiteral(e ast.Expr, info *ast.SourceInfo, as role) string {
	before := write(e, info)
	factory := ast.NewExprFactory()
	switch v := e.AsLiteral().(type) {
	case types.Bool:
		e.SetKindCase(factory.NewLiteral(e.ID(), !v))
	case types.Int:
		if as == fallback {
			return ""
		}
		e.SetKindCase(factory.NewLiteral(e.ID(), v+1))
	case types.Double:
		if as == fallback {
			return ""
		}
		e.SetKindCase(factory.NewLiteral(e.ID(), v+1))
	case types.String:
		if as == fallback {
			return ""
		}
		e.SetKindCase(factory.NewLiteral(e.ID(), v+"-mutant"))
	default:
		return ""
	}
	return fmt.Sprintf("%s instead of %s", write(e, info), before)
}
