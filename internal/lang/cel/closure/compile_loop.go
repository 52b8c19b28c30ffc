package closure

import (
	"slices"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

func (p *plan) loop(c ast.ComprehensionExpr) node {
	l := &loop{over: p.node(c.IterRange()), first: p.slots, second: -1}
	outer := p.nanos
	p.nanos = nodeNanos
	defer func() { l.nanos, p.nanos = p.nanos, outer }()
	s := &scope{outer: p.scope, accumulated: c.AccuVar(), first: c.IterVar(), second: c.IterVar2(), firstSlot: p.slots}
	p.slots++
	if c.HasIterVar2() {
		l.second, s.secondSlot = p.slots, p.slots
		p.slots++
	}
	if over, ok := l.over.(*list); ok && over.optional == nil {
		l.elements, l.from = over.elements, p.slots
		p.slots += len(over.elements)
	}
	body, condition, made := shapeOf(c)
	if made == general || p.references.mentions(body, c.AccuVar()) || condition != nil && p.references.mentions(condition, c.AccuVar()) {
		p.accumulate(l, s, c)
		return l
	}
	l.shape, p.scope = made, s
	if condition != nil {
		l.condition = p.node(condition)
	}
	l.body = p.node(body)
	p.scope = s.outer
	return l
}

// mentions reports whether an expression reads the accumulator of the loop around it: that of a macro has a
// name that is known.
func (r references) mentions(e ast.Expr, name string) bool {
	if reference, ok := r[e.ID()]; ok && reference.Name == name {
		return true
	}
	switch e.Kind() {
	case ast.IdentKind:
		return e.AsIdent() == name
	case ast.SelectKind:
		return r.mentions(e.AsSelect().Operand(), name)
	case ast.CallKind:
		return e.AsCall().IsMemberFunction() && r.mentions(e.AsCall().Target(), name) || r.mention(name, e.AsCall().Args()...)
	case ast.ListKind:
		return r.mention(name, e.AsList().Elements()...)
	case ast.MapKind:
		return slices.ContainsFunc(e.AsMap().Entries(), func(e ast.EntryExpr) bool {
			return r.mention(name, e.AsMapEntry().Key(), e.AsMapEntry().Value())
		})
	case ast.StructKind:
		return slices.ContainsFunc(e.AsStruct().Fields(), func(e ast.EntryExpr) bool { return r.mentions(e.AsStructField().Value(), name) })
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		return r.mention(name, c.IterRange(), c.AccuInit()) || c.AccuVar() != name && r.mention(name, c.LoopCondition(), c.LoopStep(), c.Result())
	case ast.LiteralKind, ast.UnspecifiedExprKind:
	}
	return false
}

func (r references) mention(name string, es ...ast.Expr) bool {
	return slices.ContainsFunc(es, func(e ast.Expr) bool { return r.mentions(e, name) })
}

// accumulate plans a loop whose accumulator is computed as it is written.
func (p *plan) accumulate(l *loop, s *scope, c ast.ComprehensionExpr) {
	a := &accumulator{slot: p.slots}
	p.slots += 2
	l.shape, l.general, s.accumulator = general, a, a
	a.initial = p.node(c.AccuInit())
	p.scope = s
	a.goOn, l.body, l.condition = p.node(c.LoopCondition()), p.node(c.LoopStep()), nil
	s.inResult = true
	a.conclude = p.node(c.Result())
	p.scope = s.outer
}

// shapeOf returns what a macro computes for each item, and the condition for that, which may be nil.
func shapeOf(c ast.ComprehensionExpr) (body, condition ast.Expr, s shape) {
	name := c.AccuVar()
	if name == c.IterVar() || name == c.IterVar2() {
		return nil, nil, general
	}
	start, goOn, step, result := c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result()
	switch {
	case isLiteral(start, types.True) && isName(result, name):
		if body := reduced(step, operators.LogicalAnd, name); body != nil && isNotFalse(goOn, name) {
			return body, nil, all
		}
	case isLiteral(start, types.False) && isName(result, name):
		if body := reduced(step, operators.LogicalOr, name); body != nil && isNotTrue(goOn, name) {
			return body, nil, exists
		}
	case isLiteral(start, types.IntZero) && isLiteral(goOn, types.True):
		if body := counted(step, result, name); body != nil {
			return body, nil, existsOne
		}
	case isEmptyList(start) && isLiteral(goOn, types.True) && isName(result, name):
		if args := callOf(step, operators.Conditional); args != nil && isName(args[2], name) {
			step, condition = args[1], args[0]
		}
		if body := appended(step, name); body != nil {
			return body, condition, collect
		}
	}
	return nil, nil, general
}

func isLiteral(e ast.Expr, value ref.Val) bool {
	return e.Kind() == ast.LiteralKind && e.AsLiteral() == value
}

func isEmptyList(e ast.Expr) bool { return e.Kind() == ast.ListKind && e.AsList().Size() == 0 }

func isName(e ast.Expr, name string) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == name }

// callOf returns the arguments of a call of an operator, or nil.
func callOf(e ast.Expr, operator string) []ast.Expr {
	if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != operator || e.AsCall().IsMemberFunction() {
		return nil
	}
	return e.AsCall().Args()
}

func isNotFalse(e ast.Expr, name string) bool {
	args := callOf(e, operators.NotStrictlyFalse)
	return len(args) == 1 && isName(args[0], name)
}

func isNotTrue(e ast.Expr, name string) bool {
	args := callOf(e, operators.NotStrictlyFalse)
	if len(args) != 1 {
		return false
	}
	args = callOf(args[0], operators.LogicalNot)
	return len(args) == 1 && isName(args[0], name)
}

// reduced returns what is combined with the accumulator, or nil.
func reduced(step ast.Expr, operator, name string) ast.Expr {
	if args := callOf(step, operator); args != nil && isName(args[0], name) {
		return args[1]
	}
	return nil
}

// counted returns the condition under which one is added to the accumulator, or nil.
func counted(step, result ast.Expr, name string) ast.Expr {
	args, is := callOf(step, operators.Conditional), callOf(result, operators.Equals)
	if len(args) != 3 || len(is) != 2 || !isName(args[2], name) || !isName(is[0], name) || !isLiteral(is[1], types.IntOne) {
		return nil
	}
	sum := callOf(args[1], operators.Add)
	if len(sum) != 2 || !isName(sum[0], name) || !isLiteral(sum[1], types.IntOne) {
		return nil
	}
	return args[0]
}

// appended returns the value that is appended to the accumulator, or nil.
func appended(e ast.Expr, name string) ast.Expr {
	args := callOf(e, operators.Add)
	if len(args) != 2 || !isName(args[0], name) || args[1].Kind() != ast.ListKind {
		return nil
	}
	l := args[1].AsList()
	if l.Size() != 1 || len(l.OptionalIndices()) > 0 {
		return nil
	}
	return l.Elements()[0]
}
