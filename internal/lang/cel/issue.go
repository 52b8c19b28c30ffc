package cel

import (
	"regexp"
	"strings"

	"github.com/google/cel-go/cel"
)

// An Issue is what the compiler objects to in an expression. Line and Column count from 1; columns are
// characters. What is a sentence, and so is what to Do, which is empty unless it is about the syntax.
type Issue struct {
	Line, Column int
	What, Do     string
}

// Issues returns what the compiler objects to in an expression, each with its place.
//
// Of several syntax errors it returns the first: the parser goes on in the middle of what it cannot
// read, and the others are about that.
func Issues(text string, issues *cel.Issues) []Issue {
	var all []Issue
	unreadable := false
	for _, e := range issues.Errors() {
		issue := Issue{
			Line: e.Location.Line(), Column: e.Location.Column() + 1,
			What: strings.Join(strings.Fields(strings.ReplaceAll(e.Message, " (in container '')", "")), " "),
		}
		if strings.HasPrefix(issue.What, "Syntax error") {
			if unreadable {
				continue
			}
			unreadable, issue.Do = true, adviseSyntax(text)
		}
		all = append(all, issue)
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
