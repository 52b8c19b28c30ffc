package admission

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/usher-dev/usher/internal/rule"
)

var undeclared = regexp.MustCompile(`undeclared reference to '(\w+)'`)

// AdviceForOptional says what to do with a value of .? or [?] that is used as the value in it.
const AdviceForOptional = "write .orValue(…) behind the optional value"

// advice says what to do about an error of the compiler in an expression.
func (c *compilation) advice(text, what string) string {
	switch {
	case strings.Contains(what, "undeclared reference to 'params'"):
		return "set spec.paramKind: without it there are no params"
	case strings.Contains(what, "undeclared reference to 'data'"):
		return "add a source to spec.data"
	case strings.Contains(what, "undeclared reference to 'authorizer'"):
		return "use authorizer in an expression that decides: message expressions have none"
	case strings.Contains(what, "undeclared reference"):
		const names = "there are object, oldObject, request, params, namespaceObject, authorizer and variables; a variable sees those before it"
		name := undeclared.FindStringSubmatch(what)
		if name != nil && strings.Contains(text, name[1]+"(") {
			return c.adviseFunction(name[1])
		}
		if name != nil {
			return fmt.Sprintf("write '%s' if it is a text; %s", name[1], names)
		}
		return names
	case strings.Contains(what, "undefined field"):
		return cmp.Or(adviseField(what, slices.Collect(maps.Keys(c.environments.data.Fields))), "see docs/cel.md for the fields of request, namespaceObject and variables")
	case strings.Contains(what, "optional_type("):
		return AdviceForOptional
	case strings.Contains(what, "must evaluate to"):
		return "compare the value with something, or convert it"
	case strings.HasPrefix(what, "Syntax error"):
		return adviseSyntax(text)
	}
	return "correct the expression"
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

// adviseFunction says which function may be meant.
func (c *compilation) adviseFunction(wrong string) string {
	const all = "see docs/cel.md for the functions that there are"
	// That it can be made has been seen when the expression was checked.
	env, err := c.with(c.declared)
	if err != nil {
		return all
	}
	return cmp.Or(rule.Suggestion(wrong, env.Names()), all)
}
