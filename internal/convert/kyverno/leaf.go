package kyverno

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// A leaf is a pattern of a scalar: one of some alternatives, each of which has conditions that all have to hold.
type leaf struct {
	// text is the pattern if it is one; the rest is derived from it.
	text         string
	alternatives [][]comparison
	// value is the pattern if it is no text.
	value any
	// long says that the pattern is longer than anyone writes; then it has no alternatives.
	long bool
}

// A comparison compares a value with an operand, as a duration, a quantity or a text with wildcards.
type comparison struct {
	operator, operand string
	duration          *time.Duration
	quantity          *resource.Quantity
}

var (
	within  = regexp.MustCompile(`^([-|\+]?\d+(?:\.\d+)?[A-Za-z]*)-([-|\+]?\d+(?:\.\d+)?[A-Za-z]*)$`)
	outside = regexp.MustCompile(`^([-|\+]?\d+(?:\.\d+)?[A-Za-z]*)!-([-|\+]?\d+(?:\.\d+)?[A-Za-z]*)$`)
)

// Limits of the pattern of a scalar. Each range that a value has to be outside of doubles the alternatives.
const (
	longestText      = 4096
	mostAlternatives = 64
)

// leafOf parses a pattern of a scalar.
func leafOf(scalar any) leaf {
	text, ok := scalar.(string)
	if !ok {
		return leaf{value: scalar}
	}
	l := leaf{text: text, long: len(text) > longestText}
	if l.long {
		l.alternatives = [][]comparison{{comparisonOf("==", "")}}
		return l
	}
	for alternative := range strings.SplitSeq(text, "|") {
		sets := [][]comparison{nil}
		for condition := range strings.SplitSeq(strings.Trim(alternative, " "), "&") {
			sets = times(sets, parsed(strings.Trim(condition, " ")))
			if len(sets) > mostAlternatives {
				l.long = true
				return l
			}
		}
		l.alternatives = append(l.alternatives, sets...)
	}
	return l
}

// times returns each of some alternatives with each of others.
func times(a, b [][]comparison) [][]comparison {
	var product [][]comparison
	for _, x := range a {
		for _, y := range b {
			product = append(product, slices.Concat(x, y))
		}
	}
	return product
}

// parsed returns the alternatives of one condition, of which only a range has several.
func parsed(condition string) [][]comparison {
	if len(condition) >= 2 {
		for _, operator := range []string{">=", "<=", ">", "<", "!"} {
			if rest, ok := strings.CutPrefix(condition, operator); ok {
				return [][]comparison{{comparisonOf(operator, rest)}}
			}
		}
		if found := outside.FindStringSubmatch(condition); found != nil {
			return [][]comparison{{comparisonOf("<", found[1])}, {comparisonOf(">", found[2])}}
		}
		if found := within.FindStringSubmatch(condition); found != nil {
			return [][]comparison{{comparisonOf(">=", found[1]), comparisonOf("<=", found[2])}}
		}
	}
	return [][]comparison{{comparisonOf("==", condition)}}
}

func comparisonOf(operator, operand string) comparison {
	c := comparison{operator: operator, operand: strings.TrimSpace(operand)}
	if operator == "!" {
		c.operator = "!="
	}
	if d, err := time.ParseDuration(c.operand); err == nil {
		c.duration = &d
	}
	if q, err := resource.ParseQuantity(c.operand); err == nil {
		c.quantity = &q
	}
	return c
}

// absent reports whether a value fits that is not there, or null.
func (l leaf) absent() bool {
	if l.alternatives == nil {
		return l.value == nil
	}
	return slices.ContainsFunc(l.alternatives, func(all []comparison) bool {
		return !slices.ContainsFunc(all, func(c comparison) bool { return !c.zero() })
	})
}

// zero reports whether 0 fits, which an absent value is.
func (c comparison) zero() bool {
	switch {
	case c.duration != nil:
		return holds(c.operator, -sign(*c.duration))
	case c.quantity != nil:
		return holds(c.operator, -c.quantity.Sign())
	}
	return false
}

func sign(d time.Duration) int {
	switch {
	case d < 0:
		return -1
	case d > 0:
		return 1
	}
	return 0
}

// holds reports whether a comparison with this outcome holds.
func holds(operator string, outcome int) bool {
	switch operator {
	case "==":
		return outcome == 0
	case "!=":
		return outcome != 0
	case ">":
		return outcome > 0
	case "<":
		return outcome < 0
	case ">=":
		return outcome >= 0
	}
	return outcome <= 0
}
