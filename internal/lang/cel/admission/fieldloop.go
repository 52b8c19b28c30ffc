package admission

import (
	"fmt"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/usher-dev/usher/internal/lang/cel"
)

// binds reports whether a loop is what cel.bind became.
func binds(c celast.ComprehensionExpr) bool {
	return cel.IsEmptyList(c.IterRange()) && c.LoopCondition().AsLiteral() == types.False
}

// bind finds in what the result of cel.bind sees.
func (f finder) bind(c celast.ComprehensionExpr) finder {
	var values map[string]any
	if value := f.value(c.AccuInit()); value != nil {
		values = map[string]any{c.AccuVar(): value}
	}
	return finder{f.with(values, local{name: c.AccuVar(), alias: c.AccuInit(), within: f})}
}

// loop finds what a macro reads: the item that decided its value, or the list.
func (f finder) loop(e celast.Expr) place {
	c := e.AsComprehension()
	if found := f.decided(e); found.path != "" {
		return found
	}
	if over := f.find(c.IterRange()); over.path != "" {
		return over
	}
	// Which of the items is wrong is not known, but all may read the same field of the object.
	unknown := f.with(nil, local{name: c.IterVar()}, local{name: c.IterVar2()}, local{name: c.AccuVar()})
	return finder{unknown}.find(c.LoopStep())
}

// decided finds the first item for which the body of all is false, or that of exists is true.
func (f finder) decided(e celast.Expr) place {
	c := e.AsComprehension()
	step := c.LoopStep().AsCall()
	var decides ref.Val
	switch step.FunctionName() {
	case operators.LogicalAnd:
		decides = types.False
	case operators.LogicalOr:
		decides = types.True
	default:
		return place{}
	}
	value := f.value(e)
	if value == nil || value != decides && !types.IsError(value) {
		return place{}
	}
	return f.first(c, step.Args()[1], func(v ref.Val) bool {
		return v == decides || types.IsError(value) && types.IsError(v)
	}, finder.find)
}

// each evaluates the body of a loop for its items, each of which is at a place, until do returns false.
func (f finder) each(c celast.ComprehensionExpr, body celast.Expr, do func(at place, value ref.Val, inner finder) bool) {
	list := f.value(c.IterRange())
	if list == nil {
		return
	}
	places := f.items(c.IterRange(), list)
	f.trace.each(c, list, body, func(item *entry, value ref.Val, inner *trace) bool {
		var at place
		if item.index < len(places) {
			at = places[item.index]
		}
		if c.HasIterVar2() || !item.isMap {
			inner.locals.place = at
		}
		return do(at, value, finder{inner})
	})
}

// items returns where the items of a list are in the object. What is in a map is in the map: its
// keys are not told.
func (f finder) items(e celast.Expr, list ref.Val) []place {
	if !f.step() {
		return nil
	}
	sizer, ok := list.(traits.Sizer)
	if !ok {
		return nil
	}
	size, _ := sizer.Size().(types.Int)
	places := make([]place, max(0, min(size, maxTried)))
	if at := f.place(e); at.known {
		_, isMap := list.(traits.Mapper)
		for i := range places {
			if places[i] = at.item(i); isMap {
				places[i] = place{path: at.path, known: true, ends: true}
			}
		}
		return places
	}
	if alias, within := f.alias(e); alias != nil {
		return within.items(alias, list)
	}
	switch e.Kind() {
	case celast.ListKind:
		for i, item := range e.AsList().Elements()[:min(len(places), e.AsList().Size())] {
			places[i] = f.place(item)
		}
	case celast.ComprehensionKind:
		f.made(places, e.AsComprehension())
	}
	args := e.AsCall().Args()
	switch e.AsCall().FunctionName() {
	case operators.Conditional:
		if branch := f.branch(e); branch != nil {
			return f.items(branch, list)
		}
	case operators.Add:
		left, right := f.value(args[0]), f.value(args[1])
		if left != nil && right != nil {
			first := copy(places, f.items(args[0], left))
			copy(places[first:], f.items(args[1], right))
		}
	case "flatten":
		f.flattened(places, e.AsCall().Target())
	}
	return places
}

// made fills in where the items of a list come from that filter or map made.
func (f finder) made(places []place, c celast.ComprehensionExpr) {
	made, each := mapped(c.LoopStep()), mapped(c.LoopStep())
	filters := c.LoopStep().AsCall().FunctionName() == operators.Conditional
	if filters {
		made, each = bodyOf(c.LoopStep().AsCall().Args()[1]), bodyOf(c.LoopStep())
	}
	if made == nil {
		return
	}
	n := 0
	f.each(c, each, func(at place, v ref.Val, inner finder) bool {
		if filters && v != types.True {
			return true
		}
		if found := inner.place(made); found.known {
			at = found
		}
		n += copy(places[n:], []place{at})
		return n < len(places)
	})
}

// item is the place of an item of a list.
func (p place) item(i int) place {
	if p.known && !p.ends {
		p.path += fmt.Sprintf("[%d]", i)
	}
	return p
}
