package closure

import (
	"regexp"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"

	"github.com/usher-dev/usher/internal/lang/cel/meter"
)

func (p *plan) call(e ast.Expr) node {
	c := e.AsCall()
	args := c.Args()
	switch c.FunctionName() {
	case operators.LogicalAnd:
		return &connective{terms: p.nodes(terms(e, nil))}
	case operators.LogicalOr:
		return &connective{terms: p.nodes(terms(e, nil)), decides: true}
	case operators.Conditional:
		return &conditional{p.node(args[0]), p.branch(args[1]), p.branch(args[2])}
	case operators.Equals, operators.NotEquals:
		return p.equality(args, c.FunctionName() == operators.NotEquals)
	case operators.Index:
		return p.index(args[0], args[1], false)
	case operators.OptSelect, operators.OptIndex:
		return p.index(args[0], args[1], true)
	}
	if c.IsMemberFunction() {
		args = append([]ast.Expr{c.Target()}, args...)
	}
	n := p.function(e.ID(), c.FunctionName(), args)
	if n == nil {
		return p.fail()
	}
	return p.special(n, args)
}

// equality returns the node of == or !=.
func (p *plan) equality(args []ast.Expr, negated bool) node {
	e := &equality{p.node(args[0]), p.node(args[1]), negated}
	if text, ok := p.value(args[1]); ok {
		if t, ok := text.(types.String); ok {
			return &textEquality{e, string(t)}
		}
	}
	return e
}

// terms returns the operands of calls of one operator within another.
func terms(e ast.Expr, to []ast.Expr) []ast.Expr {
	for _, arg := range e.AsCall().Args() {
		if arg.Kind() == ast.CallKind && arg.AsCall().FunctionName() == e.AsCall().FunctionName() {
			to = terms(arg, to)
			continue
		}
		to = append(to, arg)
	}
	return to
}

// branch returns the attribute of a branch of ?:.
func (p *plan) branch(e ast.Expr) attribute {
	switch n := p.node(e).(type) {
	case *presence:
		return n.attribute
	case attribute:
		return n
	case node:
		return &chain{base: n}
	}
	return p.fail()
}

// function returns the call of a function as cel-go plans it, or nil.
func (p *plan) function(id int64, name string, args []ast.Expr) *call {
	n := &call{id: id, function: name, takes: p.Bounds(name)}
	if n.takes == nil {
		return nil
	}
	reference, checked := p.references[id]
	if !checked {
		return nil
	}
	if len(reference.OverloadIDs) == 1 {
		n.overload = reference.OverloadIDs[0]
		n.impl, _ = p.Dispatcher.FindOverload(n.overload)
	}
	if n.impl == nil {
		n.impl, _ = p.Dispatcher.FindOverload(name)
	}
	n.many = len(args) > 2 || n.impl != nil && n.impl.Function != nil && (len(args) == 1 && n.impl.Unary == nil || len(args) == 2 && n.impl.Binary == nil)
	if len(args) == 0 && (n.impl == nil || n.impl.Function == nil) {
		return nil
	}
	n.args = p.nodes(args)
	return n
}

// special returns the node of a call that needs no values of cel-go, or the call.
func (p *plan) special(n *call, args []ast.Expr) node {
	if len(args) == 2 {
		switch {
		case n.function == "or" && (n.overload == "" || n.overload == "optional_or_optional"):
			return &either{left: n.args[0], right: n.args[1]}
		case n.function == "orValue" && (n.overload == "" || n.overload == "optional_orValue_value"):
			return &either{left: n.args[0], right: n.args[1], unwrap: true}
		}
	}
	if n.overload == overloads.InList {
		if set := p.set(n, args[1]); set != nil {
			return set
		}
	}
	if r := p.regex(n, args); r != nil {
		return r
	}
	if n.impl == nil || n.impl.NonStrict {
		return n
	}
	switch len(args) {
	case 1:
		return p.unary(n)
	case 2:
		return p.binary(n)
	}
	return n
}

func (p *plan) unary(n *call) node {
	switch {
	case n.function == operators.LogicalNot:
		return &not{n.args[0]}
	case n.function == overloads.Size:
		return &size{n.args[0], n}
	case n.overload == "optional_hasValue":
		if c, ok := n.args[0].(*chain); ok {
			return &hasValue{c, n}
		}
	}
	return n
}

func (p *plan) binary(n *call) node {
	if n.many {
		return n
	}
	r := &relation{left: n.args[0], right: n.args[1], call: n}
	switch n.function {
	case operators.Less:
		r.less = true
	case operators.LessEquals:
		r.less, r.same = true, true
	case operators.Greater:
		r.more = true
	case operators.GreaterEquals:
		r.more, r.same = true, true
	case operators.In:
		return &membership{n.args[0], n.args[1], n}
	case operators.Add:
		return &sum{n.args[0], n.args[1], n}
	default:
		if has := affixOf(n.overload); has != nil {
			return &affix{n.args[0], n.args[1], has, n}
		}
		return n
	}
	return r
}

// set returns the node of membership in a constant list of scalars, or nil.
func (p *plan) set(n *call, of ast.Expr) node {
	value, ok := p.value(of)
	if !ok {
		return nil
	}
	l, ok := value.(traits.Lister)
	if !ok {
		return nil
	}
	var items []ref.Val
	var texts []string
	for it := l.Iterator(); it.HasNext() == types.True; {
		items = append(items, it.Next())
		if text, ok := items[len(items)-1].(types.String); ok {
			texts = append(texts, string(text))
		}
	}
	if len(texts) == len(items) && len(texts) <= longestTexts {
		return &textSet{n.args[0], texts}
	}
	if values := newValueSet(items); values != nil {
		return &valueSet{n.args[0], values}
	}
	return nil
}

// longestTexts is how many texts are compared one after the other.
const longestTexts = 16

// regex returns the node of a call with a constant regular expression, or nil.
func (p *plan) regex(n *call, args []ast.Expr) node {
	r := p.regexOf(n)
	if r == nil || r.RegexIndex >= len(args) {
		return nil
	}
	value, ok := p.value(args[r.RegexIndex])
	if !ok {
		return nil
	}
	text, ok := value.(types.String)
	if !ok {
		return nil
	}
	if r == interpreter.MatchesRegexOptimization && len(args) == 2 {
		expression, err := regexp.Compile(string(text))
		if err != nil {
			return p.fail()
		}
		return &match{n.args[0], expression, meter.NewPattern(string(text))}
	}
	arguments := make([]interpreter.Interpretable, len(args))
	for i := range args {
		arguments[i] = &argument{args[i].ID(), i}
	}
	made, err := r.Factory(interpreter.NewCall(n.id, n.function, n.overload, arguments, nil), string(text))
	if err != nil {
		return p.fail()
	}
	if n.function == "findAll" {
		return &search{of: made, args: n.args, pattern: meter.NewPatternForAll(string(text)), all: true}
	}
	return &search{of: made, args: n.args, pattern: meter.NewPattern(string(text))}
}

// regexOf returns how cel-go compiles the regular expressions of a function, or nil.
func (p *plan) regexOf(n *call) *interpreter.RegexOptimization {
	for _, r := range p.Regexes {
		if n.overload != "" && r.OverloadID == n.overload {
			return r
		}
	}
	for _, r := range p.Regexes {
		if r.Function == n.function {
			return r
		}
	}
	return nil
}
