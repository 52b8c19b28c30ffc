// Package closure evaluates CEL expressions whose cost need not be counted. A program is a tree of nodes
// that work on the values of decoded objects as they are. It means what the programs of cel-go mean,
// down to the texts of errors, and takes a fraction of their time.
package closure

import (
	"fmt"
	"slices"
	"sync"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"github.com/usher-dev/usher/internal/lang/cel/meter"
)

// A Program is an expression that can be evaluated. It is immutable.
type Program struct {
	root    node
	adapter types.Adapter
	slots   int
	// nanos is what its nodes take that are evaluated at most once, besides what they spend themselves.
	nanos int64
}

// A node is a part of an expression. Its value is a [ref.Val], or what [types.Adapter] makes one of: of
// the values of decoded objects these are nil, bool, int64, float64, string, []any and map[string]any.
// An error is a [*types.Err].
//
// Errors have no IDs of expressions, which nobody reads.
type node interface {
	eval(f *Frame) any
}

// A Frame is what evaluations with the same variables need, one of them within the other. The zero
// Frame is one. It is not safe for concurrent use.
type Frame struct {
	// slots are the variables of loops; those of the innermost evaluation begin at base.
	slots []any
	// meter is that of the variables, or own.
	meter *meter.Meter
	own   meter.Meter
	evaluation
}

// An evaluation is what a frame has of the innermost one.
type evaluation struct {
	variables interpreter.Activation
	program   *Program
	base      int
}

// Framed are variables that keep a frame for their evaluations, and a meter.
type Framed interface {
	interpreter.Activation

	Frame() *Frame
	Meter() *meter.Meter
}

var frames = sync.Pool{New: func() any { return &Frame{} }}

// Eval evaluates the program. The value is a [ref.Val], or one of which the adapter makes one. A panic is
// an error, as in the programs of cel-go.
func (p *Program) Eval(variables interpreter.Activation) (value any, err error) {
	if framed, ok := variables.(Framed); ok {
		return p.EvalIn(framed.Frame(), framed.Meter(), variables)
	}
	f := frames.Get().(*Frame)
	defer frames.Put(f)
	defer f.own.Release()
	return p.EvalIn(f, &f.own, variables)
}

// EvalIn is Eval in the frame of the variables.
func (p *Program) EvalIn(f *Frame, m *meter.Meter, variables interpreter.Activation) (value any, err error) {
	f.meter = m
	outer, length := f.evaluation, len(f.slots)
	defer f.leave(&outer, length, &err)
	if need := length + p.slots; need > cap(f.slots) {
		f.slots = slices.Grow(f.slots, p.slots)
	}
	f.slots = f.slots[:length+p.slots]
	f.evaluation = evaluation{variables, p, length}
	m.Spend(p.nanos)
	value = p.root.eval(f)
	if err, ok := value.(*types.Err); ok {
		return value, err
	}
	return value, nil
}

// leave makes the frame what it was before an evaluation, of which it refers to no values then.
func (f *Frame) leave(outer *evaluation, length int, err *error) {
	switch panicked := recover().(type) {
	case nil:
	case *meter.Stopped:
		*err = panicked
	default:
		*err = fmt.Errorf("internal error: %v", panicked)
	}
	if len(f.slots) > length {
		clear(f.slots[length:])
		f.slots = f.slots[:length]
	}
	f.evaluation = *outer
}

// slot is the place of a variable of a loop.
func (f *Frame) slot(i int) *any { return &f.slots[f.base+i] }

// value is a value as cel-go has it.
func (f *Frame) value(v any) ref.Val {
	switch v := v.(type) {
	case nil:
		return types.NullValue
	case types.Bool:
		return v
	case string:
		return types.String(v)
	case bool:
		return types.Bool(v)
	case int64:
		return types.Int(v)
	case float64:
		return types.Double(v)
	case ref.Val:
		return v
	}
	return f.program.adapter.NativeToValue(v)
}

// known returns a value that nodes know; of another one the adapter makes it.
func (f *Frame) known(v any) any {
	switch v := v.(type) {
	case map[string]any, []any, string, bool, int64, float64, nil, ref.Val:
		return v
	}
	return f.program.adapter.NativeToValue(v)
}

// isNative reports whether a value is one of a decoded object.
func isNative(v any) bool {
	switch v.(type) {
	case map[string]any, []any, string, bool, int64, float64, nil:
		return true
	}
	return false
}

// truth returns the value of a bool. The second result is false for everything else.
func truth(v any) (value, ok bool) {
	switch b := v.(type) {
	case types.Bool:
		return bool(b), true
	case bool:
		return b, true
	}
	return false, false
}

func textOf(v any) (string, bool) {
	switch s := v.(type) {
	case string:
		return s, true
	case types.String:
		return string(s), true
	}
	return "", false
}

func isError(v any) bool {
	_, is := v.(*types.Err)
	return is
}

// noOverload returns the error that v is, or that there is no overload for v.
func noOverload(v any) any {
	if isError(v) {
		return v
	}
	return types.NewErr("no such overload")
}

// A constant has the same value each time.
type constant struct{ of any }

func (c *constant) eval(*Frame) any { return c.of }

// A leaf is evaluated by cel-go, and reads no variables.
type leaf struct{ of interpreter.Interpretable }

func (l *leaf) eval(*Frame) any { return l.of.Eval(interpreter.EmptyActivation()) }

// A native is a map value that has the map of a decoded object.
type native interface{ Native() map[string]any }

// A listed is a list value that has the items of a list of a decoded object.
type listed interface{ Items() []any }
