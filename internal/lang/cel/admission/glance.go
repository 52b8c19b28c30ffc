package admission

import (
	"context"

	celgo "github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// Limits of what is evaluated at a glance, so that it takes some microseconds whatever the object is: parts of an
// expression, expressions, and the size of params.
const (
	briefParts       = 64
	briefExpressions = 16
	briefParams      = 4096
)

// Glance reports whether all validations hold for a request, or a match condition does not, if that can be known soon.
func (p *Program) Glance(ctx context.Context, in *Input) (Skipping, bool) {
	if !p.brief || in.Params != nil && (in.ParamsSize.Total == 0 || in.ParamsSize.Total > briefParams) || !p.bounded(in, &p.deciding) {
		return Skipping{}, false
	}
	in.context = ctx
	a := in.uncounted(p, withAuthorizer|asConditions)
	defer a.release()
	skipping, failure, err := a.match(ctx)
	if err != nil || failure != "" || skipping.Skipped != "" {
		return skipping, err == nil && failure == ""
	}
	a.enter(withNamespace | withAuthorizer)
	values, _, err := a.evaluateInto(ctx, a.few[:0], p.validations, celconfig.RuntimeCELCostBudget)
	return Skipping{}, err == nil && a.stop == nil && a.counted == nil && hold(values)
}

// isBrief reports whether what the program decides by is known at a glance.
func (p *Program) isBrief() bool {
	if len(p.data)+len(p.annotations)+len(p.mutations) > 0 || len(p.variables)+len(p.conditions)+len(p.validations) > briefExpressions {
		return false
	}
	for i := range p.variables {
		if !p.variables[i].brief {
			return false
		}
	}
	for _, all := range [][]expression{p.conditions, p.validations} {
		for i := range all {
			if !all[i].brief {
				return false
			}
		}
	}
	return true
}

// ChangesBriefly reports whether Mutate is brief: see [rule.Brief]. What it says is known at a glance then.
func (p *Program) ChangesBriefly() bool {
	if p.source.Params || len(p.data)+len(p.variables) > 0 || len(p.conditions) > briefExpressions || !p.deciding.small.None() {
		return false
	}
	for i := range p.conditions {
		if !p.conditions[i].brief {
			return false
		}
	}
	operations := 0
	for i := range p.mutations {
		operations += p.mutations[i].operations
		if p.mutations[i].program == nil {
			return false
		}
	}
	return operations <= fewOperations
}

// isBrief reports whether an expression goes to values of the objects, and compares them with constants or params.
// Two values of the objects take as long as they are large, and so do loops and most functions.
func isBrief(ast *celgo.Ast) bool {
	parts := 0
	root := ast.NativeRep().Expr()
	celast.PreOrderVisit(root, celast.NewExprVisitor(func(celast.Expr) { parts++ }))
	return parts <= briefParts && briefly(root)
}

func briefly(e celast.Expr) bool {
	switch e.Kind() {
	case celast.LiteralKind:
		return true
	case celast.IdentKind:
		switch e.AsIdent() {
		case objectName, oldObjectName, paramsName, variablesName, requestName:
			return true
		}
	case celast.SelectKind:
		return briefly(e.AsSelect().Operand())
	case celast.CallKind:
		return brieflyCalled(e.AsCall())
	case celast.UnspecifiedExprKind, celast.ComprehensionKind, celast.ListKind, celast.MapKind, celast.StructKind:
	}
	return false
}

func brieflyCalled(c celast.CallExpr) bool {
	args := c.Args()
	for i, arg := range args {
		inList := i == 1 && c.FunctionName() == operators.In && isSmall(arg)
		if !inList && !briefly(arg) {
			return false
		}
	}
	switch c.FunctionName() {
	case operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.Conditional, operators.NotStrictlyFalse:
		return true
	case operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		return isSmall(args[0]) || isSmall(args[1])
	case operators.In:
		return isSmall(args[1])
	case operators.Index:
		return isSmall(args[1])
	}
	return false
}

// isSmall reports whether a value is a constant, or a part of params.
func isSmall(e celast.Expr) bool {
	switch e.Kind() {
	case celast.LiteralKind:
		return true
	case celast.ListKind:
		for _, element := range e.AsList().Elements() {
			if element.Kind() != celast.LiteralKind {
				return false
			}
		}
		return true
	case celast.SelectKind:
		return isSmall(e.AsSelect().Operand())
	case celast.IdentKind:
		return e.AsIdent() == paramsName
	case celast.UnspecifiedExprKind, celast.CallKind, celast.ComprehensionKind, celast.MapKind, celast.StructKind:
	}
	return false
}
