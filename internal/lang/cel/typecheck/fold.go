package typecheck

import (
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/lang/cel/meter"
)

// constantsOf returns the values that are the same in all requests for a target, by their paths.
func constantsOf(t Target) map[string]ref.Val {
	if t.Kind.Empty() {
		return map[string]ref.Val{}
	}
	apiVersion, name := t.Kind.ToAPIVersionAndKind()
	texts := map[string]string{
		"object.apiVersion": apiVersion, "object.kind": name,
		"oldObject.apiVersion": apiVersion, "oldObject.kind": name,
		"request.kind.group": t.Kind.Group, "request.kind.version": t.Kind.Version, "request.kind.kind": name,
		"request.resource.group": t.Resource.Group, "request.resource.version": t.Resource.Version, "request.resource.resource": t.Resource.Resource,
	}
	constants := make(map[string]ref.Val, len(texts))
	for path, text := range texts {
		constants[path] = types.String(text)
	}
	return constants
}

// A folder leaves out what is not evaluated for the objects of one kind.
type folder struct {
	constants map[string]ref.Val
	// absent are the presence tests that are false for these objects.
	absent map[int64]mistake
	// joined are the types of sums of lists whose elements have different types.
	joined map[int64]*types.Type
	// moved has for a node that was replaced by a part of it the part.
	moved   map[int64]int64
	factory ast.ExprFactory
	// hidden are the names of iteration variables in scope.
	hidden []string
}

// origin returns the node that a node was before.
func (f *folder) origin(id int64) int64 {
	for {
		before, ok := f.moved[id]
		if !ok {
			return id
		}
		id = before
	}
}

func (f *folder) constant(e ast.Expr, value ref.Val) {
	e.SetKindCase(f.factory.NewLiteral(e.ID(), value))
}

func (f *folder) replace(e, part ast.Expr) {
	f.moved[e.ID()] = part.ID()
	if deeper, ok := f.moved[part.ID()]; ok {
		f.moved[e.ID()] = deeper
	}
	e.SetKindCase(part)
}

func (f *folder) fold(e ast.Expr) {
	if e.Kind() == ast.ComprehensionKind {
		c := e.AsComprehension()
		f.fold(c.IterRange())
		f.fold(c.AccuInit())
		f.hidden = append(f.hidden, c.IterVar(), c.IterVar2())
		f.fold(c.LoopCondition())
		f.fold(c.LoopStep())
		f.fold(c.Result())
		f.hidden = f.hidden[:len(f.hidden)-2]
		return
	}
	for _, part := range cel.Parts(e) {
		f.fold(part)
	}
	switch e.Kind() {
	case ast.SelectKind:
		f.foldSelect(e)
	case ast.CallKind:
		f.foldCall(e)
	}
}

func (f *folder) foldSelect(e ast.Expr) {
	s := e.AsSelect()
	_, absent := f.absent[e.ID()]
	switch {
	case s.IsTestOnly() && absent:
		f.constant(e, types.False)
		return
	case s.IsTestOnly():
		return
	case absent:
		f.foldOptional(e)
		return
	}
	name, ok := qualified(e)
	if root, _, _ := strings.Cut(name, "."); ok && !slices.Contains(f.hidden, root) {
		if value := f.constants[name]; value != nil {
			f.constant(e, value)
		}
	}
}

// qualified returns the path of selections from a variable.
func qualified(e ast.Expr) (string, bool) {
	switch e.Kind() {
	case ast.IdentKind:
		return e.AsIdent(), true
	case ast.SelectKind:
		above, ok := qualified(e.AsSelect().Operand())
		return above + "." + e.AsSelect().FieldName(), ok && !e.AsSelect().IsTestOnly()
	}
	return "", false
}

func (f *folder) foldCall(e ast.Expr) {
	call := e.AsCall()
	args := call.Args()
	switch call.FunctionName() {
	case operators.LogicalAnd, operators.LogicalOr:
		f.foldLogic(e, types.Bool(call.FunctionName() == operators.LogicalOr))
	case operators.LogicalNot:
		if value, ok := args[0].AsLiteral().(types.Bool); ok {
			f.constant(e, !value)
		}
	case operators.Conditional:
		switch args[0].AsLiteral() {
		case types.True:
			f.replace(e, args[1])
		case types.False:
			f.replace(e, args[2])
		}
	case operators.Equals, operators.NotEquals:
		if a, b := args[0].AsLiteral(), args[1].AsLiteral(); a != nil && b != nil {
			f.constant(e, types.Bool((a.Equal(b) == types.True) == (call.FunctionName() == operators.Equals)))
		}
	case operators.In:
		f.foldIn(e, args)
	case operators.Index:
		// A field whose name is no identifier.
		if name, ok := args[1].AsLiteral().(types.String); ok {
			e.SetKindCase(f.factory.NewSelect(e.ID(), args[0], string(name)))
			f.foldSelect(e)
		}
	case operators.OptIndex:
		if _, ok := args[1].AsLiteral().(types.String); ok {
			e.SetKindCase(f.factory.NewCall(e.ID(), operators.OptSelect, args...))
		}
		f.foldOptional(e)
	case operators.OptSelect:
		f.foldOptional(e)
	case "startsWith", "endsWith", "contains", "matches":
		f.foldText(e, call)
	}
}

func (f *folder) foldOptional(e ast.Expr) {
	if _, absent := f.absent[e.ID()]; absent {
		e.SetKindCase(f.factory.NewCall(e.ID(), "optional.none"))
	}
}

// foldLogic folds && or ||, of which decisive decides whatever the other operands are.
func (f *folder) foldLogic(e ast.Expr, decisive types.Bool) {
	open := false
	for _, arg := range e.AsCall().Args() {
		switch arg.AsLiteral() {
		case decisive:
			f.constant(e, decisive)
			return
		case !decisive:
		default:
			// It stays as it is: its other operands may have no truth.
			open = true
		}
	}
	if !open {
		f.constant(e, !decisive)
	}
}

// foldIn folds the search in a list, and in an object that has no such field.
func (f *folder) foldIn(e ast.Expr, args []ast.Expr) {
	if _, absent := f.absent[e.ID()]; absent {
		f.constant(e, types.False)
		return
	}
	value := args[0].AsLiteral()
	if value == nil || args[1].Kind() != ast.ListKind {
		return
	}
	found := false
	for _, element := range args[1].AsList().Elements() {
		other := element.AsLiteral()
		if other == nil {
			return
		}
		found = found || value.Equal(other) == types.True
	}
	f.constant(e, types.Bool(found))
}

func (f *folder) foldText(e ast.Expr, call ast.CallExpr) {
	if !call.IsMemberFunction() || len(call.Args()) != 1 {
		return
	}
	text, ok := call.Target().AsLiteral().(types.String)
	part, isText := call.Args()[0].AsLiteral().(types.String)
	if !ok || !isText {
		return
	}
	switch call.FunctionName() {
	case "startsWith":
		f.constant(e, types.Bool(strings.HasPrefix(string(text), string(part))))
	case "endsWith":
		f.constant(e, types.Bool(strings.HasSuffix(string(text), string(part))))
	case "contains":
		f.constant(e, types.Bool(strings.Contains(string(text), string(part))))
	case "matches":
		if float64(len(text))*float64(meter.PatternSize(string(part))) > mostMatched {
			return
		}
		if pattern, err := regexp.Compile(string(part)); err == nil {
			f.constant(e, types.Bool(pattern.MatchString(string(text))))
		}
	}
}

// mostMatched is how many steps of matching a constant text are taken.
const mostMatched = 1_000_000
