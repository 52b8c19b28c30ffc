package expression

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// durations are the texts that Kyverno compares as durations.
const durations = `'^[-+]?(([0-9]+[.]?[0-9]*|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+$'`

func isDuration(text string) bool {
	_, err := time.ParseDuration(text)
	return err == nil && text != "0" && strings.TrimLeft(text, "+-") != "0"
}

func isQuantity(text string) bool {
	if len(text) > 100 {
		return false
	}
	_, err := resource.ParseQuantity(text)
	return err == nil
}

// equal writes whether a key equals a value: wildcards are in the value alone.
func (o *operation) equal(k, v Value) (Value, error) {
	if !v.IsConstant {
		return o.equalValues(k, v)
	}
	switch c := v.Constant.(type) {
	case string:
		return o.equalText(k, c)
	case bool:
		switch {
		case k.Type.Kind == Bool && c:
			return truth(k.Text, k.binds), nil
		case k.Type.Kind == Bool:
			return truth("!"+k.in(unary), unary), nil
		case k.Type.Kind != Any:
			return known(false), nil
		}
	case int64, float64:
		return o.equalNumber(k, v), nil
	case nil:
		return known(false), nil
	case []any:
		if k.Type.Kind != List && k.Type.Kind != Any {
			return known(false), nil
		}
	case map[string]any:
		if k.Type.Kind != Map && k.Type.Kind != Any {
			return known(false), nil
		}
	}
	return truth(k.in(sum)+" == "+v.Text, relation), nil
}

func (o *operation) equalNumber(k, v Value) Value {
	same := truth(k.in(sum)+" == "+v.Text, relation)
	switch {
	case k.Type.Kind == Number && v.Type.Kind == Integer:
		// CEL compares no fractions with whole numbers.
		return truth(k.in(sum)+" == double("+v.Text+")", relation)
	case number(k.Type):
		return same
	}
	// A duration is compared in seconds.
	n := toFloat(v.Constant)
	lasts := truth(k.in(postfix)+".matches("+durations+") && duration("+k.Text+") == duration('"+seconds(n)+"')", conjunction)
	switch k.Type.Kind {
	case Text:
		return lasts
	case Either, Any:
		return truth(same.Text+" || type("+k.Text+") == string && "+lasts.Text, disjunction)
	default:
		return known(false)
	}
}

func toFloat(of any) float64 {
	switch n := of.(type) {
	case int64:
		return float64(n)
	case float64:
		return n
	}
	return math.NaN()
}

func seconds(n float64) string { return strconv.FormatFloat(math.Trunc(n), 'f', -1, 64) + "s" }

func (o *operation) equalText(k Value, c string) (Value, error) {
	n, err := strconv.ParseInt(c, 10, 64)
	isNumber := err == nil
	switch k.Type.Kind {
	case Text:
		return textEquals(k, c), nil
	case Integer, Number:
		if !isNumber {
			if _, err := strconv.ParseFloat(c, 64); err == nil || isDuration(c) {
				return k, refuse(writeIt, "a number compared with the text %s is not imported", c)
			}
			return known(false), nil
		}
		return truth(k.in(sum)+" == "+literal(n), relation), nil
	case Bool, List, Map, images, image:
		return known(false), nil
	case Either, Any:
	}
	text := textEquals(k, c)
	if !isNumber && text.binds == relation && strings.HasSuffix(text.Text, " == "+quote(c)) {
		return text, nil
	}
	text = truth("type("+k.Text+") == string && "+text.in(relation), conjunction)
	if isNumber {
		text = truth(k.in(sum)+" == "+literal(n)+" || "+text.Text, disjunction)
	} else if _, err := strconv.ParseFloat(c, 64); err == nil {
		return k, refuse(writeIt, "a value that may be a number compared with the text %s is not imported", c)
	}
	return text, nil
}

// textEquals writes whether a text equals another one: as a duration, a quantity, or a text with wildcards.
func textEquals(k Value, c string) Value {
	quantity := "isQuantity(" + k.Text + ")"
	amount := quantity + " && quantity(" + k.Text + ").compareTo(quantity(" + quote(c) + ")) == 0"
	switch {
	case isDuration(c):
		lasts := k.in(postfix) + ".matches(" + durations + ")"
		same := "duration(" + k.Text + ") == duration(" + quote(c) + ")"
		if isQuantity(c) {
			return truth(lasts+" ? "+same+" : "+amount, ternary)
		}
		return truth(lasts+" && "+same, conjunction)
	case isQuantity(c):
		return truth(amount, conjunction)
	case !strings.ContainsAny(c, "*?"):
		return truth(k.in(sum)+" == "+quote(c), relation)
	}
	fits := Wildcard(k, c)
	if fits.IsConstant && k.Type.Word {
		return fits
	}
	if fits.IsConstant {
		return truth("!"+quantity, unary)
	}
	if strings.ContainsAny(c[:1], "*?+-.0123456789") {
		// What is a quantity equals nothing else.
		return truth("!"+quantity+" && "+fits.in(relation), conjunction)
	}
	return fits
}

// Wildcard writes whether a text fits a pattern, in which * is any text and ? any character.
func Wildcard(k Value, pattern string) Value {
	inside := strings.Trim(pattern, "*")
	begins, ends := strings.HasPrefix(pattern, "*"), strings.HasSuffix(pattern, "*")
	call := func(name string) Value {
		return truth(k.in(postfix)+"."+name+"("+quote(inside)+")", postfix)
	}
	switch {
	case pattern != "" && inside == "":
		return known(true)
	case strings.ContainsAny(inside, "*?"):
		return truth(k.in(postfix)+".matches("+quote(wildcardRegexp(pattern))+")", postfix)
	case begins && ends:
		return call("contains")
	case begins:
		return call("endsWith")
	case ends:
		return call("startsWith")
	}
	return truth(k.in(sum)+" == "+quote(pattern), relation)
}

func wildcardRegexp(pattern string) string {
	r := regexp.QuoteMeta(pattern)
	r = strings.ReplaceAll(r, `\*`, ".*")
	return "^(?s:" + strings.ReplaceAll(r, `\?`, ".") + ")$"
}

// equalValues writes whether two values are equal that are both read.
func (o *operation) equalValues(k, v Value) (Value, error) {
	if v.open != [2]bool{} {
		return equalOpen(o.Scope, k, v)
	}
	if k.IsConstant {
		if c, ok := k.Constant.(string); ok && v.Type.Kind == Text && !isDuration(c) && !isQuantity(c) {
			if !v.Type.Plain {
				o.note("wildcards in values that are read are not expanded")
			}
			return truth(v.in(sum)+" == "+k.Text, relation), nil
		}
	}
	switch {
	case number(k.Type) && number(v.Type), k.Type.Kind == Bool && v.Type.Kind == Bool, k.Type.Kind == List && v.Type.Kind == List,
		k.Type.Kind == Map && v.Type.Kind == Map:
	case k.Type.Kind == Any || v.Type.Kind == Any || k.Type.Kind == Either || v.Type.Kind == Either || k.Type.Kind == v.Type.Kind:
		o.note("values that are read are compared as they are: 1Gi and 1024Mi, 1h and 60m differ, and wildcards are not expanded")
	default:
		return k, refuse(writeIt, "values of different kinds are compared")
	}
	return truth(k.in(sum)+" == "+v.in(sum), relation), nil
}

// equalOpen writes whether a value equals a text with * before or after it.
func equalOpen(s *Scope, k, v Value) (Value, error) {
	if v.Type.Kind == List {
		return k, refuse("write AnyIn or AnyNotIn", "a list of patterns that something equals is not imported")
	}
	fits, err := fitsOpen(s, k, v)
	if err == nil && !k.Type.Word {
		// What is a quantity equals nothing else.
		fits = truth("!isQuantity("+k.Text+") && "+fits.in(relation), conjunction)
	}
	return fits, err
}
