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

// AdviceForValue says what to do about a function of optional values that is called on another value.
const AdviceForValue = "only optional values have it: select the field with .? or [?], as in object.spec.?paused.orValue(false)"

// optionalMethod matches a call of a function that only optional values have.
var optionalMethod = regexp.MustCompile(`'(or|orValue|hasValue|value)' applied to`)

// ofOptionals are calls on optional values, by the names that other languages have for their functions.
var ofOptionals = map[string]string{
	"orElse": "orValue(false)", "getOrElse": "orValue(false)", "getOrDefault": "orValue(false)", "orDefault": "orValue(false)",
	"valueOr": "orValue(false)", "unwrapOr": "orValue(false)", "unwrap_or": "orValue(false)", "default": "orValue(false)",
	"isPresent": "hasValue()", "isSome": "hasValue()", "isDefined": "hasValue()",
}

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
			if near := rule.Suggestion(name[1], []string{"object", "oldObject", "request", "params", "namespaceObject", "authorizer", "variables"}); near != "" {
				return near
			}
			return fmt.Sprintf("write '%s' if it is a text; %s", name[1], names)
		}
		return names
	case strings.Contains(what, "undefined field"):
		return cmp.Or(adviseField(what, slices.AppendSeq(slices.Collect(maps.Keys(c.environments.data.Fields)), maps.Keys(c.environments.variables.Fields))), "see docs/cel.md for the fields of request, namespaceObject and variables")
	case strings.Contains(what, "optional_type("):
		return AdviceForOptional
	case strings.Contains(what, "must evaluate to"):
		return "compare the value with something, or convert it"
	case strings.Contains(what, "found no matching overload for 'contains' applied to '("):
		return "write 'x' in … for a key of a map or an element of a list, and ….contains('x') for a part of a text"
	case strings.Contains(what, "found no matching overload") && optionalMethod.MatchString(what):
		return AdviceForValue
	}
	return "correct the expression"
}

// adviseFunction says which function may be meant.
func (c *compilation) adviseFunction(wrong string) string {
	const all = "see docs/cel.md for the functions that there are"
	if call := ofOptionals[wrong]; call != "" {
		return "select the field with .? or [?], and write object.spec.?paused." + call
	}
	// That it can be made has been seen when the expression was checked.
	env, err := c.with(c.declared)
	if err != nil {
		return all
	}
	return cmp.Or(rule.Suggestion(wrong, env.Names()), all)
}
