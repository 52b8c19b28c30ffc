package expression

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Texts that are numbers, and versions, in regular expressions of CEL.
const decimals = `'^[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)(e[-+]?[0-9]+)?$'`

var version = regexp.MustCompile(`^\d+\.\d+\.\d+([-+].*)?$`)

// order returns how to write GreaterThan and the like.
func (o *operation) order(operator string) func(k, v Value) (Value, error) {
	compared := func(left, right string) string { return left + " " + operator + " " + right }
	return func(k, v Value) (Value, error) {
		duration := strings.HasPrefix(o.operator, "duration")
		if v.open != [2]bool{} {
			return known(false), nil
		}
		if !v.IsConstant {
			return o.orderOfValues(k, v, operator)
		}
		switch c := v.Constant.(type) {
		case int64, float64:
			return orderOfNumber(k, toFloat(c), v.Text, compared, duration)
		case string:
			return orderOfText(k, c, compared, duration)
		}
		return known(false), nil
	}
}

// lasts writes a comparison of a text with a duration, if it is one.
func lasts(k Value, compared func(string, string) string, length string) (is, order string) {
	return k.in(postfix) + ".matches(" + durations + ")", compared("duration("+k.Text+")", "duration("+quote(length)+")")
}

// orderOfNumber compares a key with a number: a duration in seconds, and a text that is a number.
func orderOfNumber(k Value, n float64, text string, compared func(string, string) string, onlyDuration bool) (Value, error) {
	is, order := lasts(k, compared, seconds(n))
	asText := is + " ? " + order + " : " + k.in(postfix) + ".matches(" + decimals + ") && " + compared("double("+k.Text+")", doubled(n))
	if onlyDuration {
		asText = is + " && " + order
	}
	switch k.Type.Kind {
	case Integer, Number:
		return truth(compared(k.in(sum), text), relation), nil
	case Text:
		return truth(asText, ternary), nil
	case Either, Any:
		if k.Type.Kind == Either {
			return truth("type("+k.Text+") == string ? ("+asText+") : "+compared(k.in(sum), text), ternary), nil
		}
		return truth("type("+k.Text+") == string ? ("+asText+") : (type("+k.Text+") == int || type("+k.Text+") == double) && "+compared(k.in(sum), text), ternary), nil
	default:
		return known(false), nil
	}
}

func doubled(n float64) string {
	text := strconv.FormatFloat(n, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// orderOfText compares a key with a text: as durations, quantities, numbers or versions, whichever it is first.
func orderOfText(k Value, c string, compared func(string, string) string, onlyDuration bool) (Value, error) {
	number, wrong := strconv.ParseFloat(c, 64)
	isNumber := wrong == nil
	switch k.Type.Kind {
	case Integer, Number:
		if isDuration(c) {
			length, _ := time.ParseDuration(c)
			return truth(compared(k.in(sum), literal(length.Seconds())), relation), nil
		}
		if !isNumber || onlyDuration {
			return known(false), nil
		}
		return truth(compared(k.in(sum), literal(number)), relation), nil
	case Text:
		return orderOfTexts(k, c, compared, onlyDuration)
	case Either, Any:
		text, err := orderOfTexts(k, c, compared, onlyDuration)
		if err != nil {
			return text, err
		}
		if !isNumber && !isDuration(c) {
			return truth("type("+k.Text+") == string && "+text.in(relation), conjunction), nil
		}
		n := k
		n.Type.Kind = Number
		of, err := orderOfText(n, c, compared, onlyDuration)
		if err != nil {
			return of, err
		}
		other := of.in(disjunction)
		if k.Type.Kind == Any {
			other = "(type(" + k.Text + ") == int || type(" + k.Text + ") == double) && " + of.in(relation)
		}
		return truth("type("+k.Text+") == string ? "+text.in(disjunction)+" : "+other, ternary), nil
	default:
		return known(false), nil
	}
}

func orderOfTexts(k Value, c string, compared func(string, string) string, onlyDuration bool) (Value, error) {
	amount := "isQuantity(" + k.Text + ") && " + compared("quantity("+k.Text+").compareTo(quantity("+quote(c)+"))", "0")
	switch {
	case isDuration(c) && (onlyDuration || !isQuantity(c)):
		is, order := lasts(k, compared, c)
		if onlyDuration {
			return truth(is+" && "+order, conjunction), nil
		}
		length, _ := time.ParseDuration(c)
		number := k.in(postfix) + ".matches(" + decimals + ") && " + compared("double("+k.Text+")", doubled(length.Seconds()))
		return truth(is+" ? "+order+" : "+number, ternary), nil
	case isDuration(c):
		is, order := lasts(k, compared, c)
		return truth(is+" ? "+order+" : "+amount, ternary), nil
	case onlyDuration:
		return known(false), nil
	case isQuantity(c):
		return truth(amount, conjunction), nil
	case version.MatchString(c):
		return truth("isSemver("+k.Text+") && "+compared("semver("+k.Text+").compareTo(semver("+quote(c)+"))", "0"), conjunction), nil
	}
	return k, refuse("correct the value", "%s is no number, quantity, duration or version", c)
}

// orderOfValues compares two values that are read.
func (o *operation) orderOfValues(k, v Value, operator string) (Value, error) {
	if number(k.Type) && number(v.Type) {
		return truth(k.in(sum)+" "+operator+" "+v.in(sum), relation), nil
	}
	switch {
	case k.Type.Kind == Either && v.Type.Kind == Either:
		return truth("quantity(string("+k.Text+")).compareTo(quantity(string("+v.Text+"))) "+operator+" 0", relation), nil
	case strings.HasPrefix(o.operator, "duration"):
	case number(k.Type) && (v.Type.Kind == Either || v.Type.Kind == Text):
		return orderWithNumber(v, k, func(text, number string) string { return number + " " + operator + " " + text }), nil
	case number(v.Type) && (k.Type.Kind == Either || k.Type.Kind == Text):
		return orderWithNumber(k, v, func(text, number string) string { return text + " " + operator + " " + number }), nil
	case k.Type.Kind == Text && v.Type.Kind == Text:
		return orderOfTwoTexts(k, v, operator), nil
	}
	return k, refuse(writeIt, "an order of values that may not be numbers is not imported")
}

// orderWithNumber compares what may be a text with a number: as a duration with seconds, or as a number.
func orderWithNumber(text, n Value, compared func(text, number string) string) Value {
	asText := text.in(postfix) + ".matches(" + durations + ") ? " + compared("duration("+text.Text+")", "duration(string(int("+n.Text+")) + 's')") +
		" : " + text.in(postfix) + ".matches(" + decimals + ") && " + compared("double("+text.Text+")", "double("+n.Text+")")
	if text.Type.Kind == Text {
		return truth(asText, ternary)
	}
	return truth("type("+text.Text+") == string ? ("+asText+") : "+compared(text.in(sum), n.in(sum)), ternary)
}

// orderOfTwoTexts compares texts as durations, quantities or versions, whichever both are first. A number is in
// seconds if the other one is a duration.
func orderOfTwoTexts(k, v Value, operator string) Value {
	both := func(is func(of Value) string) string { return is(k) + " && " + is(v) }
	duration := both(func(of Value) string { return of.in(postfix) + ".matches(" + durations + ")" })
	quantity := both(func(of Value) string { return "isQuantity(" + of.Text + ")" })
	version := both(func(of Value) string { return "isSemver(" + of.Text + ")" })
	order := func(name string) string {
		return name + "(" + k.Text + ").compareTo(" + name + "(" + v.Text + ")) " + operator + " 0"
	}
	seconds := k.in(postfix) + ".matches(" + decimals + ") && " + v.in(postfix) + ".matches(" + durations + ")"
	return truth(duration+" ? duration("+k.Text+") "+operator+" duration("+v.Text+") : "+quantity+" ? "+order("quantity")+
		" : "+seconds+" ? duration(string(int(double("+k.Text+"))) + 's') "+operator+" duration("+v.Text+") : "+version+" && "+order("semver"), ternary)
}
