package admission

import (
	"context"
	"slices"

	celgo "github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/lang/cel"
)

// longestConstant is how many parts an expression may have that is evaluated to find out whether it is
// always the same.
const longestConstant = 16

// isAlwaysSame reports whether an expression is short and reads nothing, but for the operation.
func isAlwaysSame(ast *celgo.Ast) bool {
	parts := 0
	celast.PreOrderVisit(ast.NativeRep().Expr(), celast.NewExprVisitor(func(celast.Expr) { parts++ }))
	return parts <= longestConstant && readsOperation(ast.NativeRep().Expr())
}

// readsOperation reports whether an expression reads no variable, or request.operation alone.
func readsOperation(e celast.Expr) bool {
	switch e.Kind() {
	case celast.IdentKind, celast.ComprehensionKind:
		return false
	case celast.SelectKind:
		if s := e.AsSelect(); !s.IsTestOnly() && s.FieldName() == "operation" && s.Operand().Kind() == celast.IdentKind && s.Operand().AsIdent() == requestName {
			return true
		}
	}
	return !slices.ContainsFunc(cel.Parts(e), func(part celast.Expr) bool { return !readsOperation(part) })
}

// RefusesAll returns the index of a validation that is false for every request with an operation; it is false if
// there is none, or if a condition may keep a request from it.
func (p *Program) RefusesAll(ctx context.Context, operation usher.Operation) (validation int, ok bool) {
	for i := range p.conditions {
		if p.always(ctx, &p.conditions[i], operation) != types.True {
			return 0, false
		}
	}
	for i := range p.validations {
		if p.always(ctx, &p.validations[i], operation) == types.False {
			return i, true
		}
	}
	return 0, false
}

// always returns the value that an expression has for every request with an operation; nil if that is not known.
func (p *Program) always(ctx context.Context, e *expression, operation usher.Operation) any {
	if !e.constant || e.program == nil {
		return nil
	}
	in := &Input{Request: &usher.Request{Operation: operation}, context: ctx}
	a := in.activation(p, 0)
	defer a.release()
	out, _, err := a.evaluate(ctx, e, celconfig.PerCallLimit)
	if err != nil || a.stop != nil || out.err != nil {
		return nil
	}
	return out.value
}
