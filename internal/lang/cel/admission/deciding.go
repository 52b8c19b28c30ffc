package admission

import (
	"slices"

	celgo "github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/usher-dev/usher/internal/lang/cel"
)

// A share is what one expression adds to the costs of a policy.
type share struct {
	// name is that of a variable.
	name  string
	bound cel.Bound
	// uses are the variables that it reads; whole says that it may read all.
	uses  []string
	whole bool
	names cel.Reads
	// value is what is read with the value, if no other expression follows where that comes from.
	value cel.Reads
	// mutable says that the value may have quantities.
	mutable bool
}

// variablesIn returns the variables that an expression selects. It may read others if it has the map of
// all in another place, as in variables.?x.
func variablesIn(ast *celgo.Ast) (names []string, whole bool) {
	selected := 0
	celast.PreOrderVisit(ast.NativeRep().Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		if e.Kind() == celast.IdentKind && e.AsIdent() == variablesName {
			selected--
		}
		if e.Kind() != celast.SelectKind {
			return
		}
		if of := e.AsSelect().Operand(); of.Kind() == celast.IdentKind && of.AsIdent() == variablesName {
			selected++
			name := e.AsSelect().FieldName()
			names = append(names, name)
			if unescaped, ok := apiservercel.Unescape(name); ok {
				names = append(names, unescaped)
			}
		}
	}))
	return names, selected < 0
}

// hasQuantities reports whether the value of an expression may have quantities that the expression makes.
func hasQuantities(ast *celgo.Ast) bool {
	plain := []celgo.Kind{celgo.BoolKind, celgo.IntKind, celgo.UintKind, celgo.DoubleKind, celgo.StringKind, celgo.BytesKind}
	if slices.Contains(plain, ast.OutputType().Kind()) {
		return false
	}
	made := false
	celast.PreOrderVisit(ast.NativeRep().Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		made = made || e.Kind() == celast.CallKind && e.AsCall().FunctionName() == "quantity"
	}))
	return made
}

// without returns the limits of a policy without the expressions that are not among the first ones
// that were added, and without the variables that only those read. Before are the limits of the
// former, and data those of the variables before there were any.
func (a *analysis) without(first int, before limits, data cel.Bound) limits {
	uses, all := map[string]bool{}, false
	l := limits{variables: data, conditions: before.conditions, validations: before.validations, annotations: before.annotations}
	add := func(s share) {
		l.each, all = l.each.Or(s.bound), all || s.whole
		for _, name := range s.uses {
			uses[name] = true
		}
	}
	for _, s := range a.added[:first] {
		add(s)
	}
	for _, v := range slices.Backward(a.defined) {
		if all || uses[v.name] {
			l.variables = l.variables.Plus(v.bound)
			add(v)
		}
	}
	l.small = cel.LimitOf(l.within)
	return l
}
