package closure

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// An accumulator is the variable that a loop computes. It has its first value when it is first read,
// and an empty list or map is then one that the loop can change.
type accumulator struct {
	// slot has the value; the slot after it says whether the loop can change it.
	slot                    int
	initial, goOn, conclude node
}

// unset is what the slot of an accumulator has before it has a value.
type unset struct{}

func (a *accumulator) start(f *Frame) { *f.slot(a.slot), *f.slot(a.slot + 1) = unset{}, false }

// eval returns the value of the variable.
func (a *accumulator) eval(f *Frame) any {
	current := *f.slot(a.slot)
	if _, is := current.(unset); !is {
		return current
	}
	value := f.value(a.initial.eval(f))
	if l, ok := value.(traits.Lister); ok && l.Size() == types.IntZero {
		value, *f.slot(a.slot + 1) = types.NewMutableList(f.program.adapter), true
	}
	if m, ok := value.(traits.Mapper); ok && m.Size() == types.IntZero {
		value, *f.slot(a.slot + 1) = types.NewMutableMap(f.program.adapter, map[ref.Val]ref.Val{}), true
	}
	*f.slot(a.slot) = value
	return value
}

// next computes the next value, and reports whether there is one.
func (a *accumulator) next(f *Frame, l *loop) bool {
	if holds, ok := truth(a.goOn.eval(f)); ok && !holds {
		return false
	}
	value := f.value(l.body.eval(f))
	*f.slot(a.slot) = value
	return true
}

// result is the result of the loop, which nobody changes any more.
func (a *accumulator) result(f *Frame) any {
	result := a.conclude.eval(f)
	if *f.slot(a.slot + 1) != true {
		return result
	}
	switch v := result.(type) {
	case traits.MutableLister:
		return v.ToImmutableList()
	case traits.MutableMapper:
		return v.ToImmutableMap()
	}
	return result
}
