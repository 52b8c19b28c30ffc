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

func (a *accumulator) start(f *frame) { f.slots[a.slot], f.slots[a.slot+1] = unset{}, false }

// eval returns the value of the variable.
func (a *accumulator) eval(f *frame) any {
	if _, is := f.slots[a.slot].(unset); !is {
		return f.slots[a.slot]
	}
	value := f.value(a.initial.eval(f))
	if l, ok := value.(traits.Lister); ok && l.Size() == types.IntZero {
		value, f.slots[a.slot+1] = types.NewMutableList(f.adapter), true
	}
	if m, ok := value.(traits.Mapper); ok && m.Size() == types.IntZero {
		value, f.slots[a.slot+1] = types.NewMutableMap(f.adapter, map[ref.Val]ref.Val{}), true
	}
	f.slots[a.slot] = value
	return value
}

// next computes the next value, and reports whether there is one.
func (a *accumulator) next(f *frame, l *loop) bool {
	if holds, ok := truth(a.goOn.eval(f)); ok && !holds {
		return false
	}
	f.slots[a.slot] = f.value(l.body.eval(f))
	return true
}

// result is the result of the loop, which nobody changes any more.
func (a *accumulator) result(f *frame) any {
	result := a.conclude.eval(f)
	if f.slots[a.slot+1] != true {
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
