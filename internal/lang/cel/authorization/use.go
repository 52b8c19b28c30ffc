package authorization

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types/ref"

	"github.com/usher-dev/usher/internal/rule"
)

// Uses returns the fields of request that are compared with constants; of groups, those that are
// asked for. A use without a path is the
// whole expression, where that is a constant.
func (p *predicate) Uses() []rule.Use { return p.uses }

func usesOf(checked *cel.Ast) []rule.Use {
	root := checked.NativeRep().Expr()
	if root.Kind() == ast.LiteralKind {
		return []rule.Use{{Compared: []rule.Comparison{{Op: "==", With: root.AsLiteral().Value()}}}}
	}
	var all []rule.Use
	ast.PostOrderVisit(root, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind {
			return
		}
		call := e.AsCall()
		switch call.FunctionName() {
		case operators.Equals, operators.NotEquals:
		case operators.In:
			all = append(all, membership(call.Args())...)
			return
		default:
			all = append(all, contained(call)...)
			return
		}
		for i, arg := range call.Args() {
			other := call.Args()[1-i]
			if field, ok := requestField(arg); ok && other.Kind() == ast.LiteralKind {
				all = append(all, rule.Use{Paths: [][]string{{field}}, Compared: []rule.Comparison{{Op: "==", With: native(other.AsLiteral())}}})
			}
		}
	}))
	return all
}

// contained is a field of which a constant is a part.
func contained(call ast.CallExpr) []rule.Use {
	op := map[string]string{overloads.StartsWith: "HasPrefix", overloads.EndsWith: "HasSuffix", overloads.Contains: "Contains"}[call.FunctionName()]
	if op == "" || !call.IsMemberFunction() || len(call.Args()) != 1 || call.Args()[0].Kind() != ast.LiteralKind {
		return nil
	}
	field, ok := requestField(call.Target())
	if !ok {
		return nil
	}
	return []rule.Use{{Paths: [][]string{{field}}, Compared: []rule.Comparison{{Op: op, With: native(call.Args()[0].AsLiteral())}}}}
}

// membership is a field in a list of constants, or a constant in a field.
func membership(args []ast.Expr) []rule.Use {
	if len(args) != 2 {
		return nil
	}
	if field, ok := requestField(args[1]); ok && args[0].Kind() == ast.LiteralKind {
		return []rule.Use{{Paths: [][]string{{field}}, Compared: []rule.Comparison{{Op: "==", With: native(args[0].AsLiteral())}}}}
	}
	if args[1].Kind() != ast.ListKind {
		return nil
	}
	field, ok := requestField(args[0])
	if !ok {
		return nil
	}
	use := rule.Use{Paths: [][]string{{field}}}
	for _, element := range args[1].AsList().Elements() {
		if element.Kind() == ast.LiteralKind {
			use.Compared = append(use.Compared, rule.Comparison{Op: "==", With: native(element.AsLiteral())})
		}
	}
	return []rule.Use{use}
}

// requestField returns the name of a field of request, or of its resourceAttributes, which has the same names.
func requestField(e ast.Expr) (string, bool) {
	if e.Kind() != ast.SelectKind || e.AsSelect().IsTestOnly() {
		return "", false
	}
	of := e.AsSelect().Operand()
	if of.Kind() == ast.SelectKind && of.AsSelect().FieldName() == "resourceAttributes" {
		of = of.AsSelect().Operand()
	}
	return e.AsSelect().FieldName(), of.Kind() == ast.IdentKind && of.AsIdent() == "request"
}

func native(value ref.Val) any { return value.Value() }
