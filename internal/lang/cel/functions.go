package cel

import (
	"github.com/google/cel-go/common"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/usher-dev/usher/internal/lang/cel/meter"
)

// A callRule bounds a call of a function: before it is known what it is called with, the cost that API
// servers count for it and its value; and then, just before it is made, what it takes.
type callRule struct {
	cost  func(args []argument) polynomial
	value func(args []argument) Measure
	takes meter.Bound
}

// takesOf returns what bounds the calls of a function; nil for a function that has no row, and cannot be
// called.
func takesOf(function string) meter.Bound {
	r, _ := ruleOf(function)
	return r.takes
}

// callBound returns bounds of a call. There is none for a function that is not known.
func callBound(function string, args []argument) (polynomial, Measure) {
	r, known := ruleOf(function)
	if !known {
		return infinite(), unbounded()
	}
	return r.cost(args), r.value(args)
}

// ruleOf returns the rule of a function, by the tables of costs of cel-go (interpreter/runtimecost.go)
// and of k8s.io/apiserver/pkg/cel/library.
func ruleOf(function string) (callRule, bool) {
	for _, rules := range []func(string) (callRule, bool){operatorRule, valueRule, textRule, listRule, kubernetesRule} {
		if r, known := rules(function); known {
			return r, true
		}
	}
	return callRule{}, false
}

func operatorRule(function string) (callRule, bool) {
	switch function {
	case operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.NotStrictlyFalse, "__not_strictly_false__",
		operators.Negate, operators.Subtract, operators.Multiply, operators.Divide, operators.Modulo:
		return callRule{unit, toScalar, nothing}, true
	case operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		return callRule{comparing, toScalar, comparison}, true
	case operators.In, operators.OldIn, "in":
		return callRule{func(args []argument) polynomial { return args[1].count.plus(constant(1)) }, toScalar, containing}, true
	case operators.Add:
		return callRule{adding, toAll, addition}, true
	case operators.Index, operators.OptIndex, operators.OptSelect:
		return callRule{func([]argument) polynomial { return constant(visitCost) }, toPart, func(m *meter.Meter, _, key, _, _ ref.Val) { m.Key(key) }}, true
	}
	return callRule{}, false
}

// valueRule is about conversions, optional values, times and macros.
func valueRule(function string) (callRule, bool) {
	switch function {
	case "bool", "double", "duration", "int", "timestamp", "uint":
		return callRule{unit, toScalar, understanding(0)}, true
	case "size":
		return callRule{unit, toScalar, measuring}, true
	case "type", "hasValue", "optional.none":
		return callRule{unit, toScalar, nothing}, true
	case "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours", "getMilliseconds", "getMinutes", "getMonth", "getSeconds":
		return callRule{unit, toScalar, locating}, true
	case "dyn", "optional.of", "optional.unwrap", "unwrapOpt", "value", "first", "last":
		return callRule{unit, toFirst, nothing}, true
	case "optional.ofNonZeroValue":
		return callRule{unit, toFirst, measuring}, true
	case "or", "orValue":
		return callRule{unit, func(args []argument) Measure { return args[0].or(args[1].Measure) }, nothing}, true
	case "cel.@mapInsert":
		return callRule{unit, func(args []argument) Measure {
			m := toAll(args)
			if len(args) == 3 {
				m.count = args[0].count.plus(constant(1))
			}
			return m
		}, inserting}, true
	case "bytes":
		return callRule{reading(common.StringTraversalCostFactor, 0), scaled(4), copying(4)}, true
	case "string":
		// A number has up to 24 digits; escaping makes up to 12 characters of one.
		return callRule{reading(common.StringTraversalCostFactor, 0), func(args []argument) Measure { return scaled(12)(args).plus(AtMost(48)) }, copying(12)}, true
	}
	return callRule{}, false
}

func textRule(function string) (callRule, bool) {
	const factor = common.StringTraversalCostFactor
	switch function {
	case "startsWith", "endsWith":
		return callRule{reading(factor, 0), toScalar, finding}, true
	case "contains":
		return callRule{func(args []argument) polynomial { return reading(factor, 0)(args).times(reading(factor, 1)(args)) }, toScalar, finding}, true
	case "matches":
		return callRule{matching, toScalar, matchingText}, true
	case "find":
		return callRule{matching, toFirst, matchingText}, true
	case "findAll", "split":
		// Each character may be an element.
		value := func(args []argument) Measure { m := scaled(3)(args).plus(AtMost(3)); m.count = m.weight; return m }
		if function == "split" {
			return callRule{reading(2*factor, 0), value, splitting}, true
		}
		return callRule{matching, value, findingAll}, true
	case "lowerAscii", "upperAscii", "substring", "trim", "charAt":
		return callRule{reading(factor, 0), toFirst, copying(8)}, true
	case "jsonpatch.escapeKey", "strings.quote":
		return callRule{reading(factor, 0), func(args []argument) Measure { return scaled(10)(args).plus(AtMost(2)) }, copying(12)}, true
	case "replace":
		// The replacement may be around each character.
		return callRule{reading(2*factor, 0), func(args []argument) Measure {
			weight := args[0].weight.plus(args[0].weight.plus(constant(1)).times(args[2].weight))
			return Measure{weight: weight, count: weight}
		}, replacing}, true
	case "join":
		value := func(args []argument) Measure {
			weight := args[0].weight
			if len(args) == 2 {
				weight = weight.plus(args[0].count.times(args[1].weight))
			}
			return Measure{weight: weight, count: weight}
		}
		return callRule{func(args []argument) polynomial {
			return value(args).weight.times(constant(2 * factor)).plus(constant(1))
		}, value, joining}, true
	case "format":
		// The precision of a number may be any.
		return callRule{reading(factor, 0), func([]argument) Measure { return unbounded() }, formatting}, true
	}
	return callRule{}, false
}

func listRule(function string) (callRule, bool) {
	const make, factor = common.ListCreateBaseCost + 2, common.StringTraversalCostFactor
	pairs := func(a, b int, each float64) func([]argument) polynomial {
		return func(args []argument) polynomial {
			return args[a].count.times(args[b].count).times(constant(each)).plus(constant(make))
		}
	}
	switch function {
	case "sets.contains", "sets.intersects":
		return callRule{pairs(0, 1, 1), toScalar, pairing}, true
	case "sets.equivalent":
		return callRule{pairs(0, 1, 2), toScalar, pairing}, true
	case "distinct", "sort", "@sortByAssociatedKeys":
		return callRule{func(args []argument) polynomial {
			count := args[compared(function)].count
			return count.times(count).times(constant(2 + factor)).plus(constant(make))
		}, toFirst, comparingElements(function)}, true
	case "slice", "reverse":
		return callRule{func(args []argument) polynomial { return args[0].count.plus(constant(make)) }, toFirst, copyingList}, true
	case "flatten":
		return callRule{flattening, func(args []argument) Measure { return Measure{weight: args[0].weight, count: args[0].weight} }, flatteningList}, true
	case "lists.range":
		value := func(args []argument) Measure {
			n, ok := args[0].integer()
			if !ok || n < 0 {
				return unbounded()
			}
			return Measure{weight: constant(1 + 2*n), count: constant(n)}
		}
		return callRule{func(args []argument) polynomial { return value(args).weight.plus(constant(make)) }, value, ranging}, true
	case "indexOf", "lastIndexOf":
		return callRule{traversing, toScalar, indexing}, true
	case "isSorted", "sum":
		return callRule{traversing, toScalar, walking}, true
	case "min", "max":
		return callRule{traversing, toFirst, walking}, true
	}
	return callRule{}, false
}

func kubernetesRule(function string) (callRule, bool) {
	const factor = common.StringTraversalCostFactor
	switch function {
	case "isQuantity", "quantity":
		return callRule{reading(factor, 0), toScalar, quantifying}, true
	case "isURL", "isSemver", "isIP", "isCIDR":
		return callRule{reading(factor, 0), toScalar, understanding(0)}, true
	case "url", "semver", "ip", "cidr":
		return callRule{reading(factor, 0), func(args []argument) Measure { return toFirst(args).or(AtMost(16)) }, understanding(0)}, true
	case "ip.isCanonical":
		return callRule{reading(2*factor, 0), toScalar, understanding(0)}, true
	case "getScheme", "getHostname", "getHost", "getPort", "getEscapedPath", "getQuery":
		// Escaping makes up to 12 characters of one.
		value := func(args []argument) Measure { m := scaled(16)(args).plus(AtMost(8)); m.count = m.weight; return m }
		return callRule{unit, value, locator}, true
	case "containsIP", "containsCIDR":
		return callRule{func(args []argument) polynomial { return reading(factor, 1)(args).plus(constant(16)) }, toScalar, understanding(1)}, true
	case "masked", "prefixLength", "family", "isUnspecified", "isLoopback", "isLinkLocalMulticast", "isLinkLocalUnicast", "isGlobalUnicast":
		return callRule{unit, func([]argument) Measure { return AtMost(16) }, nothing}, true
	case "sign", "asInteger", "isInteger", "asApproximateFloat", "isGreaterThan", "isLessThan", "compareTo", "add", "sub", "major", "minor", "patch":
		return callRule{unit, toScalar, calculating}, true
	case "validate":
		return callRule{validating, func(args []argument) Measure { return scaled(8)(args[1:]).plus(AtMost(8192)) }, validation}, true
	case "format.named":
		return callRule{unit, toScalar, nothing}, true
	case "check":
		return callRule{func([]argument) polynomial { return constant(350_000) }, toScalar, asking}, true
	case "serviceAccount", "path", "group", "resource", "subresource", "namespace", "name", "allowed", "errored",
		"selects", "selectsField":
		return callRule{unit, toScalar, selecting}, true
	case "reason", "error":
		return callRule{unit, func([]argument) Measure { return unbounded() }, nothing}, true
	case "fieldSelector", "labelSelector":
		return callRule{reading(26, 1), toScalar, selecting}, true
	}
	for name := range library.ConstantFormats {
		if function == "format."+name {
			return callRule{unit, toScalar, nothing}, true
		}
	}
	return callRule{}, false
}

// unit is the cost of a call that does not depend on its arguments.
func unit([]argument) polynomial { return constant(1) }

// reading is the cost of reading arguments once, with that factor.
func reading(factor float64, which ...int) func([]argument) polynomial {
	return func(args []argument) polynomial {
		cost := constant(2)
		for _, i := range which {
			cost = cost.plus(args[i].weight.times(constant(factor)))
		}
		return cost
	}
}

// adding is the cost of joining texts; that of lists and numbers is less.
func adding(args []argument) polynomial {
	for i := range args {
		if args[i].expression.Kind() == celast.ListKind {
			return constant(1)
		}
	}
	return reading(common.StringTraversalCostFactor, 0, 1)(args)
}

// comparing is the cost of comparing the shorter one of two arguments.
func comparing(args []argument) polynomial {
	return args[0].weight.lesser(args[1].weight).times(constant(common.StringTraversalCostFactor)).plus(constant(1))
}

// traversing is the cost of visiting all values in an argument, of whose characters each may have
// four bytes.
func traversing(args []argument) polynomial {
	return args[0].weight.times(constant(1 + 4*common.StringTraversalCostFactor)).plus(constant(1))
}

func matching(args []argument) polynomial {
	text := args[0].weight.plus(constant(1)).times(constant(common.StringTraversalCostFactor)).plus(constant(1))
	pattern := args[1].weight.times(constant(common.RegexStringLengthCostFactor)).plus(constant(1))
	return text.times(pattern)
}

func validating(args []argument) polynomial {
	longest := 0
	for _, format := range library.ConstantFormats {
		longest = max(longest, format.MaxRegexSize)
	}
	text := args[1].weight.plus(constant(1)).times(constant(common.StringTraversalCostFactor)).plus(constant(1))
	return text.times(constant(float64(longest)*common.RegexStringLengthCostFactor + 1))
}

// flattening has no bound with a depth: to count its cost panics if that is an error.
func flattening(args []argument) polynomial {
	if len(args) == 2 {
		return infinite()
	}
	return args[0].count.plus(constant(common.ListCreateBaseCost + 2))
}

func toScalar([]argument) Measure { return scalar() }

func toFirst(args []argument) Measure { return args[0].Measure }

// toAll is the measure of all arguments together.
func toAll(args []argument) Measure {
	m := AtMost(1)
	m.count = nil
	for i := range args {
		m = m.plus(args[i].Measure)
	}
	return m
}

// toPart is that of a part of the first argument, selected by the second.
func toPart(args []argument) Measure {
	if name, ok := args[1].text(); ok {
		return args[0].field(name)
	}
	return args[0].field("")
}

// scaled is the first argument with its size multiplied.
func scaled(factor float64) func([]argument) Measure {
	return func(args []argument) Measure {
		weight := args[0].weight.times(constant(factor))
		return Measure{weight: weight, count: weight}
	}
}
