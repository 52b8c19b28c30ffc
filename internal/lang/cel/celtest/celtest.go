// Package celtest has programs that attack the compiler of CEL: each is small, and would take
// minutes or all memory without bounds.
package celtest

import (
	"fmt"
	"strings"
)

// A Hostile is a program that attacks the compiler.
type Hostile struct {
	// Reason says what it attacks.
	Reason string
	// Variables are the expressions of variables.v0, variables.v1 and so on.
	Variables []string
	// Expression is of type bool, if it has a type.
	Expression string
	// Rejected says that compiling it is a problem; others may compile or not.
	Rejected bool
}

// Expressions returns programs of one expression that needs no variable.
func Expressions() []Hostile {
	many := func(n int, term, separator string) string {
		return strings.TrimSuffix(strings.Repeat(term+separator, n), separator)
	}
	around := func(n int, begin, inner, end string) string {
		return strings.Repeat(begin, n) + inner + strings.Repeat(end, n)
	}
	return []Hostile{
		{Reason: "a macro that copies its target", Expression: "optional.of(1)" + strings.Repeat(".optMap(x, x)", 20) + ".hasValue()", Rejected: true},
		{Reason: "another one", Expression: "optional.of(1)" + strings.Repeat(".optFlatMap(x, optional.of(x))", 20) + ".hasValue()", Rejected: true},
		{Reason: "copies side by side", Expression: many(150, "optional.of(1)"+strings.Repeat(".optMap(x, x)", 9)+".hasValue()", "||"), Rejected: true},
		{Reason: "copies of copies in arguments", Expression: around(12, "optional.of(optional.of(1).optMap(x, ", "x", ")).optMap(y, y).hasValue() ? 1 : 0"), Rejected: true},
		{Reason: "a macro that binds its target", Expression: "[1]" + strings.Repeat(".sortBy(x, -x)", 45) + ".size() == 1"},
		{Reason: "a type that doubles", Expression: "[0]" + strings.Repeat(".map(a, {a: a})", 40) + ".size() == 1", Rejected: true},
		{Reason: "a type that doubles in entries", Expression: "[0]" + strings.Repeat(".transformMap(i, a, {a: a})", 20) + ".size() == 1", Rejected: true},
		{Reason: "types of variables of loops that are known late", Expression: around(30, "[[]].all(t, [[]].all(u, [t, {u: u}].size() > 0 && ", "true", "))"), Rejected: true},
		{Reason: "types of empty lists", Expression: "[" + many(30_000, "[]", ",") + "].size() == 1", Rejected: true},
		{Reason: "types nested side by side", Expression: "[" + many(200, around(200, "[", "", "]"), ",") + "].size() == 1", Rejected: true},
		{Reason: "types of a chain of loops", Expression: "[1]" + strings.Repeat(".map(a, [a])", 200) + ".size() == 1", Rejected: true},
		{Reason: "type parameters of comparisons", Expression: many(12_000, "1==1", "||"), Rejected: true},
		{Reason: "overloads of operators", Expression: many(8_000, "1+1==2", "||"), Rejected: true},
		{Reason: "terms without types", Expression: many(16_000, "true", "||")},
		{Reason: "a hundred thousand terms", Expression: many(100_000, "true", "||"), Rejected: true},
		{Reason: "a text of a megabyte", Expression: "'" + strings.Repeat("x", 1_000_000) + "' == ''", Rejected: true},
		{Reason: "parentheses", Expression: around(40_000, "(", "true", ")"), Rejected: true},
		{Reason: "parentheses that are allowed", Expression: around(200, "(", "true", ")")},
		{Reason: "lists in lists", Expression: around(40_000, "[", "", "]") + " == []", Rejected: true},
		{Reason: "maps in maps", Expression: around(20_000, "{1:", "1", "}") + " == {}", Rejected: true},
		{Reason: "conditions in conditions", Expression: strings.Repeat("true?true:", 9_000) + "true", Rejected: true},
		{Reason: "loops in loops", Expression: around(200, "[1].all(x, ", "true", ")")},
		{Reason: "fields of fields", Expression: "{'a': 1}" + strings.Repeat(".a", 30_000) + " == 1", Rejected: true},
		{Reason: "presence of presence", Expression: around(5_000, "has({'a': ", "1", "}.a)"), Rejected: true},
		{Reason: "signs", Expression: strings.Repeat("-", 90_000) + "1 == 1"},
		{Reason: "errors of syntax", Expression: many(10_000, "1 'a", "||"), Rejected: true},
		{Reason: "a bracket that stays open", Expression: strings.Repeat("{", 90_000), Rejected: true},
		{Reason: "names that do not exist", Expression: many(9_000, "nothing.x", "||"), Rejected: true},
		{Reason: "constants that do not end: parse", Expression: "isQuantity('1e-999999999') || true"},
		{Reason: "constants that do not end: compare", Expression: "quantity('1e999999999').isLessThan(quantity('1')) || true"},
		{Reason: "constants of many digits", Expression: "isQuantity('0." + strings.Repeat("0", 90_000) + "1') || true"},
		{Reason: "a regular expression of many instructions", Expression: "'x'.matches('" + strings.Repeat("x{1000}", 3_000) + "')", Rejected: true},
		{Reason: "regular expressions side by side", Expression: many(1_000, "'x'.matches('(a|b|c){1000}')", "||"), Rejected: true},
		{Reason: "a regular expression of many ranges", Expression: "'x'.matches('" + strings.Repeat(`\\pL`, 20_000) + "')", Rejected: true},
		{Reason: "a regular expression in a call by its name", Expression: "matches('x', '" + strings.Repeat("x{1000}", 3_000) + "')", Rejected: true},
		{Reason: "groups in groups", Expression: "'x'.matches('" + around(900, "(", "x", "){2}") + "')", Rejected: true},
		{Reason: "constants that are matched while types are checked", Expression: "'" + strings.Repeat("x", 40_000) + "'.matches('(x|y)+z') || true"},
	}
}

// Policies returns programs of many variables.
func Policies() []Hostile {
	chain := func(n int, first, text string) []string {
		all := []string{first}
		for i := range n {
			all = append(all, fmt.Sprintf(text, fmt.Sprintf("variables.v%d", i)))
		}
		return all
	}
	same := func(n int, text string) []string {
		all := make([]string, n)
		for i := range all {
			all[i] = text
		}
		return all
	}
	return []Hostile{
		{Reason: "a type that contains that of the variable before", Variables: chain(400, "1", "[%s]"), Expression: "true", Rejected: true},
		{Reason: "a type that doubles that of the variable before", Variables: chain(40, "1", "{%[1]s: %[1]s}"), Expression: "true", Rejected: true},
		{Reason: "a chain", Variables: chain(2_000, "object", "%s"), Expression: "true"},
		{Reason: "a chain that is too long", Variables: chain(8_000, "object", "%s"), Expression: "true", Rejected: true},
		{Reason: "a chain of fields", Variables: chain(1_000, "object", "%s.a"), Expression: "true"},
		{Reason: "what a value is a part of doubles", Variables: chain(100, "object", "true ? %[1]s : %[1]s.a"), Expression: "true"},
		{Reason: "all variables in each", Variables: same(100, "variables"), Expression: "[variables].size() == 1"},
		{Reason: "all variables twice in each", Variables: same(100, "true ? variables : variables"), Expression: "[variables].size() == 1"},
		{Reason: "all variables in a list", Variables: same(60, "[variables, variables]"), Expression: "true"},
		{Reason: "many variables", Variables: same(20_000, "1"), Expression: "true", Rejected: true},
		{Reason: "each just below what one may take", Variables: same(50, strings.TrimSuffix(strings.Repeat("1+1==2||", 500), "||")), Expression: "true", Rejected: true},
	}
}
