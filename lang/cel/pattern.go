package cel

import (
	"fmt"
	"regexp/syntax"
	"strings"

	celast "github.com/google/cel-go/common/ast"
)

// patternIn returns the index of the argument of a function that is a regular expression, -1 if
// there is none.
func patternIn(function string, member bool) int {
	switch function {
	case "matches", "find", "findAll":
		if member {
			return 0
		}
		return 1
	}
	return -1
}

// pattern takes from the budget what compiling a constant regular expression takes.
func (w *weighing) pattern(e celast.Expr) {
	text, ok := textOf(e)
	if !ok || w.err != nil {
		return
	}
	what := fmt.Sprintf("a regular expression of %d bytes", len(text))
	if w.err = w.budget.spend(patternEffort*float64(len(text))+classEffort*float64(strings.Count(strings.ToLower(text), `\p`)), what); w.err == nil {
		w.err = w.budget.spend(instructionEffort*PatternSize(text), what)
	}
}

// PatternSize is at least the number of instructions that a regular expression compiles to, and about
// in proportion to the memory of its program. It is 0 for what is none.
func PatternSize(pattern string) float64 {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0
	}
	return instructions(parsed)
}

func instructions(of *syntax.Regexp) float64 {
	n := 2.0
	if of.Op == syntax.OpLiteral {
		n = float64(len(of.Rune))
	}
	if of.Op == syntax.OpRepeat {
		// One that is bounded below only ends in a loop.
		times := of.Max
		if times < 0 {
			times = of.Min + 1
		}
		return n + float64(times)*(1+instructions(of.Sub[0]))
	}
	for _, sub := range of.Sub {
		n += 1 + instructions(sub)
	}
	return n
}
