package admission

import (
	"context"
	"errors"
	"slices"
	"time"

	celgo "github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// Limits of what is evaluated at a glance: parts of an expression, expressions, and how long it may take.
const (
	briefParts       = 64
	briefExpressions = 16
	glancedParts     = 512
	// measured is how large objects and params may be if it has to be measured what is read of them.
	measured = 32 << 10
	// glanced is what all expressions may take together by the estimates of the meter, which are far above what they
	// take.
	glanced = 500 * time.Microsecond
)

// errGlanced is every error at a glance: nobody reads it, and others quote values, however long they are.
var errGlanced = errors.New("an error at a glance")

// Glance reports whether all validations hold for a request, or a match condition does not, if that can be known soon.
func (p *Program) Glance(ctx context.Context, in *Input) (Skipping, bool) {
	if !p.glanced || !in.isBoundedSoon(p) {
		return Skipping{}, false
	}
	in.context = ctx
	a := in.uncounted(p, withAuthorizer|asConditions)
	defer a.release()
	var skipping Skipping
	known := false
	a.glances = true
	a.meter.Within(glanced, func() { skipping, known = a.glance(ctx) })
	return skipping, known
}

func (a *activation) glance(ctx context.Context) (Skipping, bool) {
	skipping, failure, err := a.match(ctx)
	if err != nil || failure != "" || skipping.Skipped != "" {
		return skipping, err == nil && failure == ""
	}
	a.enter(withNamespace | withAuthorizer)
	values, _, err := a.evaluateInto(ctx, a.few[:0], a.program.validations, celconfig.RuntimeCELCostBudget)
	return Skipping{}, err == nil && a.stop == nil && a.counted == nil && hold(values)
}

// isGlanced reports whether what the program decides by may be known at a glance.
func (p *Program) isGlanced() bool {
	if len(p.data)+len(p.annotations)+len(p.mutations) > 0 || len(p.variables)+len(p.conditions)+len(p.validations) > briefExpressions {
		return false
	}
	used, all := map[string]bool{}, false
	uses := func(e *expression) bool {
		for _, name := range e.glance.uses {
			used[name] = true
		}
		all = all || e.glance.whole
		return e.glance.ok
	}
	for _, some := range [][]expression{p.conditions, p.validations} {
		for i := range some {
			if !uses(&some[i]) {
				return false
			}
		}
	}
	for _, v := range slices.Backward(p.variables) {
		if (all || used[v.name]) && !uses(&v.expression) {
			return false
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

// estimated are functions that take no longer than the meter estimates, whatever their arguments are, and ask nobody.
var estimated = []string{
	operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.Conditional, operators.NotStrictlyFalse,
	operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals,
	operators.In, operators.Index, operators.OptIndex, operators.OptSelect, operators.Add, operators.Subtract, operators.Negate,
	"orValue", "hasValue", "value", "optional.of", "optional.none", "optional.ofNonZeroValue", "or", "size", "startsWith", "endsWith", "contains",
	"substring", "lowerAscii", "upperAscii", "trim", "join", "flatten", "strings.quote", "int", "double", "string", "dyn", "type",
}

// A glance says whether an expression may be evaluated at a glance.
type glance struct {
	ok bool
	// uses are the variables that it reads; whole says that it may read all.
	uses  []string
	whole bool
}

// glanceOf finds out whether an expression consists of loops, values of the objects, params and the request, and functions
// that are estimated. How long these take is known before they are called.
func glanceOf(ast *celgo.Ast) glance {
	parts, ok := 0, true
	celast.PreOrderVisit(ast.NativeRep().Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		parts++
		switch e.Kind() {
		case celast.IdentKind:
			ok = ok && e.AsIdent() != authorizerName && e.AsIdent() != resourceName && e.AsIdent() != namespaceName
		case celast.CallKind:
			c := e.AsCall()
			constant := c.FunctionName() == "matches" && len(c.Args()) == 1 && c.Args()[0].Kind() == celast.LiteralKind
			ok = ok && (constant || slices.Contains(estimated, c.FunctionName()))
		case celast.StructKind, celast.UnspecifiedExprKind:
			ok = false
		case celast.LiteralKind, celast.SelectKind, celast.ComprehensionKind, celast.ListKind, celast.MapKind:
		}
	}))
	g := glance{ok: ok && parts <= glancedParts}
	g.uses, g.whole = variablesIn(ast)
	return g
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
