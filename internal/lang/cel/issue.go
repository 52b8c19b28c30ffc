package cel

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/parser"
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
	texts := sync.OnceValue(func() map[place]string { return textsIn(text) })
	for _, e := range issues.Errors() {
		issue := Issue{
			Line: e.Location.Line(), Column: e.Location.Column() + 1,
			What: strings.Join(strings.Fields(strings.ReplaceAll(e.Message, " (in container '')", "")), " "),
		}
		switch escape := noEscape.FindStringSubmatch(issue.What); {
		case strings.HasPrefix(issue.What, "Syntax error") && unreadable:
			continue
		case strings.TrimSpace(text) == "":
			unreadable, issue.What, issue.Do = true, "the expression is missing", "write one"
		case escape != nil:
			unreadable = true
			issue.What, issue.Do = "Syntax error: texts have no escape "+escape[1], `write \`+escape[1]+" in place of "+escape[1]+", or put an r before the text, as in r'…'"
		case strings.HasPrefix(issue.What, "Syntax error"):
			unreadable, issue.Do = true, adviseSyntax(text)
		case strings.HasPrefix(issue.What, "invalid "):
			issue.constant(texts)
		}
		all = append(all, issue)
	}
	return all
}

// noEscape matches the error about a text with an escape that CEL does not have.
var noEscape = regexp.MustCompile(`token recognition error at: '.*["'].*(\\[^\sabfnrtvxXuU0-3?\\"'` + "`" + `])'$`)

// constant adds to an issue about a constant what is wrong with it. Texts returns those of the expression.
func (i *Issue) constant(texts func() map[place]string) {
	switch i.What {
	case "invalid duration argument":
		i.Do = "write a duration such as '90s' or '1h30m'"
	case "invalid timestamp argument":
		i.Do = "write a time such as '2026-01-31T12:00:00Z'"
	case "invalid matches argument":
		var wrong *syntax.Error
		if _, err := regexp.Compile(texts()[place{i.Line, i.Column}]); errors.As(err, &wrong) {
			i.What += fmt.Sprintf(": %s in %s", wrong.Code, wrong.Expr)
			i.Do = "correct the regular expression"
		}
	}
}

// A place is a line and a column of an expression.
type place struct{ line, column int }

// textsIn returns the texts of an expression that can be parsed, by their places.
func textsIn(text string) map[place]string {
	// Without macros, each text that is written is in the tree.
	p, err := parser.NewParser(parser.EnableOptionalSyntax(true))
	if err != nil {
		return nil
	}
	tree, issues := p.Parse(common.NewTextSource(text))
	if len(issues.GetErrors()) > 0 {
		return nil
	}
	texts := map[place]string{}
	ast.PostOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if value, ok := textOf(e); ok {
			at := tree.SourceInfo().GetStartLocation(e.ID())
			texts[place{at.Line(), at.Column() + 1}] = value
		}
	}))
	return texts
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
