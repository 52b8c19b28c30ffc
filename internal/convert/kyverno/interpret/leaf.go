package interpret

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// leaf says whether a value is like a scalar of a pattern.
func leaf(value, pattern any) bool {
	switch p := pattern.(type) {
	case bool:
		v, ok := value.(bool)
		return ok && v == p
	case int64, float64:
		return number(value, p)
	case nil:
		return zero(value)
	case string:
		return value == p || texts(value, p)
	default:
		return false
	}
}

// number compares a value with a number. A text is one if it has the form of the pattern.
func number(value, pattern any) bool {
	text, isText := value.(string)
	if whole, ok := pattern.(int64); ok && isText {
		n, err := strconv.ParseInt(text, 10, 64)
		return err == nil && n == whole
	}
	p, _ := float(pattern)
	if isText {
		n, err := strconv.ParseFloat(text, 64)
		return err == nil && n == p
	}
	v, ok := float(value)
	return ok && v == p
}

func float(value any) (float64, bool) {
	switch v := value.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	default:
		return 0, false
	}
}

func zero(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case bool:
		return !v
	default:
		n, ok := float(value)
		return ok && n == 0
	}
}

// texts reads alternatives, and in each the parts that all have to hold.
func texts(value any, pattern string) bool {
	for alternative := range strings.SplitSeq(pattern, "|") {
		all := true
		for part := range strings.SplitSeq(strings.Trim(alternative, " "), "&") {
			all = all && comparison(value, strings.Trim(part, " "))
		}
		if all {
			return true
		}
	}
	return false
}

const bound = `([-|\+]?\d+(?:\.\d+)?[A-Za-z]*)`

var (
	within  = regexp.MustCompile("^" + bound + "-" + bound + "$")
	without = regexp.MustCompile("^" + bound + "!-" + bound + "$")
)

// operatorOf splits a text into an operator and its operand. Only texts of two characters or more have one.
func operatorOf(text string) (operator, operand string) {
	if len(text) < 2 {
		return "", text
	}
	for _, operator := range []string{">=", "<=", ">", "<", "!"} {
		if rest, ok := strings.CutPrefix(text, operator); ok {
			return operator, strings.TrimSpace(rest)
		}
	}
	return "", strings.TrimSpace(text)
}

func comparison(value any, pattern string) bool {
	operator, operand := operatorOf(pattern)
	if operator == "" {
		if ends := without.FindStringSubmatch(pattern); ends != nil {
			return compared(value, "<", ends[1]) || compared(value, ">", ends[2])
		}
		if ends := within.FindStringSubmatch(pattern); ends != nil {
			return compared(value, ">=", ends[1]) && compared(value, "<=", ends[2])
		}
	}
	return compared(value, operator, operand)
}

// compared compares as durations, else as quantities, else as text, in which only = and ! mean something.
func compared(value any, operator, operand string) bool {
	text, scalar := measure(value)
	if scalar {
		limit, err := time.ParseDuration(operand)
		if v, wrong := time.ParseDuration(text); err == nil && wrong == nil {
			return ordered(int(max(-1, min(1, v-limit))), operator)
		}
		if limit, v, ok := quantities(operand, text); ok {
			return ordered(v.Cmp(limit), operator)
		}
	}
	if operator != "" && operator != "!" {
		return false
	}
	switch v := value.(type) {
	case float64:
		text = strconv.FormatFloat(v, 'E', -1, 64)
	case bool:
		text = strconv.FormatBool(v)
	case int64, string:
	default:
		return false
	}
	return wildcard(operand, text) == (operator == "")
}

func ordered(sign int, operator string) bool {
	switch operator {
	case ">=":
		return sign >= 0
	case "<=":
		return sign <= 0
	case ">":
		return sign > 0
	case "<":
		return sign < 0
	case "!":
		return sign != 0
	default:
		return sign == 0
	}
}

// measure returns a value as the text of a number. What is absent is 0.
func measure(value any) (string, bool) {
	switch v := value.(type) {
	case nil:
		return "0", true
	case string:
		return v, true
	case float64:
		return fmt.Sprintf("%f", v), !math.IsInf(v, 0)
	case int64:
		return strconv.FormatInt(v, 10), true
	default:
		return "", false
	}
}

// longestQuantity is the length of a text from which quantities take time.
const longestQuantity = 100

func quantities(a, b string) (x, y resource.Quantity, ok bool) {
	if len(a) > longestQuantity || len(b) > longestQuantity {
		return x, y, false
	}
	x, first := resource.ParseQuantity(a)
	y, second := resource.ParseQuantity(b)
	return x, y, first == nil && second == nil
}

// wildcard says whether a text fits a pattern, in which * is any characters and ? is one.
func wildcard(pattern, text string) bool {
	p, t := []rune(pattern), []rune(text)
	star, mark, i, j := -1, 0, 0, 0
	for j < len(t) {
		switch {
		case i < len(p) && p[i] == '*':
			star, mark = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == t[j]):
			i, j = i+1, j+1
		case star >= 0:
			mark++
			i, j = star+1, mark
		default:
			return false
		}
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}

func hasWildcard(text string) bool { return strings.ContainsAny(text, "*?") }
