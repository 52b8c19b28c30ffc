package admission

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apiserver/pkg/cel/mutation"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"

	"github.com/usher-dev/usher/internal/lang/cel/meter"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/allowance"
)

// largestShown is the weight of the largest value that is shown, in bytes.
const largestShown = 4 << 20

// tooLarge takes the place of a value that is not shown.
const tooLarge = "(too large to show)"

// set sets the value of an expression, and reports whether it can be shown.
func set(m *meter.Meter, e *rule.Expression, v ref.Val) bool {
	if err, isError := v.(*types.Err); isError {
		e.Error = err.Error()
		return true
	}
	if o, isOptional := v.(*types.Optional); isOptional {
		if !o.HasValue() {
			e.Absent = true
			return true
		}
		v = o.GetValue()
	}
	if !fits(m, v) {
		e.Value = tooLarge
		return true
	}
	value, ok := plain(v)
	e.Value = value
	return ok
}

// fits reports whether a value can be copied. It takes from the meter what copying takes.
func fits(m *meter.Meter, v ref.Val) (ok bool) {
	err := attempt(m, func() error {
		return m.Try(func() {
			m.Within(showTime, func() {
				weight := m.Weigh(v)
				m.Call(8*weight, 8*weight)
				ok = weight <= largestShown
			})
		})
	})
	return ok && err == nil
}

// attempt calls f, which evaluates a part of an explanation. If that takes too much memory, what f has made is not
// kept, and does not count for other parts.
func attempt(m *meter.Meter, f func() error) error {
	before := int64(0)
	if m.Allowance != nil {
		before = m.Allowance.Memory()
	}
	err := f()
	// An allowance for explanations has no other users meanwhile.
	if exceeded, is := errors.AsType[*allowance.ExceededError](err); is && exceeded.Explaining && exceeded.Memory {
		m.Allowance.Drop(before)
	}
	return err
}

// showTime is how long it may take to find out how large a value is, and to copy it.
const showTime = 100 * time.Millisecond

// plain returns a value as JSON has it, and whether it can be shown: the authorizer and its like
// cannot.
func plain(v ref.Val) (any, bool) {
	switch v := v.(type) {
	case nil, *variables:
		return nil, false
	case types.Null:
		return nil, true
	case types.Bool:
		return bool(v), true
	case types.Int:
		return int64(v), true
	case types.Uint:
		return uint64(v), true
	case types.Double:
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return fmt.Sprint(float64(v)), true
		}
		return float64(v), true
	case types.String:
		return string(v), true
	case types.Bytes:
		return base64.StdEncoding.EncodeToString(v), true
	case types.Timestamp, types.Duration:
		return fmt.Sprint(v.ConvertToType(types.StringType).Value()), true
	case *types.Type:
		return v.TypeName(), true
	case *types.Optional:
		if !v.HasValue() {
			return nil, true
		}
		return plain(v.GetValue())
	case *mutation.JSONPatchVal:
		return plainOperation(v), true
	case *dynamic.ObjectVal:
		return v.Value(), true
	case traits.Mapper:
		return plainMap(v), true
	case traits.Lister:
		return plainList(v), true
	}
	return printed(v)
}

// printed returns the text of a value that prints itself.
func printed(v ref.Val) (any, bool) {
	text, ok := v.Value().(fmt.Stringer)
	if _, isNone := v.Value().(*types.Err); !ok || isNone {
		return nil, false
	}
	return text.String(), true
}

// plainOperation is an operation of a JSON patch.
func plainOperation(v *mutation.JSONPatchVal) map[string]any {
	op := map[string]any{"op": v.Op, "path": v.Path}
	if v.From != "" {
		op["from"] = v.From
	}
	if v.Val != nil {
		op["value"] = shown(v.Val)
	}
	return op
}

func plainMap(v traits.Mapper) map[string]any {
	m := map[string]any{}
	for it := v.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		m[fmt.Sprint(key.Value())] = shown(v.Get(key))
	}
	return m
}

func plainList(v traits.Lister) []any {
	list := []any{}
	for it := v.Iterator(); it.HasNext() == types.True; {
		list = append(list, shown(it.Next()))
	}
	return list
}

// shown is an item as JSON has it; of what cannot be shown it is the type.
func shown(v ref.Val) any {
	if value, ok := plain(v); ok {
		return value
	}
	return v.Type().TypeName()
}
