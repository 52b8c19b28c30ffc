package interpret

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/blang/semver/v4"
)

// errPanics is an answer of the engine that is none: it panics.
var errPanics = errors.New("the engine of Kyverno panics")

// holds evaluates the operator of a condition.
func holds(operator string, key, value any) (bool, error) {
	switch operator := strings.ToLower(operator); operator {
	case "equal", "equals":
		return equals(key, value, false), nil
	case "notequal", "notequals":
		return key != nil && !equals(key, value, true), nil
	case "in", "notin":
		return oldIn(key, value, operator == "notin")
	case "anyin", "allin", "anynotin", "allnotin":
		return in(operator, key, value), nil
	case "greaterthanorequals", "greaterthan", "lessthanorequals", "lessthan":
		return ordering(key, value, operator), nil
	case "durationgreaterthanorequals", "durationgreaterthan", "durationlessthanorequals", "durationlessthan":
		k, first := duration(key)
		v, second := duration(value)
		return first && second && ordered(sign(k, v), symbol(strings.TrimPrefix(operator, "duration"))), nil
	default:
		return false, fmt.Errorf("no operator %q", operator)
	}
}

func symbol(operator string) string {
	return map[string]string{"greaterthanorequals": ">=", "greaterthan": ">", "lessthanorequals": "<=", "lessthan": "<"}[operator]
}

func sign[T int | int64 | float64 | time.Duration](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	default:
		return 0
	}
}

// equals compares a key with a value; inverse says that the result is for NotEquals, which reads an empty text as
// text where the key is a quantity.
func equals(key, value any, inverse bool) bool {
	switch k := key.(type) {
	case bool:
		return key == value
	case int64, float64:
		return numeral(k, value)
	case string:
		if a, b, ok := durations(key, value); ok {
			return a == b
		}
		text, ok := value.(string)
		if !ok {
			return false
		}
		if _, _, quantity := quantities(k, "0"); quantity && (text != "" || !inverse) {
			a, b, both := quantities(k, text)
			return both && a.Cmp(b) == 0
		}
		return wildcard(text, k)
	case map[string]any, []any:
		return reflect.TypeOf(key) == reflect.TypeOf(value) && reflect.DeepEqual(floats(key), floats(value))
	default:
		return false
	}
}

// numeral says whether a value is a number, or the text of it: of a whole one if the key is.
func numeral(key, value any) bool {
	k, _ := float(key)
	if text, ok := value.(string); ok {
		if _, whole := key.(int64); whole {
			n, err := strconv.ParseInt(text, 10, 64)
			return err == nil && float64(n) == k
		}
		n, err := strconv.ParseFloat(text, 64)
		return err == nil && n == k
	}
	v, ok := float(value)
	return ok && v == k
}

// duration reads a duration, or a number of seconds.
func duration(value any) (time.Duration, bool) {
	if text, ok := value.(string); ok {
		d, err := time.ParseDuration(text)
		return d, err == nil
	}
	n, ok := float(value)
	return time.Duration(n) * time.Second, ok
}

// durations reads two values of which one is the text of a duration. 0 is none.
func durations(key, value any) (a, b time.Duration, ok bool) {
	k, first := duration(key)
	v, second := duration(value)
	named := func(of any, ok bool) bool { text, isText := of.(string); return isText && ok && text != "0" }
	text := func(of any) bool { text, isText := of.(string); return isText && text == "0" }
	return k, v, first && second && !text(key) && !text(value) && (named(key, first) || named(value, second))
}

// ordering compares as durations, quantities, numbers or versions.
func ordering(key, value any, operator string) bool {
	operator = symbol(operator)
	switch key.(type) {
	case string, int64, float64:
	default:
		return false
	}
	if a, b, ok := durations(key, value); ok {
		return ordered(sign(a, b), operator)
	}
	k, isText := key.(string)
	v, textual := value.(string)
	if isText && textual {
		if a, b, ok := quantities(k, v); ok {
			return ordered(a.Cmp(b), operator)
		}
	}
	a, ok := float(key)
	if isText {
		n, err := strconv.ParseFloat(k, 64)
		a, ok = n, err == nil
	}
	if !ok {
		x, first := semver.Parse(k)
		y, second := semver.Parse(v)
		return first == nil && second == nil && textual && ordered(x.Compare(y), operator)
	}
	if x, y, ok := durations(a, value); ok {
		return ordered(sign(x, y), operator)
	}
	b, ok := float(value)
	if textual {
		n, err := strconv.ParseFloat(v, 64)
		b, ok = n, err == nil
	}
	return ok && ordered(sign(a, b), operator)
}

// either says that one of two texts fits the other as a pattern.
func either(a, b string) bool { return wildcard(a, b) || wildcard(b, a) }

// in evaluates AnyIn, AllIn, AnyNotIn and AllNotIn.
func in(operator string, key, value any) bool {
	not := strings.Contains(operator, "not")
	keys, ok := key.([]any)
	if !ok {
		text, scalar := scalarText(key)
		if !scalar {
			return false
		}
		found, valid := member(text, value)
		return valid && found != not
	}
	texts := make([]string, len(keys))
	for i := range keys {
		texts[i] = fmt.Sprint(keys[i])
	}
	values, known := elements(value, strings.HasPrefix(operator, "any"))
	if text, ok := value.(string); ok {
		if len(texts) == 1 && texts[0] == text {
			return !not
		}
		if op, _ := operatorOf(text); op == "" && !without.MatchString(text) && within.MatchString(text) {
			return inRange(operator, texts, text)
		}
	}
	if !known {
		return false
	}
	fits := func(k string) bool { return slices.ContainsFunc(values, func(v string) bool { return either(k, v) }) }
	return quantified(operator, texts, fits, func(k string) bool { return !fits(k) })
}

// quantified says whether any or all keys are in, or are not in.
func quantified(operator string, keys []string, in, notIn func(string) bool) bool {
	switch operator {
	case "anyin":
		return slices.ContainsFunc(keys, in)
	case "anynotin":
		return slices.ContainsFunc(keys, notIn)
	case "allnotin":
		return !slices.ContainsFunc(keys, func(k string) bool { return !notIn(k) })
	default:
		return !slices.ContainsFunc(keys, func(k string) bool { return !in(k) })
	}
}

func inRange(operator string, keys []string, value string) bool {
	in := func(k string) bool { return leaf(k, value) }
	notIn := func(k string) bool { return !in(k) }
	if operator == "anynotin" {
		outside := strings.Replace(value, "-", "!-", 1)
		notIn = func(k string) bool { return leaf(k, outside) }
	}
	return quantified(operator, keys, in, notIn)
}

func scalarText(value any) (string, bool) {
	switch value.(type) {
	case string, bool, int64, float64:
		return fmt.Sprint(value), true
	default:
		return "", false
	}
}

// member says whether a text is in a value, and whether the value is one that can be asked.
func member(key string, value any) (found, valid bool) {
	switch v := value.(type) {
	case []any:
		return slices.ContainsFunc(v, func(each any) bool { return either(fmt.Sprint(each), key) }), true
	case string:
		if wildcard(v, key) {
			return true, true
		}
		if op, _ := operatorOf(v); op == "" && !without.MatchString(v) && within.MatchString(v) {
			return leaf(key, v), true
		}
		all, ok := elements(value, true)
		return slices.Contains(all, key), ok
	default:
		return false, false
	}
}

// elements returns the texts of a list, of JSON of one, or of a text. Other scalars are lists of one for any alone.
func elements(value any, scalars bool) ([]string, bool) {
	switch v := value.(type) {
	case []any:
		var all []string
		for _, each := range v {
			all = append(all, fmt.Sprint(each))
		}
		return all, true
	case string:
		if !json.Valid([]byte(v)) {
			return []string{v}, true
		}
		var all []string
		err := json.Unmarshal([]byte(v), &all)
		return all, err == nil
	default:
		text, ok := scalarText(value)
		return []string{text}, ok && scalars
	}
}

// oldIn evaluates In and NotIn.
func oldIn(key, value any, not bool) (bool, error) {
	text, isText := value.(string)
	var listed []string
	wrong := isText && json.Unmarshal([]byte(text), &listed) != nil
	keys, ok := key.([]any)
	if !ok {
		k, scalar := scalarText(key)
		switch {
		case !scalar:
			return false, nil
		case isText && wildcard(text, k):
			return !not, nil
		case isText:
			return !wrong && slices.Contains(listed, k) != not, nil
		}
		found, valid := member(k, value)
		return valid && found != not, nil
	}
	var texts []string
	for _, k := range keys {
		each, ok := k.(string)
		if !ok {
			return false, errPanics
		}
		texts = append(texts, each)
	}
	if isText && len(texts) == 1 && texts[0] == text {
		return true, nil
	}
	if wrong {
		return false, nil
	}
	if !isText {
		if listed, ok = onlyTexts(value); !ok {
			return false, nil
		}
	}
	return slices.ContainsFunc(texts, func(k string) bool { return !slices.Contains(listed, k) }) == not, nil
}

func onlyTexts(value any) ([]string, bool) {
	all, ok := value.([]any)
	var texts []string
	for _, v := range all {
		text, is := v.(string)
		texts, ok = append(texts, text), ok && is
	}
	return texts, ok
}

// floats returns a value with one type of numbers.
func floats(value any) any {
	switch v := value.(type) {
	case int64:
		return float64(v)
	case []any:
		all := make([]any, len(v))
		for i := range v {
			all[i] = floats(v[i])
		}
		return all
	case map[string]any:
		all := make(map[string]any, len(v))
		for k := range v {
			all[k] = floats(v[k])
		}
		return all
	default:
		return value
	}
}
