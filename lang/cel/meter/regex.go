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
	size := PatternSize(pattern)
	m.Call(stateNanos*size, stateBytes*size)
	return States(pattern)
}

// States returns how many states of a regular expression may be active at a time.
func States(pattern string) int64 {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 1
	}
	if parsed.Op == syntax.OpLiteral && parsed.Flags&syntax.FoldCase == 0 {
		// It is looked up as a text.
		return 1
	}
	return instructions(parsed)
}

// PatternSize is at least the number of instructions that a regular expression compiles to, and about
// in proportion to the memory of its program. It is 0 for what is none.
func PatternSize(pattern string) int64 {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0
	}
	return instructions(parsed)
}

func instructions(of *syntax.Regexp) int64 {
	n := int64(2 + len(of.Rune)/8)
	if of.Op == syntax.OpLiteral {
		n = int64(2 + len(of.Rune))
	}
	if of.Op == syntax.OpRepeat {
		// One that is bounded below only ends in a loop.
		times := of.Max
		if times < 0 {
			times = of.Min + 1
		}
		return n + int64(times)*(1+instructions(of.Sub[0]))
	}
	for _, sub := range of.Sub {
		n += 1 + instructions(sub)
	}
	return n
}
