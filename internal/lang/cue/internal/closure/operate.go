package closure

import (
	"math"
	"math/bits"

	"cuelang.org/go/cue/token"
)

// A fraction is a number literal with a fraction, even .0; a float64 in a tree is one if it has a
// fraction. The evaluator computes with decimals, so fractions are only compared and passed on.
type fraction float64

// shortText is how long a text is that takes no step to compare.
const shortText = 64

// reads takes the steps that comparing a value takes, and reports whether they were left.
func (m *machine) reads(v any) bool {
	text, ok := v.(string)
	return !ok || len(text) <= shortText || m.spend(len(text)/16)
}

// operate applies an operator to two values.
func (m *machine) operate(op token.Token, v, w any) (any, status) {
	if !m.reads(v) {
		return nil, unclear
	}
	switch op {
	case token.EQL, token.NEQ:
		equal, ok := equals(v, w)
		if !ok {
			return nil, unclear
		}
		return equal == (op == token.EQL), known
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		order, ok := compare(v, w)
		if !ok {
			return nil, unclear
		}
		return inOrder(op, order), known
	case token.LAND, token.LOR:
		x, isBool := v.(bool)
		y, areBool := w.(bool)
		if !isBool || !areBool {
			return nil, unclear
		}
		if op == token.LAND {
			return x && y, known
		}
		return x || y, known
	case token.ADD:
		return m.add(v, w)
	}
	x, isInt := v.(int64)
	y, areInt := w.(int64)
	if !isInt || !areInt {
		return nil, unclear
	}
	if op == token.SUB {
		return subtract(x, y)
	}
	return multiply(x, y)
}

func inOrder(op token.Token, order int) bool {
	switch op {
	case token.LSS:
		return order < 0
	case token.LEQ:
		return order <= 0
	case token.GTR:
		return order > 0
	}
	return order >= 0
}

// equals compares scalars of the same type, and anything with null.
func equals(v, w any) (equal, ok bool) {
	if v == nil || w == nil {
		if isOpen(v) || isOpen(w) {
			return false, false
		}
		return v == nil && w == nil, true
	}
	if v, isBool := v.(bool); isBool {
		w, ok := w.(bool)
		return v == w, ok
	}
	order, ok := compare(v, w)
	return order == 0, ok
}

func isOpen(v any) bool {
	_, ok := v.(open)
	return ok
}

// compare orders two strings or two numbers.
func compare(v, w any) (order int, ok bool) {
	switch v := v.(type) {
	case string:
		w, ok := w.(string)
		switch {
		case !ok || v == w:
			return 0, ok
		case v < w:
			return -1, true
		}
		return 1, true
	case int64:
		if w, ok := w.(int64); ok {
			switch {
			case v < w:
				return -1, true
			case v > w:
				return 1, true
			}
			return 0, true
		}
	}
	x, isNumber := exact(v)
	y, areNumbers := exact(w)
	switch {
	case !isNumber || !areNumbers:
		return 0, false
	case x < y:
		return -1, true
	case x > y:
		return 1, true
	}
	return 0, true
}

// exact returns a number as a float64, if it is one.
func exact(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), v > -1<<53 && v < 1<<53
	case float64:
		return v, true
	case fraction:
		return float64(v), true
	}
	return 0, false
}

func (m *machine) add(v, w any) (any, status) {
	switch v := v.(type) {
	case string:
		w, ok := w.(string)
		if !ok || !m.spend((len(v)+len(w))/16) {
			return nil, unclear
		}
		return v + w, known
	case int64:
		w, ok := w.(int64)
		if !ok {
			return nil, unclear
		}
		sum := v + w
		if (sum > v) != (w > 0) && w != 0 {
			return nil, unclear
		}
		return sum, known
	case []any:
		w, ok := w.([]any)
		if !ok || !m.spend(len(v)+len(w)) {
			return nil, unclear
		}
		return append(append(make([]any, 0, len(v)+len(w)), v...), w...), known
	}
	return nil, unclear
}

func subtract(x, y int64) (any, status) {
	difference := x - y
	if (difference < x) != (y > 0) && y != 0 {
		return nil, unclear
	}
	return difference, known
}

// multiply is x * y; 0 times a negative number is the decimal -0, which is not 0.
func multiply(x, y int64) (any, status) {
	if (x == 0 && y < 0) || (y == 0 && x < 0) || x == math.MinInt64 || y == math.MinInt64 {
		return nil, unclear
	}
	high, low := bits.Mul64(magnitudeOf(x), magnitudeOf(y))
	if high != 0 || low > math.MaxInt64 {
		return nil, unclear
	}
	return x * y, known
}

func magnitudeOf(x int64) uint64 {
	if x < 0 {
		return uint64(-x)
	}
	return uint64(x)
}
