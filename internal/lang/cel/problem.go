package cel

import (
	"strings"

	"github.com/google/cel-go/cel"

	"github.com/usher-dev/usher/internal/rule"
)

// Problems returns what the compiler objects to in an expression, each with its place. They have no
// Field, and nothing to Do.
func Problems(text string, issues *cel.Issues) []rule.Problem {
	var all []rule.Problem
	for _, e := range issues.Errors() {
		all = append(all, rule.Problem{
			Severity: rule.Error,
			At:       rule.PlaceIn(text, e.Location.Line(), e.Location.Column()+1),
			What:     strings.Join(strings.Fields(strings.ReplaceAll(e.Message, " (in container '')", "")), " "),
		})
	}
	return all
}
