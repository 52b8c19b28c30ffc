package admission

import (
	"strings"

	celgo "github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"k8s.io/apiserver/pkg/cel/mutation"

	usher "github.com/usher-dev/usher"
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
