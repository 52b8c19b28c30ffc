package kyverno

import (
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/kind"
)

// A fit says which values fit a leaf, by the type that a value has when it is read.
type fit struct {
	// text and number are about a value of that type. With safe, text may be asked of any value.
	text, number term
	safe         bool
	isTrue       bool
	isFalse      bool
	isNull       bool
}

// fits returns a term that holds if a value fits that is there, and that is no list.
func (l leaf) fits(at string, of kind.Type) (term, error) {
	if l.long {
		return no, errors.New("it is too long")
	}
	if l.alternatives == nil {
		f := l.scalar(at)
		f.isNull = l.absent()
		return f.term(at, of), nil
	}
	f := fit{text: no, number: no, isNull: l.absent(), safe: true}
	if texts := l.exact(); len(texts) > 1 {
		f.text = compare(at, "in", "["+strings.Join(texts, ", ")+"]")
		return f.term(at, of), nil
	}
	for _, conditions := range l.alternatives {
		each := fit{text: yes, number: yes, isTrue: true, isFalse: true, safe: true}
		for _, c := range conditions {
			one, err := c.fit(at, of)
			if err != nil {
				return no, err
			}
			each = fit{text: all(each.text, one.text), number: all(each.number, one.number), isTrue: each.isTrue && one.isTrue, isFalse: each.isFalse && one.isFalse, safe: each.safe && one.safe}
		}
		f = fit{text: some(f.text, each.text), number: some(f.number, each.number), isTrue: f.isTrue || each.isTrue, isFalse: f.isFalse || each.isFalse, isNull: f.isNull, safe: f.safe && each.safe}
	}
	t := f.term(at, of)
	if of == kind.Anything && !l.plain() {
		// A text that is equal to its pattern fits, whatever the pattern means.
		t = some(t, compare(at, "==", convert.Quote(l.text)))
	}
	return t, nil
}

// plain reports whether a pattern is one text without operators.
func (l leaf) plain() bool {
	return len(l.alternatives) == 1 && len(l.alternatives[0]) == 1 && l.alternatives[0][0].operator == "=="
}

// exact returns the texts of a pattern that is nothing but texts.
func (l leaf) exact() []string {
	var texts []string
	for _, conditions := range l.alternatives {
		c := conditions[0]
		if len(conditions) > 1 || c.operator != "==" || c.duration != nil || c.quantity != nil || strings.ContainsAny(c.operand, "*?") || c.operand == "true" || c.operand == "false" {
			return nil
		}
		texts = append(texts, convert.Quote(c.operand))
	}
	return texts
}

// term returns a term for a value of a type.
func (f fit) term(at string, of kind.Type) term {
	switch of {
	case kind.Text:
		return f.text
	case kind.Integer, kind.Number:
		return f.number
	case kind.Quantity:
		return f.text
	case kind.Bool:
		return boolean(at, f.isTrue, f.isFalse)
	case kind.Either:
		if f.safe && f.number == no {
			return f.text
		}
		return when(compare("type("+at+")", "==", "string"), f.text, f.number)
	case kind.Anything:
		return f.any(at)
	default:
		return no
	}
}

func boolean(at string, isTrue, isFalse bool) term {
	switch {
	case isTrue && isFalse:
		return yes
	case isTrue:
		return call(at)
	case isFalse:
		return not(call(at))
	}
	return no
}

// any returns a term for a value of any type.
func (f fit) any(at string) term {
	of := func(name string) term { return compare("type("+at+")", "==", name) }
	var terms []term
	if f.isNull {
		terms = append(terms, compare(at, "==", "null"))
	}
	if f.number == yes && f.isTrue && f.isFalse {
		text := f.text
		if !f.safe {
			text = some(not(of("string")), f.text)
		}
		return some(append(terms, all(compare(at, "!=", "null"), compare("type("+at+")", "!=", "map"), compare("type("+at+")", "!=", "list"), text))...)
	}
	if f.safe {
		terms = append(terms, f.text)
	} else {
		terms = append(terms, all(of("string"), f.text))
	}
	if f.number != no {
		terms = append(terms, all(some(of("int"), of("double")), f.number))
	}
	for value, fits := range map[string]bool{"true": f.isTrue, "false": f.isFalse} {
		if fits {
			terms = append(terms, compare(at, "==", value))
		}
	}
	return some(terms...)
}

const (
	// isDuration and isDecimal are the texts that can be parsed as such.
	isDuration = `.matches('^[-+]?(0|(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$')`
	isDecimal  = `.matches('^[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][-+]?[0-9]+)?$')`
)

// scalar returns what fits a pattern that is no text.
func (l leaf) scalar(at string) fit {
	switch v := l.value.(type) {
	case bool:
		return fit{text: no, number: no, isTrue: v, isFalse: !v}
	case int64:
		literal := strconv.FormatInt(v, 10)
		sign, digits := "[+]?", literal
		switch {
		case v < 0:
			sign, digits = "-", literal[1:]
		case v == 0:
			sign = "[-+]?"
		}
		return fit{text: call(at + ".matches('^" + sign + "0*" + digits + "$')"), number: compare(at, "==", literal)}
	case float64:
		literal := strconv.FormatFloat(v, 'f', -1, 64)
		return fit{text: all(call(at+isDecimal), compare("double("+at+")", "==", literal)), number: compare(at, "==", literal)}
	case nil:
		return fit{text: compare(at, "==", "''"), safe: true, number: compare(at, "==", "0"), isFalse: true}
	}
	return fit{text: no, number: no}
}

// fit returns what fits a comparison.
func (c comparison) fit(at string, of kind.Type) (fit, error) {
	if of == kind.Quantity && c.quantity != nil {
		return fit{text: c.asQuantity("string(" + at + ")"), number: no}, nil
	}
	isTrue, _ := c.wild("true")
	isFalse, _ := c.wild("false")
	f := fit{isTrue: isTrue, isFalse: isFalse}
	var err error
	f.text, f.safe = c.ofText(at)
	f.number, err = c.ofNumber(at, of)
	return f, err
}

// wild reports whether a text that is no duration and no quantity fits.
func (c comparison) wild(text string) (fits, ok bool) {
	switch c.operator {
	case "==":
		return wildcard(c.operand).MatchString(text), true
	case "!=":
		return !wildcard(c.operand).MatchString(text), true
	}
	return false, false
}

// wildcard returns a regular expression for a text in which * is any text, and ? one character.
func wildcard(pattern string) *regexp.Regexp {
	return regexp.MustCompile(`(?s)` + expressionOf(pattern))
}

func expressionOf(pattern string) string {
	var b strings.Builder
	b.WriteString("^")
	for _, r := range pattern {
		switch r {
		case '*':
			b.WriteString(".*")
		case '?':
			b.WriteString(".")
		default:
			b.WriteString(regexp.QuoteMeta(string(r)))
		}
	}
	return b.String() + "$"
}

// ofText returns a term for a text, and whether it may be asked of any value.
func (c comparison) ofText(at string) (term, bool) {
	t, safe := no, true
	switch c.operator {
	case "==":
		t = like(at, c.operand)
		safe = t.binds == relation
	case "!=":
		t = not(like(at, c.operand))
		safe = t.binds == relation
	}
	if c.quantity != nil {
		otherwise := no
		if c.operator == "!=" {
			otherwise = yes
		}
		t, safe = when(call("isQuantity("+at+")"), c.asQuantity(at), otherwise), false
	}
	if c.duration != nil {
		t, safe = when(call(at+isDuration), compare("duration("+at+")", c.operator, "duration("+convert.Quote(c.operand)+")"), t), false
	}
	return t, safe
}

// like returns a term that holds if a text fits a pattern with wildcards.
func like(at, pattern string) term {
	inner := strings.Trim(pattern, "*")
	begin, end := strings.HasPrefix(pattern, "*"), strings.HasSuffix(pattern, "*")
	quoted := convert.Quote(inner)
	switch {
	case pattern == "?*" || pattern == "*?":
		return compare(at, "!=", "''")
	case strings.Trim(pattern, "*") == "" && pattern != "":
		return yes
	case strings.ContainsAny(inner, "*?"):
		return call(at + ".matches(" + convert.Quote("(?s)"+expressionOf(pattern)) + ")")
	case begin && end:
		return call(at + ".contains(" + quoted + ")")
	case begin:
		return call(at + ".endsWith(" + quoted + ")")
	case end:
		return call(at + ".startsWith(" + quoted + ")")
	}
	return compare(at, "==", quoted)
}

func (c comparison) asQuantity(at string) term {
	operand := "quantity(" + convert.Quote(c.operand) + ")"
	switch c.operator {
	case ">":
		return call("quantity(" + at + ").isGreaterThan(" + operand + ")")
	case "<":
		return call("quantity(" + at + ").isLessThan(" + operand + ")")
	}
	return compare("quantity("+at+").compareTo("+operand+")", c.operator, "0")
}

// ofNumber returns a term for a number.
func (c comparison) ofNumber(at string, of kind.Type) (term, error) {
	if c.quantity != nil {
		value := c.quantity.AsApproximateFloat64()
		if value == math.Trunc(value) && math.Abs(value) < 1<<53 {
			return compare(at, c.operator, strconv.FormatInt(int64(value), 10)), nil
		}
		if back := strconv.FormatFloat(value, 'f', -1, 64); back == c.operand {
			return compare(at, c.operator, back), nil
		}
		return c.asQuantity("string(" + at + ")"), nil
	}
	zero, other := no, no
	if fits, ok := c.wild("x"); ok {
		literal := strings.Trim(c.operand, "*?")
		switch {
		case strings.Trim(literal, "*?0123456789.+-E") != "":
			// It has characters that no number has.
			zero, other = truth(c.operator == "!="), truth(c.operator == "!=")
		case c.operand == "*" || c.operand == "?*" || c.operand == "*?" || c.operand == "":
			zero, other = truth(fits), truth(fits)
			if c.operand == "" {
				zero, other = truth(c.operator == "!="), truth(c.operator == "!=")
			}
		case of == kind.Integer || of == kind.Either:
			t := like("string("+at+")", c.operand)
			if c.operator == "!=" {
				t = not(t)
			}
			return t, nil
		case of == kind.Text || of == kind.Bool:
			return no, nil
		default:
			return no, errors.New("it compares digits and wildcards with a value that may be a fraction")
		}
	}
	if c.duration != nil {
		zero = truth(c.zero())
	}
	if zero == other {
		return zero, nil
	}
	if zero == yes {
		return compare(at, "==", "0"), nil
	}
	return compare(at, "!=", "0"), nil
}

func truth(value bool) term {
	if value {
		return yes
	}
	return no
}
