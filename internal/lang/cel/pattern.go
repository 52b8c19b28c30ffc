package cel

import (
	"fmt"
	"strings"

	celast "github.com/google/cel-go/common/ast"

	"github.com/usher-dev/usher/internal/lang/cel/meter"
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
		w.err = w.budget.spend(instructionEffort*float64(meter.PatternSize(text)), what)
	}
}
