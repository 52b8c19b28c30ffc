package interpret

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/usher-dev/usher/internal/convert/kyverno/jmespath"
)

// An Unread says that a policy has something that this package does not interpret.
type Unread struct{ What string }

func (e *Unread) Error() string { return e.What + " is not interpreted" }

// call calls a function. Its arguments are null where a key is missing.
func (e *evaluator) call(n *jmespath.Node, of any) (any, error) {
	args := make([]any, len(n.Args))
	for i, arg := range n.Args {
		var err error
		if args[i], err = e.argument(arg, of); err != nil {
			return nil, err
		}
	}
	if value, done, err := e.overElements(n.Text, args); done {
		return value, err
	}
	f, ok := functions[n.Text]
	if !ok {
		return nil, &Unread{"the function " + n.Text}
	}
	if len(args) != len(f.args) && !(f.more && len(args) > len(f.args)) {
		return nil, fmt.Errorf("%s has %d arguments", n.Text, len(args))
	}
	for i := range args {
		if kinds := f.args[min(i, len(f.args)-1)]; kinds != "any" && !slices.Contains(strings.Split(kinds, "|"), kindOf(args[i])) {
			return nil, fmt.Errorf("argument %d of %s is no %s", i+1, n.Text, kinds)
		}
	}
	return f.call(args)
}

func (e *evaluator) argument(arg *jmespath.Node, of any) (any, error) {
	if arg.Op == jmespath.Reference {
		return arg.Args[0], nil
	}
	return e.null(arg, of)
}

func kindOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case string:
		return "string"
	case float64:
		return "number"
	case bool:
		return "boolean"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	default:
		return "expression"
	}
}

// overElements calls a function that evaluates an expression on elements, and says whether it is one.
func (e *evaluator) overElements(name string, args []any) (any, bool, error) {
	switch name {
	case "map", "sort_by", "max_by", "min_by":
	default:
		return nil, false, nil
	}
	if len(args) != 2 {
		return nil, true, fmt.Errorf("%s has %d arguments", name, len(args))
	}
	if name == "map" {
		all, err := e.each(args[0], args[1])
		return all, true, err
	}
	value, err := e.by(name, args[0], args[1])
	return value, true, err
}

// each evaluates an expression on all elements.
func (e *evaluator) each(expression, list any) ([]any, error) {
	node, ok := expression.(*jmespath.Node)
	items, is := list.([]any)
	if !ok || !is {
		return nil, errors.New("expected an expression and a list")
	}
	all := []any{}
	for _, item := range items {
		value, err := e.null(node, item)
		if err != nil {
			return nil, err
		}
		all = append(all, value)
	}
	return all, nil
}

// by sorts by an expression, or returns the element with the most or the least.
func (e *evaluator) by(name string, list, expression any) (any, error) {
	keys, err := e.each(expression, list)
	if err != nil {
		return nil, err
	}
	if err := alike(keys); err != nil {
		return nil, err
	}
	items, _ := list.([]any)
	order := make([]int, len(items))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return compareScalars(keys[a], keys[b]) })
	if name == "sort_by" {
		all := make([]any, len(items))
		for i := range order {
			all[i] = items[order[i]]
		}
		return all, nil
	}
	if len(order) == 0 {
		return nil, nil
	}
	if name == "min_by" {
		return items[order[0]], nil
	}
	return items[order[len(order)-1]], nil
}

func compareScalars(a, b any) int {
	if x, ok := a.(string); ok {
		y, _ := b.(string)
		return strings.Compare(x, y)
	}
	x, _ := a.(float64)
	y, _ := b.(float64)
	return sign(x, y)
}

// A function has the kinds of its arguments, and more of the last one if it says so.
type function struct {
	args []string
	more bool
	call func([]any) (any, error)
}

// ofTexts makes a function of texts.
func ofTexts(n int, call func(a []string) (any, error)) function {
	return function{args: slices.Repeat([]string{"string"}, n), call: func(args []any) (any, error) {
		texts := make([]string, n)
		for i := range texts {
			texts[i], _ = args[i].(string)
		}
		return call(texts)
	}}
}

func ofNumber(call func(float64) float64) function {
	return function{args: []string{"number"}, call: func(a []any) (any, error) {
		n, _ := a[0].(float64)
		return call(n), nil
	}}
}

func ofAny(call func(any) (any, error), kinds string) function {
	return function{args: []string{kinds}, call: func(a []any) (any, error) { return call(a[0]) }}
}

// functions are those of expressions.
var functions = map[string]function{
	"abs": ofNumber(math.Abs), "ceil": ofNumber(math.Ceil), "floor": ofNumber(math.Floor),
	"length": ofAny(length, "string|array|object"), "keys": ofAny(keysOf, "object"), "values": ofAny(valuesOf, "object"),
	"type": ofAny(func(v any) (any, error) { return kindOf(v), nil }, "any"), "to_string": ofAny(text, "any"), "to_number": ofAny(toNumber, "any"),
	"to_array": ofAny(toArray, "any"), "reverse": ofAny(reversed, "array|string"), "sort": ofAny(sortedList, "array"),
	"max": ofAny(func(v any) (any, error) { return extreme(v, 1) }, "array"), "min": ofAny(func(v any) (any, error) { return extreme(v, -1) }, "array"),
	"sum": ofAny(sum, "array"), "avg": ofAny(average, "array"),
	"contains": {args: []string{"array|string", "any"}, call: contains},
	"join":     {args: []string{"string", "array"}, call: join},
	"not_null": {args: []string{"any"}, more: true, call: notNull},
	"merge":    {args: []string{"object"}, more: true, call: merge},
	"add":      {args: []string{"any", "any"}, call: func(a []any) (any, error) { return arithmetic("+", a[0], a[1]) }},
	"subtract": {args: []string{"any", "any"}, call: func(a []any) (any, error) { return arithmetic("-", a[0], a[1]) }},
	"multiply": {args: []string{"any", "any"}, call: func(a []any) (any, error) { return arithmetic("*", a[0], a[1]) }},
	"divide":   {args: []string{"any", "any"}, call: func(a []any) (any, error) { return arithmetic("/", a[0], a[1]) }},
	"modulo":   {args: []string{"any", "any"}, call: func(a []any) (any, error) { return arithmetic("%", a[0], a[1]) }},

	"starts_with": ofTexts(2, func(a []string) (any, error) { return strings.HasPrefix(a[0], a[1]), nil }),
	"ends_with":   ofTexts(2, func(a []string) (any, error) { return strings.HasSuffix(a[0], a[1]), nil }),
	"compare":     ofTexts(2, func(a []string) (any, error) { return float64(strings.Compare(a[0], a[1])), nil }),
	"equal_fold":  ofTexts(2, func(a []string) (any, error) { return strings.EqualFold(a[0], a[1]), nil }),
	"replace_all": ofTexts(3, func(a []string) (any, error) { return bounded(strings.ReplaceAll(a[0], a[1], a[2])) }),
	"to_upper":    ofTexts(1, func(a []string) (any, error) { return strings.ToUpper(a[0]), nil }),
	"to_lower":    ofTexts(1, func(a []string) (any, error) { return strings.ToLower(a[0]), nil }),
	"trim":        ofTexts(2, func(a []string) (any, error) { return strings.Trim(a[0], a[1]), nil }),
	"trim_prefix": ofTexts(2, func(a []string) (any, error) { return strings.TrimPrefix(a[0], a[1]), nil }),
	"split":       ofTexts(2, func(a []string) (any, error) { return anys(strings.Split(a[0], a[1])), nil }),
	"to_boolean":  ofTexts(1, toBoolean),
	"base64_encode": ofTexts(1, func(a []string) (any, error) {
		return base64.StdEncoding.EncodeToString([]byte(a[0])), nil
	}),
	"base64_decode":     ofTexts(1, decode64),
	"path_canonicalize": ofTexts(1, canonical),
	"semver_compare":    ofTexts(2, semverCompare),
	"parse_json":        ofTexts(1, func(a []string) (any, error) { return parsed([]byte(a[0])) }),
	"parse_yaml":        ofTexts(1, parseYAML),
	"regex_match":       {args: []string{"string", "string|number"}, call: regexMatch},
	"regex_replace_all": {args: []string{"string", "string|number", "string|number"}, call: regexReplace},
	"pattern_match": {args: []string{"string", "string|number"}, call: func(a []any) (any, error) {
		pattern, _ := a[0].(string)
		return wildcard(pattern, plain(a[1])), nil
	}},
	"label_match":       {args: []string{"object", "object"}, call: labelMatch},
	"truncate":          {args: []string{"string", "number"}, call: truncate},
	"lookup":            {args: []string{"object|array", "string|number"}, call: lookup},
	"items":             {args: []string{"object|array", "string", "string"}, call: items},
	"object_from_lists": {args: []string{"array", "array"}, call: objectFromLists},
}
