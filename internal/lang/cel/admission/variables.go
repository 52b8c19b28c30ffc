package admission

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/usher-dev/usher/internal/lang/cel"
)

// variables is the value of the variable of that name: a map whose values are computed when they
// are first read. It behaves as the lazy map of k8s.io/apiserver/pkg/cel/lazy.
type variables struct {
	program    *Program
	activation *activation
	// values are those that have been computed, as [cel.Program.EvalNative] returns them.
	values []any
	// visible is how many of them the expression at work sees: a variable sees those before it.
	visible int
	// cost is that of variables since it was taken last.
	cost int64
}

var _ traits.Mapper = (*variables)(nil)

// variablesType is the type of variables.
var variablesType = types.NewObjectType("kubernetes.variables", traits.IndexerType|traits.FieldTesterType|traits.IterableType)

func (v *variables) takeCost() int64 {
	cost := v.cost
	v.cost = 0
	return cost
}

// Find implements [traits.Mapper].
func (v *variables) Find(key ref.Val) (ref.Val, bool) {
	text, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key), true
	}
	value, found := v.Lookup(string(text))
	if !found {
		return nil, false
	}
	return cel.Value(value), true
}

// Lookup implements [closure.Lookup].
func (v *variables) Lookup(name string) (any, bool) {
	// Few names are escaped, and to find that out takes longer than most expressions.
	if strings.Contains(name, "__") {
		var ok bool
		if name, ok = apiservercel.Unescape(name); !ok {
			return nil, false
		}
	}
	if i := v.program.variable(name, v.visible); i >= 0 {
		return v.value(i), true
	}
	return nil, false
}

// variable returns the index of one of the first variables, or -1. Of two with one name the last counts.
func (p *Program) variable(name string, first int) int {
	for i, v := range slices.Backward(p.variables[:first]) {
		if v.name == name {
			return i
		}
	}
	return -1
}

// uncomputed is what a variable has that nobody has read.
type uncomputed struct{}

// value returns the value of a variable, or its error as a value.
func (v *variables) value(i int) any {
	if len(v.values) == 0 {
		v.values = slices.Grow(v.values, len(v.program.variables))[:len(v.program.variables)]
		v.forget()
	}
	if !v.has(i) {
		v.values[i] = v.compute(i)
	}
	return v.values[i]
}

// has reports whether a variable has been computed.
func (v *variables) has(i int) bool {
	_, not := v.values[i].(uncomputed)
	return !not
}

// forget has all variables computed again.
func (v *variables) forget() {
	for i := range v.values {
		v.values[i] = uncomputed{}
	}
}

func (v *variables) compute(i int) any {
	x := &v.program.variables[i]
	fails := "composited variable %q fails to evaluate: %v"
	if v.program.source.ShortErrors {
		fails = "variable %s: %v"
	}
	if x.err != nil {
		return types.NewErr("composited variable %q fails to compile: %v", x.name, x.err)
	}
	defer v.enter(i)()
	if !v.activation.glances {
		defer v.activation.meter.Apart()()
	}
	value, cost, err := v.activation.runNative(&x.expression)
	v.cost += int64(min(cost, math.MaxInt64))
	switch {
	case err == nil:
		return value
	case v.activation.glances:
		return types.WrapErr(errGlanced)
	}
	return types.NewErr(fails, x.name, err)
}

// enter has the expression of a variable see those before it, until what it returns is called.
func (v *variables) enter(i int) (leave func()) {
	visible := v.visible
	v.visible = i
	return func() { v.visible = visible }
}

// Get implements [traits.Indexer].
func (v *variables) Get(key ref.Val) ref.Val {
	value, found := v.Find(key)
	if found {
		return value
	}
	return types.ValOrErr(key, "no such key: %v", key)
}

// Contains implements [traits.Container].
func (v *variables) Contains(key ref.Val) ref.Val {
	value, found := v.Find(key)
	if value != nil && types.IsUnknownOrError(value) {
		return value
	}
	return types.Bool(found)
}

// Size implements [traits.Sizer].
func (v *variables) Size() ref.Val { return types.Int(v.visible) }

// Iterator implements [traits.Iterable]. There is no expression that the compiler lets iterate.
func (v *variables) Iterator() traits.Iterator {
	names := make([]string, v.visible)
	for i := range names {
		names[i] = v.program.variables[i].name
	}
	return types.NewStringList(types.DefaultTypeAdapter, names).Iterator()
}

// ConvertToNative implements [ref.Val].
func (v *variables) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("disallowed conversion from %q to %q", variablesType.TypeName(), t.Name())
}

// ConvertToType implements [ref.Val].
func (v *variables) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case variablesType:
		return v
	case types.TypeType:
		return variablesType
	}
	return types.NewErr("disallowed conversion from %q to %q", variablesType.TypeName(), t.TypeName())
}

// Equal implements [ref.Val].
func (v *variables) Equal(other ref.Val) ref.Val {
	others, ok := other.(*variables)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	return types.Bool(v == others)
}

// Type implements [ref.Val].
func (v *variables) Type() ref.Type { return variablesType }

// Value implements [ref.Val].
func (v *variables) Value() any { return types.NoSuchOverloadErr() }
