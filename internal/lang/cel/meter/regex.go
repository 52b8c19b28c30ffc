package meter

import (
	"io"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/common/types/ref"

	"github.com/usher-dev/usher/internal/rule/allowance"
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
	return max(size, 1)
}

// PatternSize is at least the number of instructions that a regular expression compiles to, which are its
// states, and about in proportion to the memory of its program. It is 0 for what is none. A text that matches
// only itself has states, too: of aaa all are reached at once.
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

// A Pattern is a regular expression.
type Pattern struct {
	states int64
	// literal is the text that alone matches, if there is one.
	literal string
	// expression is for all matches. After, unless nil, is it after a character, on which matches depend.
	expression, after *regexp.Regexp
}

// NewPattern returns a pattern of which the first match in a text is found.
func NewPattern(pattern string) *Pattern {
	p, _ := newPattern(pattern)
	return p
}

// newPattern returns the pattern as it was parsed, too; nil if it is none.
func newPattern(pattern string) (*Pattern, *syntax.Regexp) {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return &Pattern{states: 1}, nil
	}
	p := &Pattern{states: instructions(parsed)}
	if parsed.Op == syntax.OpLiteral && parsed.Flags&syntax.FoldCase == 0 {
		p.literal = string(parsed.Rune)
	}
	return p, parsed
}

// NewPatternForAll returns a pattern of which all matches in a text are found.
func NewPatternForAll(pattern string) *Pattern {
	p, parsed := newPattern(pattern)
	if parsed == nil {
		return p
	}
	p.expression, _ = regexp.Compile(pattern)
	if looksBack(parsed) {
		p.after, _ = regexp.Compile(`\A(?s:.)(?s:.*?)(` + pattern + `)`)
	}
	return p
}

// Nanos is what a search takes for each character at most.
func (p *Pattern) Nanos() int64 { return p.states * StateNanos }

// IsText reports whether nothing matches but one text.
func (p *Pattern) IsText() bool { return p.literal != "" }

// Find takes what it takes to find the first match in a text.
func (m *Meter) Find(p *Pattern, text string) {
	n := int64(len(text) + 1)
	most := Product(p.states*StateNanos, n)
	if p.literal != "" && most > simply {
		m.Call(4*(n+int64(len(p.literal))), 8*int64(len(p.literal)))
		most = Product(StateNanos, n+p.begun(text))
	}
	m.Call(most, 0)
}

// begun returns how often all characters of a text are compared with one of the literal: for each of its
// beginnings that ends there. There are no more of them than a text has that repeats itself.
func (p *Pattern) begun(text string) (steps int64) {
	// border is the longest beginning that ends each beginning, and depth how many there are.
	border, depth := make([]int32, len(p.literal)+1), make([]int32, len(p.literal)+1)
	next := func(at int32, c byte) int32 {
		for at > 0 && (int(at) == len(p.literal) || p.literal[at] != c) {
			at = border[at]
		}
		if p.literal[at] == c {
			at++
		}
		return at
	}
	for i := 1; i <= len(p.literal); i++ {
		if i > 1 {
			border[i] = next(border[i-1], p.literal[i-1])
		}
		depth[i] = depth[border[i]] + 1
	}
	for i, at := 0, int32(0); i < len(text); i++ {
		if at = next(at, text[i]); int(at) == len(p.literal) {
			break
		}
		steps += int64(depth[at])
	}
	return steps
}

// looksBack reports whether a part of a regular expression is about the character before it.
func looksBack(r *syntax.Regexp) bool {
	switch r.Op { //nolint:exhaustive // the others are about characters that they match
	case syntax.OpBeginLine, syntax.OpBeginText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return true
	}
	return slices.ContainsFunc(r.Sub, looksBack)
}

const (
	// searchNanos is what it takes to begin a search.
	searchNanos = 3000
	// simply is how long all searches may take that are not looked into.
	simply = 1_000_000
)

// FindAll takes what it takes to find all matches in a text, or so many of them if limit is not negative.
// Each is found by a search of its own, which may read the text to its end before it settles for a short
// match, as that for a*b|a does.
func (m *Meter) FindAll(p *Pattern, text string, limit int64) {
	if p.expression == nil {
		return
	}
	n, each := int64(len(text)+1), p.states*StateNanos
	searches := n
	if limit >= 0 {
		searches = min(limit+1, n)
	}
	once := Product(each, n) + searchNanos
	if most := Product(once, searches); most <= simply {
		m.Call(most, 0)
		return
	}
	r := &reading{meter: m, text: text, each: each}
	for found, from := int64(0), 0; from <= len(text) && (limit < 0 || found < limit); found++ {
		r.spend(searchNanos)
		to := p.find(r, from)
		if to < 0 {
			break
		}
		if to == from {
			_, width := utf8.DecodeRuneInString(text[from:])
			to += max(width, 1)
		}
		from = to
	}
	m.Call(r.spent, 0)
}

// find returns the end of the first match in what r reads from a place on, or -1.
func (p *Pattern) find(r *reading, from int) int {
	r.at = from
	if p.after == nil || from == 0 {
		if at := p.expression.FindReaderIndex(r); at != nil {
			return from + at[1]
		}
		return -1
	}
	_, width := utf8.DecodeLastRuneInString(r.text[:from])
	r.at -= width
	if at := p.after.FindReaderSubmatchIndex(r); at != nil {
		return from - width + at[3]
	}
	return -1
}

// A reading reads a text, as the search for a match does, and spends what that takes.
type reading struct {
	meter       *Meter
	text        string
	at          int
	each, spent int64
}

// ReadRune implements [io.RuneReader].
func (r *reading) ReadRune() (character rune, width int, err error) {
	r.spend(r.each)
	if r.at >= len(r.text) {
		return 0, 0, io.EOF
	}
	character, width = utf8.DecodeRuneInString(r.text[r.at:])
	r.at += width
	return character, width, nil
}

// spend spends the time of a part of a call that is made afterwards.
func (r *reading) spend(nanos int64) {
	r.meter.Spend(nanos)
	if r.spent += nanos; r.spent > int64(allowance.PolicyCall) {
		r.meter.Refuse(&allowance.ExceededError{Call: true, Needed: r.spent, Allowed: int64(allowance.PolicyCall)})
	}
}

// Product is a product, or a large number.
func Product(a, b int64) int64 {
	const most = 1 << 60
	if a > 0 && b > most/a {
		return most
	}
	return a * b
}
