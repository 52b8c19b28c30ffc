package typecheck

import (
	"slices"
	"strings"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/lang/cel/apply"
)

// A mistake is an error of the type checker that evaluation has, too.
type mistake struct {
	// node is that of the expression as it is written.
	node int64
	// at is where the missing field was looked for, or where the value comes from.
	at path
	// field is one that does not exist in operand, as it is written; fields are those that do.
	operand, field string
	fields         []string
	// test is has, optional or in if the expression asks whether the field is there.
	test string
	// sets says that the field is set, and not read.
	sets bool
	// what is wrong, if it is not a missing field, and what to do.
	what, do string
	// unless says which values do not fail, as the end of a sentence; it is empty if all do.
	unless string
}

// A classifier tells which errors of the type checker are mistakes. The rest come from types that
// are stricter than values: an object can be used as a map, 1 equals 1.0, and a list may have
// elements of different types.
type classifier struct {
	*provider

	nodes map[int64]ast.Expr
	typed *ast.AST
	info  *ast.SourceInfo
	paths map[int64]path
	// written are the fields that an apply configuration sets.
	written map[int64]written
	// structures say what apply configurations can set.
	structures *apply.Types
}

func (c *classifier) classify(e *common.Error) (mistake, bool) {
	node := c.nodes[e.ExprID]
	if node == nil {
		if w, ok := c.written[e.ExprID]; ok {
			return c.setting(w, strings.HasPrefix(e.Message, "undefined field "))
		}
		return mistake{}, false
	}
	switch message := e.Message; {
	case strings.HasPrefix(message, "undefined field "):
		return c.undefined(node)
	case strings.HasPrefix(message, "found no matching overload"):
		return c.overload(node)
	case strings.HasSuffix(message, "does not support field selection"):
		return c.selection(node)
	case strings.HasPrefix(message, "expression of type "):
		return c.iteration(node)
	case strings.HasPrefix(message, "expected type 'bool'"):
		return c.boolean(node)
	}
	return mistake{}, false
}

// typeOfNode returns the type of a node, of optional values that of the value.
func (c *classifier) typeOfNode(e ast.Expr) *types.Type {
	t := c.typed.GetType(e.ID())
	if isOptional(t) {
		return t.Parameters()[0]
	}
	return t
}

// selected returns the operand and the field of a selection.
func selected(e ast.Expr) (operand ast.Expr, field string, ok bool) {
	switch e.Kind() {
	case ast.SelectKind:
		return e.AsSelect().Operand(), e.AsSelect().FieldName(), true
	case ast.CallKind:
		if args := e.AsCall().Args(); e.AsCall().FunctionName() == operators.OptSelect && len(args) == 2 {
			name, isText := args[1].AsLiteral().(types.String)
			return args[0], string(name), isText
		}
	}
	return nil, "", false
}

func (c *classifier) undefined(e ast.Expr) (mistake, bool) {
	operand, field, ok := selected(e)
	if !ok {
		return mistake{}, false
	}
	name := c.typeOfNode(operand).TypeName()
	if !c.owns(name) {
		// Compiling the policy says so.
		return mistake{}, false
	}
	m := mistake{at: c.paths[operand.ID()], operand: c.text(operand), field: field, fields: c.fields(name)}
	switch {
	case e.Kind() == ast.SelectKind && e.AsSelect().IsTestOnly():
		m.test = "has"
	case e.Kind() == ast.CallKind || isOptional(c.typed.GetType(operand.ID())):
		m.test = "optional"
	}
	return m, true
}

func (c *classifier) selection(e ast.Expr) (mistake, bool) {
	operand, field, ok := selected(e)
	if !ok {
		return mistake{}, false
	}
	t := c.typeOfNode(operand)
	m := mistake{at: c.paths[operand.ID()], what: c.text(operand) + " is " + describe(t) + ", which has no " + field}
	if t.Kind() == types.ListKind {
		m.do = "go through its elements: " + c.text(operand) + ".all(e, …), or name one by its index"
	}
	return m, true
}

func (c *classifier) iteration(e ast.Expr) (mistake, bool) {
	t := c.typeOfNode(e)
	if t.Kind() == types.StructKind && c.owns(t.TypeName()) || isOptional(c.typed.GetType(e.ID())) && isUnknown(t) {
		return mistake{}, false
	}
	m := mistake{at: c.paths[e.ID()], what: c.text(e) + " is " + describe(c.typed.GetType(e.ID())) + ": only lists and maps have elements"}
	if isOptional(c.typed.GetType(e.ID())) {
		m.do = "write .orValue([]) behind it"
	}
	return m, true
}

func (c *classifier) boolean(e ast.Expr) (mistake, bool) {
	t := c.typed.GetType(e.ID())
	if isUnknown(t) {
		return mistake{}, false
	}
	return mistake{at: c.paths[e.ID()], what: c.text(e) + " is " + describe(t) + ", and has to be true or false", do: "compare it with something"}, true
}

func (c *classifier) overload(e ast.Expr) (mistake, bool) {
	if e.Kind() != ast.CallKind {
		return mistake{}, false
	}
	call := e.AsCall()
	operands := cel.Parts(e)
	of := make([]*types.Type, len(operands))
	for i, operand := range operands {
		of[i] = c.typed.GetType(operand.ID())
	}
	switch name := call.FunctionName(); name {
	case operators.Equals, operators.NotEquals:
		return c.equality(operands, of)
	case operators.In:
		return c.membership(operands, of)
	case operators.Index, operators.OptIndex:
		return c.index(operands, of)
	case operators.Conditional:
		if of[0].Kind() == types.BoolKind || isUnknown(of[0]) {
			return mistake{}, false
		}
		return c.boolean(operands[0])
	case operators.Add:
		if isList(of[0]) && isList(of[1]) {
			return mistake{}, false
		}
	case "size":
		if c.isObject(of[0]) {
			return mistake{}, false
		}
	case "or", "orValue":
		if isOptional(of[0]) {
			return mistake{}, false
		}
	case "sets.contains", "sets.equivalent", "sets.intersects":
		if isList(of[0]) && isList(of[1]) {
			return mistake{}, false
		}
	}
	return c.noFunction(call, operands, of)
}

func (c *classifier) isObject(t *types.Type) bool {
	return t.Kind() == types.StructKind && c.owns(t.TypeName())
}

func isList(t *types.Type) bool { return t.Kind() == types.ListKind }

func isUnknown(t *types.Type) bool {
	switch t.Kind() {
	case types.DynKind, types.AnyKind, types.ErrorKind, types.TypeParamKind:
		return true
	default:
		return false
	}
}

func isNumber(t *types.Type) bool {
	switch t.Kind() {
	case types.IntKind, types.UintKind, types.DoubleKind:
		return true
	default:
		return false
	}
}

// comparable reports whether values of two types can be equal.
func (c *classifier) comparable(a, b *types.Type) bool {
	isMap := func(t *types.Type) bool { return t.Kind() == types.MapKind || c.isObject(t) }
	switch {
	case isUnknown(a), isUnknown(b), a.Kind() == types.NullTypeKind, b.Kind() == types.NullTypeKind:
		return true
	case isNumber(a) && isNumber(b), isList(a) && isList(b), isMap(a) && isMap(b):
		return true
	case isOptional(a) && isOptional(b):
		return true
	}
	return a.Kind() == b.Kind() && a.Kind() != types.OpaqueKind
}

func (c *classifier) equality(operands []ast.Expr, of []*types.Type) (mistake, bool) {
	a, b := operands[0], operands[1]
	if c.comparable(of[0], of[1]) {
		return mistake{}, false
	}
	at := c.paths[a.ID()]
	if at.holder == "" {
		at = c.paths[b.ID()]
	}
	return mistake{
		at:   at,
		what: c.text(a) + " is " + describe(of[0]) + " and " + c.text(b) + " is " + describe(of[1]) + ": they are never equal",
		do:   c.adviseComparison(operands, of),
	}, true
}

func (c *classifier) membership(operands []ast.Expr, of []*types.Type) (mistake, bool) {
	value, in := operands[0], operands[1]
	m := mistake{at: c.paths[in.ID()]}
	switch {
	case isUnknown(of[1]):
		return mistake{}, false
	case c.isObject(of[1]) && of[0].Kind() == types.StringKind:
		name, ok := value.AsLiteral().(types.String)
		schema := c.named[of[1].TypeName()]
		if _, has := schema.Properties[string(name)]; !ok || has || isOpen(schema) {
			return mistake{}, false
		}
		m.operand, m.field, m.fields, m.test = c.text(in), string(name), c.fields(of[1].TypeName()), "in"
		return m, true
	case isList(of[1]) && c.comparable(of[0], of[1].Parameters()[0]):
		return mistake{}, false
	case isList(of[1]):
		m.what = c.text(value) + " is " + describe(of[0]) + ", and the elements of " + c.text(in) + " are " + describeAll(of[1].Parameters()[0]) + ": it is never one of them"
		m.do = c.adviseComparison(operands[:1], []*types.Type{of[0], of[1].Parameters()[0]})
	case of[1].Kind() == types.MapKind || c.isObject(of[1]):
		if c.comparable(of[0], types.StringType) {
			return mistake{}, false
		}
		m.what = c.text(value) + " is " + describe(of[0]) + ", and the keys of " + c.text(in) + " are texts: it is never one of them"
	case of[1].Kind() == types.StringKind && of[0].Kind() == types.StringKind:
		m.what = c.text(in) + " is a text, and in looks for elements of lists and maps"
		m.do = "write " + c.text(in) + ".contains(" + c.text(value) + ")"
	default:
		m.what = c.text(in) + " is " + describe(of[1]) + ": only lists and maps have elements"
	}
	return m, true
}

func (c *classifier) index(operands []ast.Expr, of []*types.Type) (mistake, bool) {
	t := c.typeOfNode(operands[0])
	index := of[1]
	m := mistake{at: c.paths[operands[0].ID()]}
	switch {
	case isUnknown(t), isUnknown(index), isList(t) && isNumber(index):
		return mistake{}, false
	case c.isObject(t) || t.Kind() == types.MapKind:
		if c.comparable(index, types.StringType) {
			return mistake{}, false
		}
		m.what = c.text(operands[0]) + " is a map with texts as keys, and " + c.text(operands[1]) + " is " + describe(index)
	case isList(t):
		m.what = c.text(operands[0]) + " is a list, and " + c.text(operands[1]) + " is " + describe(index)
		m.do = "name an element by its number, or go through all of them: " + c.text(operands[0]) + ".all(e, …)"
	default:
		m.what = c.text(operands[0]) + " is " + describe(t) + ", which has no elements"
	}
	return m, true
}

// noFunction says that a function is not for values of these types.
func (c *classifier) noFunction(call ast.CallExpr, operands []ast.Expr, of []*types.Type) (mistake, bool) {
	m := mistake{}
	for _, operand := range operands {
		if m.at = c.paths[operand.ID()]; m.at.holder != "" {
			break
		}
	}
	var texts, kinds []string
	for i, operand := range operands {
		texts = append(texts, c.text(operand))
		kinds = append(kinds, nameOf(of[i]))
	}
	if symbol, ok := operators.FindReverse(call.FunctionName()); ok && symbol != "" {
		written := strings.Join(texts, " "+symbol+" ")
		if len(texts) == 1 {
			written = symbol + texts[0]
		}
		m.what = written + ": there is no " + symbol + " for " + strings.Join(kinds, " and ")
		m.do = c.adviseOperator(call.FunctionName(), operands, of)
		if c.mayBeWhole(operands, of) {
			m.unless = ", unless the value is whole"
		}
		return m, true
	}
	name := call.FunctionName()
	if call.IsMemberFunction() {
		m.what = texts[0] + "." + name + "(" + strings.Join(texts[1:], ", ") + "): "
	} else {
		m.what = name + "(" + strings.Join(texts, ", ") + "): "
	}
	m.what += "there is no function " + name + " for " + strings.Join(kinds, " and ")
	if needsOptional(call, of) && strings.HasPrefix(name, "or") {
		m.unless = ", so it does nothing, and the expression fails if there is no value"
	}
	m.do = c.adviseFunction(call, texts, of)
	return m, true
}

// mayBeWhole reports whether an operator that mixes numbers works for values of a schema that are
// whole: these are integers.
func (c *classifier) mayBeWhole(operands []ast.Expr, of []*types.Type) bool {
	if len(of) != 2 || !isNumber(of[0]) || !isNumber(of[1]) {
		return false
	}
	return slices.ContainsFunc(operands, func(e ast.Expr) bool {
		return c.typed.GetType(e.ID()).Kind() == types.DoubleKind && e.AsLiteral() == nil
	})
}

// needsOptional reports whether a function of optional values is called on a value that is none.
func needsOptional(call ast.CallExpr, of []*types.Type) bool {
	return call.IsMemberFunction() && slices.Contains([]string{"or", "orValue", "hasValue", "value"}, call.FunctionName()) && !isOptional(of[0])
}

func isOptional(t *types.Type) bool {
	return t.Kind() == types.OpaqueKind && t.TypeName() == "optional_type"
}
