// Package check finds what is wrong with policies that are being written: it compiles them, and tries them on
// sample objects.
package check

import (
	"slices"

	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/compile/bounded"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/source"
)

// Problems returns all problems of policies that are being written, with those that were found as they were
// tried, sorted: see [rule.Written].
func Problems(set source.Set, compiled []compile.Compiled, tried []rule.Problem) []rule.Problem {
	problems := rule.Written(slices.Concat(bounded.Problems(set, compiled), compile.Unscaled(compiled), tried))
	rule.SortProblems(problems)
	return problems
}
