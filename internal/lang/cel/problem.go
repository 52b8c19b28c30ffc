package cel

import (
	"regexp"
	"strings"

	"github.com/google/cel-go/cel"

	"github.com/usher-dev/usher/internal/rule"
)

// Problems returns what the compiler objects to in an expression, each with its place. They have no
// Field, and only those of the syntax say what to Do.
//
// Of several syntax errors it returns the first: the parser goes on in the middle of what it cannot
// read, and the others are about that.
func Problems(text string, issues *cel.Issues) []rule.Problem {
	var all []rule.Problem
	unreadable := false
	for _, e := range issues.Errors() {
		p := rule.Problem{
			Severity: rule.Error,
			At:       rule.PlaceIn(text, e.Location.Line(), e.Location.Column()+1),
			What:     strings.Join(strings.Fields(strings.ReplaceAll(e.Message, " (in container '')", "")), " "),
		}
		if strings.HasPrefix(p.What, "Syntax error") {
			if unreadable {
				continue
			}
			unreadable, p.Do = true, adviseSyntax(text)
		}
		all = append(all, p)
	}
	return all
}

// elsewhere are operators of other languages that CEL does not have, and how it writes them.
var elsewhere = []struct {
	operator *regexp.Regexp
	instead  string
}{
	{regexp.MustCompile(`=>|->`), "CEL has no implication: write !(a) || b"},
	{regexp.MustCompile(`\b(and|or|not)\b`), "write &&, || and ! for and, or and not"},
	{regexp.MustCompile(`[^=!<>]=[^=~>]`), "write == to compare"},
	{regexp.MustCompile(`[^&]&[^&]|[^|]\|[^|]`), "write && and ||"},
	{regexp.MustCompile(`=~`), "write text.matches(pattern)"},
	{regexp.MustCompile(`\?\?|\?\.`), "select the field with .? or [?], and write object.spec.?paused.orValue(false)"},
}

// literals are the texts in an expression: what looks like an operator in them is none.
var literals = regexp.MustCompile(`"[^"\n]*"|'[^'\n]*'`)

// adviseSyntax says how CEL writes what an expression that it cannot parse may mean.
func adviseSyntax(text string) string {
	text = literals.ReplaceAllString(text, "''")
	for _, e := range elsewhere {
		if e.operator.MatchString(text) {
			return e.instead
		}
	}
	return "correct the expression"
}
