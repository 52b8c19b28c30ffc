package admission

import (
	"slices"
	"strings"

	celgo "github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"k8s.io/apiserver/pkg/cel/mutation"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/lang/cel"
)

// patched adds the paths of the operations that an expression can say: operations are JSONPatch{}
// literals of the expression itself, for variables do not have that type.
func patched(paths *usher.Paths, ast *celgo.Ast) {
	celast.PostOrderVisit(ast.NativeRep().Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		if e.Kind() == celast.StructKind && e.AsStruct().TypeName() == mutation.JSONPatchTypeName {
			operationPaths(paths, e.AsStruct())
		}
	}))
}

// operationPaths adds the path of an operation, and the one that it copies or moves from.
func operationPaths(paths *usher.Paths, operation celast.StructExpr) {
	for _, entry := range operation.Fields() {
		field := entry.AsStructField()
		if field.Name() != "path" && field.Name() != "from" {
			continue
		}
		text, constant := prefixOf(field.Value())
		if !constant {
			// What follows the last slash may be longer, or be several keys.
			text = text[:max(strings.LastIndexByte(text, '/'), 0)]
		}
		paths.AddPointer(text)
	}
}

// prefixOf returns the text that the value of an expression begins with, and whether that is all of
// it.
func prefixOf(e celast.Expr) (text string, constant bool) {
	switch e.Kind() {
	case celast.LiteralKind:
		s, ok := e.AsLiteral().(types.String)
		return string(s), ok
	case celast.CallKind:
		if e.AsCall().FunctionName() != operators.Add {
			return "", false
		}
		text, constant = prefixOf(e.AsCall().Args()[0])
		if !constant {
			return text, false
		}
		rest, constant := prefixOf(e.AsCall().Args()[1])
		return text + rest, constant
	}
	return "", false
}

// fewOperations is how many operations are applied in a moment: each may move a long list.
const fewOperations = 16

// briefOperations returns how many operations an expression says at most, if it says them at a glance, and if each is soon
// applied: one that copies or moves takes as long as the value is large. Otherwise it returns more than are few.
func briefOperations(ast *celgo.Ast) int {
	parts := 0
	root := ast.NativeRep().Expr()
	celast.PreOrderVisit(root, celast.NewExprVisitor(func(celast.Expr) { parts++ }))
	if parts > briefParts {
		return fewOperations + 1
	}
	return operationsIn(root)
}

func operationsIn(e celast.Expr) int {
	switch {
	case e.Kind() == celast.ListKind && len(e.AsList().OptionalIndices()) == 0:
		if all := e.AsList().Elements(); !slices.ContainsFunc(all, func(o celast.Expr) bool { return !isBriefOperation(o) }) {
			return len(all)
		}
	case e.Kind() == celast.CallKind && e.AsCall().FunctionName() == operators.Conditional:
		if args := e.AsCall().Args(); briefly(args[0]) {
			return max(operationsIn(args[1]), operationsIn(args[2]))
		}
	}
	return fewOperations + 1
}

// isBriefOperation reports whether an expression is an operation with a constant value that is at a constant path.
func isBriefOperation(e celast.Expr) bool {
	if e.Kind() != celast.StructKind || e.AsStruct().TypeName() != mutation.JSONPatchTypeName {
		return false
	}
	for _, entry := range e.AsStruct().Fields() {
		field := entry.AsStructField()
		text, constant := prefixOf(field.Value())
		switch {
		case field.IsOptional():
			return false
		case field.Name() == "op" && constant && slices.Contains([]string{"add", "remove", "replace", "test"}, text):
		case field.Name() == "path" && (constant || isEscaped(field.Value())):
		case field.Name() == "value" && isWritten(field.Value()):
		default:
			return false
		}
	}
	return true
}

// isEscaped reports whether an expression is a constant text, of which parts are escaped.
func isEscaped(e celast.Expr) bool {
	if e.Kind() == celast.CallKind && slices.Contains([]string{operators.Add, "jsonpatch.escapeKey"}, e.AsCall().FunctionName()) {
		return !slices.ContainsFunc(e.AsCall().Args(), func(arg celast.Expr) bool { return !isEscaped(arg) })
	}
	_, constant := prefixOf(e)
	return constant
}

// isWritten reports whether a value is written in the expression.
func isWritten(e celast.Expr) bool {
	switch e.Kind() {
	case celast.LiteralKind:
		return true
	case celast.ListKind, celast.MapKind:
		return !slices.ContainsFunc(cel.Parts(e), func(part celast.Expr) bool { return !isWritten(part) })
	}
	return false
}
