package admission

import (
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/usher-dev/usher/internal/lang/cel"
)

// isFilled reports whether a value is a list with items.
func isFilled(v ref.Val) bool {
	list, ok := v.(traits.Lister)
	return ok && list.Size() != types.IntZero
}

// emptied returns the list of which an expression asks whether it is empty; nil if it asks something
// else.
func emptied(e celast.Expr) celast.Expr {
	if len(e.AsCall().Args()) != 2 {
		return nil
	}
	args, most := e.AsCall().Args(), types.Int(0)
	left, right := args[0], args[1]
	switch e.AsCall().FunctionName() {
	case operators.Equals, operators.NotEquals:
		if isNothing(left) {
			left, right = right, left
		}
		if cel.IsEmptyList(right) {
			return left
		}
	case operators.Greater, operators.LessEquals:
	case operators.GreaterEquals, operators.Less:
		most = 1
	default:
		return nil
	}
	if right.AsLiteral() != most || left.AsCall().FunctionName() != "size" {
		return nil
	}
	return cel.Parts(left)[0]
}

// isNothing reports whether an expression is 0 or [].
func isNothing(e celast.Expr) bool { return e.AsLiteral() == types.IntZero || cel.IsEmptyList(e) }

// list finds the place that a call reads which is about items of lists; nothing if it is not.
func (f finder) list(e celast.Expr) place {
	call := e.AsCall()
	switch call.FunctionName() {
	case operators.In:
		if found := f.find(call.Args()[0]); found.path == "" && f.value(e) == types.True {
			return f.equal(call.Args()[0], call.Args()[1])
		}
		return place{}
	case operators.Add:
		if _, ok := f.value(e).(traits.Lister); ok {
			return f.added(call.Args())
		}
		return place{}
	}
	if of := emptied(e); of != nil && isFilled(f.value(of)) {
		return f.member(of)
	}
	return place{}
}

// equal returns the place of the first item of a list that has a value.
func (f finder) equal(e, in celast.Expr) place {
	value, list := f.value(e), f.value(in)
	switch value.(type) {
	case types.String, types.Int, types.Bool:
	default:
		return place{}
	}
	if _, ok := list.(traits.Lister); !ok {
		return place{}
	}
	places := f.items(in, list)
	for i, item := range entriesOf(list) {
		if i < len(places) && item.value.Equal(value) == types.True {
			return places[i]
		}
	}
	return place{}
}

// added returns what lists that are added have in common. Those without items count only if all have
// none.
func (f finder) added(lists []celast.Expr) place {
	var filled, all []place
	for _, list := range lists {
		found := f.find(list)
		if all = append(all, found); isFilled(f.value(list)) {
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
func (f finder) member(e celast.Expr) place {
	if !f.step() {
		return place{}
	}
	if alias, within := f.alias(e); alias != nil {
		return within.member(alias)
	}
	switch e.Kind() {
	case celast.ListKind:
		for _, item := range e.AsList().Elements() {
			if found := f.find(item); found.path != "" {
				return found
			}
		}
	case celast.ComprehensionKind:
		c := e.AsComprehension()
		switch c.LoopStep().AsCall().FunctionName() {
		case operators.Conditional:
			return f.first(c, bodyOf(c.LoopStep()), func(v ref.Val) bool { return v == types.True }, finder.find)
		case operators.Add:
			return f.member(c.IterRange())
		}
	case celast.CallKind:
		call := e.AsCall()
		switch call.FunctionName() {
		case operators.Conditional:
			if branch := f.branch(e); branch != nil {
				return f.member(branch)
			}
		case operators.Add:
			for _, list := range call.Args() {
				if isFilled(f.value(list)) {
					return f.member(list)
				}
			}
		case "distinct", "sort":
			return f.member(call.Target())
		case "flatten":
			return f.nested(call.Target())
		}
	}
	return f.find(e)
}

// nested finds why the lists in a list are not all empty.
func (f finder) nested(e celast.Expr) place {
	if alias, within := f.alias(e); alias != nil {
		return within.nested(alias)
	}
	if e.Kind() == celast.ComprehensionKind {
		if body := mapped(e.AsComprehension().LoopStep()); body != nil {
			return f.first(e.AsComprehension(), body, isFilled, finder.member)
		}
	}
	return f.member(e)
}

// mapped returns what the macro map makes of each item, of the step that it became; nil if it is another one.
func mapped(step celast.Expr) celast.Expr {
	if step.AsCall().FunctionName() == operators.Add {
		return bodyOf(step)
	}
	return nil
}

// first finds the first item of a loop for which its body has a value that is accepted: what the body
// reads, or else the item.
func (f finder) first(
	c celast.ComprehensionExpr, body celast.Expr, accepted func(ref.Val) bool, find func(finder, celast.Expr) place,
) place {
	var found place
	f.each(c, body, func(at place, v ref.Val, inner finder) bool {
		if !accepted(v) {
			return true
		}
		if found = find(inner, body); found.path == "" {
			found = at
		}
		return false
	})
	return found
}

// flattened fills in where the items of the lists in a list are in the object.
func (f finder) flattened(places []place, e celast.Expr) {
	if alias, within := f.alias(e); alias != nil {
		within.flattened(places, alias)
		return
	}
	n := 0
	if at := f.place(e); at.known {
		for i, inner := range entriesOf(f.value(e)) {
			for j := range entriesOf(inner.value) {
				n += copy(places[n:], []place{at.item(i).item(j)})
			}
		}
		return
	}
	if e.Kind() != celast.ComprehensionKind {
		return
	}
	body := mapped(e.AsComprehension().LoopStep())
	if body == nil {
		return
	}
	f.each(e.AsComprehension(), body, func(_ place, v ref.Val, inner finder) bool {
		if _, ok := v.(traits.Lister); ok {
			n += copy(places[n:], inner.items(body, v))
		} else {
			n += copy(places[n:], []place{inner.place(body)})
		}
		return n < len(places)
	})
}
