package meter

import (
	"regexp/syntax"
	"strings"

	"github.com/google/cel-go/common/types/ref"
)

// A Bound takes from the meter what a call takes at most. It is called before the call, with its arguments;
// those that it does not have are nil.
type Bound func(m *Meter, a, b, c, d ref.Val)

// StateNanos is what one state of a regular expression takes for one character, in nanoseconds.
const StateNanos = 10

const (
	// stateNanos and stateBytes are what it takes to make a state.
	stateNanos, stateBytes = 300, 160
	// classBytes is the memory of a class of Unicode.
	classBytes = 12 << 10
)

// Regex takes what it takes to compile a regular expression, and returns how many states it has.
func (m *Meter) Regex(pattern string) (states int64) {
	n := int64(len(pattern))
	classes := int64(strings.Count(pattern, `\p`) + strings.Count(pattern, `\P`))
	m.Call(500*n+classes*classBytes, 200*n+classes*classBytes)
	states = States(pattern)
	m.Call(stateNanos*states, stateBytes*states)
	return states
}

// States returns how many states a regular expression has at most; 1 if it is invalid.
func States(pattern string) int64 {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 1
	}
	if parsed.Op == syntax.OpLiteral && parsed.Flags&syntax.FoldCase == 0 {
		// It is looked up as a text.
		return 1
	}
	return 2 + statesOf(parsed)
}

func statesOf(r *syntax.Regexp) int64 {
	states := int64(1 + len(r.Rune)/8)
	if r.Op == syntax.OpLiteral {
		states = int64(1 + len(r.Rune))
	}
	for _, part := range r.Sub {
		states += statesOf(part)
	}
	if r.Op == syntax.OpRepeat {
		states *= int64(max(r.Min, r.Max, 1))
	}
	return states + 1
}
