package admission

import (
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// isFilled reports whether a value is a list with items.
func isFilled(v ref.Val) bool {
	list, ok := v.(traits.Lister)
	return ok && list.Size() != types.IntZero
}

// emptied returns the list of which an expression asks whether it is empty; nil if it asks something
// else.
func emptied(e celast.Expr) celast.Expr {
	if e.Kind() != celast.CallKind || len(e.AsCall().Args()) != 2 {
		return nil
	}
	args, most := e.AsCall().Args(), types.Int(0)
	left, right := args[0], args[1]
	switch e.AsCall().FunctionName() {
	case operators.Equals, operators.NotEquals:
		if isNothing(left) {
			left, right = right, left
		}
		if right.Kind() == celast.ListKind && right.AsList().Size() == 0 {
			return left
		}
	case operators.Greater, operators.LessEquals:
	case operators.GreaterEquals, operators.Less:
		most = 1
	default:
		return nil
	}
	if right.Kind() != celast.LiteralKind || right.AsLiteral() != most || left.Kind() != celast.CallKind || left.AsCall().FunctionName() != "size" {
		return nil
	}
	if left.AsCall().IsMemberFunction() {
		return left.AsCall().Target()
	}
	return left.AsCall().Args()[0]
}

// isNothing reports whether an expression is 0 or [].
func isNothing(e celast.Expr) bool {
	return e.Kind() == celast.LiteralKind && e.AsLiteral() == types.IntZero || e.Kind() == celast.ListKind && e.AsList().Size() == 0
}

// list finds the place that a call reads which is about items of lists; nothing if it is not.
func (f *finder) list(e celast.Expr, s *scope) place {
	call := e.AsCall()
	switch call.FunctionName() {
	case operators.In:
		if found := f.find(call.Args()[0], s); found.path == "" && f.value(e, s) == types.True {
			return f.equal(call.Args()[0], call.Args()[1], s)
		}
		return place{}
	case operators.Add:
		if _, ok := f.value(e, s).(traits.Lister); ok {
			return f.added(call.Args(), s)
		}
		return place{}
	}
	if of := emptied(e); of != nil && isFilled(f.value(of, s)) {
		return f.member(of, s)
	}
	return place{}
}

// equal returns the place of the first item of a list that has a value.
func (f *finder) equal(e, in celast.Expr, s *scope) place {
	value, list := f.value(e, s), f.value(in, s)
	switch value.(type) {
	case types.String, types.Int, types.Bool:
	default:
		return place{}
	}
	if _, ok := list.(traits.Lister); !ok {
		return place{}
	}
	places := f.items(in, s, list)
	for i, item := range entriesOf(list) {
		if i < len(places) && item.value.Equal(value) == types.True {
			return places[i]
		}
	}
	return place{}
}

// added returns what lists that are added have in common. Those without items count only if all have
// none.
func (f *finder) added(lists []celast.Expr, s *scope) place {
	var filled, all []place
	for _, list := range lists {
		found := f.find(list, s)
		if all = append(all, found); isFilled(f.value(list, s)) {
			filled = append(filled, found)
		}
	}
	if len(filled) > 0 {
		return meeting(filled)
	}
	return meeting(all)
}

// member finds why a list is not empty: what its first item comes from, and has, as if exists had found
// it.
func (f *finder) member(e celast.Expr, s *scope) place {
	if !f.step() {
		return place{}
	}
	if alias, within := f.alias(e, s); alias != nil {
		return f.member(alias, within)
	}
	switch e.Kind() {
	case celast.ListKind:
		for _, item := range e.AsList().Elements() {
			if found := f.find(item, s); found.path != "" {
				return found
			}
		}
	case celast.ComprehensionKind:
		c := e.AsComprehension()
		step := c.LoopStep()
		if step.Kind() != celast.CallKind {
			break
		}
		switch step.AsCall().FunctionName() {
		case operators.Conditional:
			return f.first(c, step.AsCall().Args()[0], s, func(v ref.Val) bool { return v == types.True }, f.find)
		case operators.Add:
			return f.member(c.IterRange(), s)
		}
	case celast.CallKind:
		call := e.AsCall()
		switch call.FunctionName() {
		case operators.Conditional:
			if branch := f.branch(e, s); branch != nil {
				return f.member(branch, s)
			}
		case operators.Add:
			for _, list := range call.Args() {
				if isFilled(f.value(list, s)) {
					return f.member(list, s)
				}
			}
		case "distinct", "sort":
			return f.member(call.Target(), s)
		case "flatten":
			return f.nested(call.Target(), s)
		}
	}
	return f.find(e, s)
}

// nested finds why the lists in a list are not all empty.
func (f *finder) nested(e celast.Expr, s *scope) place {
	if alias, within := f.alias(e, s); alias != nil {
		return f.nested(alias, within)
	}
	if e.Kind() == celast.ComprehensionKind {
		c := e.AsComprehension()
		if body := mapped(c); body != nil {
			return f.first(c, body, s, isFilled, f.member)
		}
	}
	return f.member(e, s)
}

// mapped returns what the macro map makes of each item; nil if a loop is none.
func mapped(c celast.ComprehensionExpr) celast.Expr {
	if step := c.LoopStep(); step.Kind() == celast.CallKind && step.AsCall().FunctionName() == operators.Add {
		return bodyOf(step)
	}
	return nil
}

// first finds the first item of a loop for which its body has a value that is accepted: what the body
// reads, or else the item.
func (f *finder) first(
	c celast.ComprehensionExpr, body celast.Expr, s *scope, accepted func(ref.Val) bool, find func(celast.Expr, *scope) place,
) place {
	var found place
	f.each(c, body, s, func(body celast.Expr, at place, v ref.Val, inner *scope) bool {
		if !accepted(v) {
			return true
		}
		if found = find(body, inner); found.path == "" {
			found = at
		}
		return false
	})
	return found
}

// flattened fills in where the items of the lists in a list are in the object.
func (f *finder) flattened(places []place, e celast.Expr, s *scope) {
	if alias, within := f.alias(e, s); alias != nil {
		f.flattened(places, alias, within)
		return
	}
	n := 0
	if at := f.place(e, s); at.known {
		for i, inner := range entriesOf(f.value(e, s)) {
			for j := range entriesOf(inner.value) {
				n += copy(places[n:], []place{at.item(i).item(j)})
			}
		}
		return
	}
	if e.Kind() != celast.ComprehensionKind {
		return
	}
	c := e.AsComprehension()
	body := mapped(c)
	if body == nil {
		return
	}
	f.each(c, body, s, func(body celast.Expr, _ place, v ref.Val, inner *scope) bool {
		if _, ok := v.(traits.Lister); ok {
			n += copy(places[n:], f.items(body, inner, v))
		} else {
			n += copy(places[n:], []place{f.place(body, inner)})
		}
		return n < len(places)
	})
}
