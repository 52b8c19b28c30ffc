package expression

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// membership writes AnyIn, AllIn, AnyNotIn and AllNotIn: wildcards are on both sides.
func (o *operation) membership(k, v Value) (Value, error) {
	switch k.Type.Kind {
	case List:
		return o.each(k, v)
	case Map:
		return known(false), nil
	case Any:
		list := k
		list.Type = ListOf(Type{})
		all, err := o.each(list, v)
		if err != nil {
			return all, err
		}
		one, err := o.scalar(k, v)
		if err != nil {
			return one, err
		}
		if strings.HasSuffix(o.operator, "notin") {
			one = unlessNull(k, truth("type("+k.Text+") != map && "+one.in(relation), conjunction))
		}
		return truth("type("+k.Text+") == list ? "+all.in(disjunction)+" : "+one.in(disjunction), ternary), nil
	default:
		return o.scalar(k, v)
	}
}

// scalar writes whether a key that is no list is in a value.
func (o *operation) scalar(k, v Value) (Value, error) {
	not := strings.HasSuffix(o.operator, "notin")
	result := func(in Value, err error) (Value, error) {
		if err == nil && not {
			in = inverse(in)
		}
		return in, err
	}
	if !v.IsConstant {
		return result(o.inValue(k, v))
	}
	switch c := v.Constant.(type) {
	case []any:
		return result(o.oneOf(k, texts(c)))
	case string:
		if low, high, ok := between(c); ok {
			if k.Type.Kind != Integer {
				return k, refuse(writeIt, "a range such as %s of values that may not be numbers is not imported", c)
			}
			return result(truth(k.in(sum)+" >= "+low+" && "+k.in(sum)+" <= "+high, conjunction), nil)
		}
		list, valid := listIn(c)
		if list == nil && !valid {
			// It is JSON, and no list of texts: nothing is in it, or not in it, but itself.
			if not {
				return known(false), nil
			}
			return o.equalOnly(k, c)
		}
		if list == nil {
			list = []string{c}
		}
		for _, text := range list {
			if strings.ContainsAny(text, "*?") && valid {
				return k, refuse(writeIt, "wildcards in a list that is written as a text are not imported")
			}
		}
		return result(o.within(k, list, false))
	}
	return known(false), nil
}

func (o *operation) equalOnly(k Value, c string) (Value, error) {
	if k.Type.Kind != Text {
		return k, refuse(writeIt, "a value that may not be a text in %s is not imported", c)
	}
	return Wildcard(k, c), nil
}

// each writes AnyIn and the like for a list.
func (o *operation) each(k, v Value) (Value, error) {
	name := o.ElementName("value")
	if strings.HasPrefix(k.Text, "v.") || k.Text == "v" {
		name = o.Taking("v").ElementName("value")
	}
	element := fresh(name, postfix, k.Type.Item())
	not := strings.HasSuffix(o.operator, "notin")
	var in Value
	var err error
	switch c := v.Constant.(type) {
	case []any:
		in, err = o.oneOf(element, texts(c))
	case string:
		in, err = o.elementInText(element, c)
	default:
		switch {
		case !v.IsConstant:
			in, err = o.inValue(element, v)
		case c == nil || strings.HasPrefix(o.operator, "all"):
			return known(false), nil
		default:
			in, err = o.oneOf(element, texts([]any{c}))
		}
	}
	if err != nil {
		return in, err
	}
	if not {
		in = inverse(in)
	}
	macro := ".exists("
	if strings.HasPrefix(o.operator, "all") {
		macro = ".all("
	}
	if k.keysOf != nil {
		k = *k.keysOf
	}
	return truth(k.in(postfix)+macro+name+", "+in.Text+")", postfix), nil
}

func (o *operation) elementInText(element Value, c string) (Value, error) {
	if low, high, ok := between(c); ok {
		if element.Type.Kind != Integer {
			return element, refuse(writeIt, "a range such as %s of values that may not be numbers is not imported", c)
		}
		return truth(element.in(sum)+" >= "+low+" && "+element.in(sum)+" <= "+high, conjunction), nil
	}
	list, valid := listIn(c)
	switch {
	case list == nil && !valid:
		return element, refuse("write the value as a list", "a list of values compared with the text %s is not imported", c)
	case list == nil:
		list = []string{c}
	}
	return o.oneOf(element, list)
}

var span = regexp.MustCompile(`^([-|\+]?\d+(?:\.\d+)?[A-Za-z]*)-([-|\+]?\d+(?:\.\d+)?[A-Za-z]*)$`)

// between returns the ends of a range of whole numbers. Other ranges have none.
func between(c string) (low, high string, ok bool) {
	found := span.FindStringSubmatch(c)
	if found == nil {
		return "", "", false
	}
	return found[1], found[2], true
}

// listIn returns the list of texts that a text is in JSON, and whether it is that, or no JSON at all.
func listIn(c string) (list []string, valid bool) {
	if !json.Valid([]byte(c)) {
		return nil, true
	}
	if json.Unmarshal([]byte(c), &list) != nil || list == nil {
		return nil, false
	}
	return list, true
}

// texts writes values as texts, as Kyverno does.
func texts(of []any) []string {
	all := make([]string, len(of))
	for i, v := range of {
		if n, ok := v.(int64); ok {
			v = float64(n)
		}
		all[i] = fmt.Sprint(v)
	}
	return all
}

// oneOf writes whether a value is one of some texts, with wildcards on both sides.
func (o *operation) oneOf(k Value, list []string) (Value, error) { return o.within(k, list, true) }

// within writes whether a value is one of some texts. Wildcards of the value count, or not.
func (o *operation) within(k Value, list []string, wildcards bool) (Value, error) {
	if slices.Contains(list, "*") {
		return known(true), nil
	}
	of := sortedOut(list)
	kind := k.Type.Kind
	var parts []Value
	if kind == Integer || kind == Number || kind == Either || kind == Any {
		parts = appendIn(parts, k, of.numbers)
	}
	if kind == Bool || kind == Any {
		parts = appendIn(parts, k, of.bools)
	}
	if kind == Text || kind == Either || kind == Any {
		if wildcards && !k.Type.Plain && len(list) > 0 {
			of.plain = append(of.plain, "*")
			o.note("a value * in an object fits everything, as in Kyverno; other wildcards in objects do not")
		}
		parts = appendIn(parts, k, of.plain)
	}
	for _, pattern := range of.patterns {
		fits, err := fitting(k, pattern)
		if err != nil {
			return k, err
		}
		parts = append(parts, fits)
	}
	if len(parts) == 0 {
		return known(false), nil
	}
	return joined(parts, " || ", disjunction, "true", "false"), nil
}

// fitting writes whether a value fits a pattern with wildcards.
func fitting(k Value, pattern string) (Value, error) {
	switch k.Type.Kind {
	case Text:
		return Wildcard(k, pattern), nil
	case Bool:
		return known(false), nil
	case Either, Any:
		if !strings.ContainsAny(pattern, "0123456789") && strings.Trim(pattern, "?*") != "" {
			return truth("type("+k.Text+") == string && "+Wildcard(k, pattern).in(relation), conjunction), nil
		}
	default:
	}
	return k, refuse(writeIt, "a value that may be a number compared with the pattern %s is not imported", pattern)
}

// A sorting is what texts may be equal to.
type sorting struct {
	plain, numbers, bools []any
	patterns              []string
}

func sortedOut(list []string) sorting {
	var s sorting
	for _, text := range list {
		switch f, err := strconv.ParseFloat(text, 64); {
		case err == nil && fmt.Sprint(f) == text:
			s.numbers = append(s.numbers, f)
		case text == "true" || text == "false":
			s.bools = append(s.bools, text == "true")
		}
		if strings.ContainsAny(text, "*?") {
			s.patterns = append(s.patterns, text)
			continue
		}
		s.plain = append(s.plain, text)
	}
	return s
}

func appendIn(parts []Value, k Value, list []any) []Value {
	switch len(list) {
	case 0:
		return parts
	case 1:
		return append(parts, truth(k.in(sum)+" == "+literal(list[0]), relation))
	}
	return append(parts, truth(k.in(sum)+" in "+literal(list), relation))
}

// inValue writes whether a value is in one that is read: a list, or a text that may be a list in JSON.
func (o *operation) inValue(k, v Value) (Value, error) {
	if v.open != [2]bool{} {
		return fitsOpen(o.Scope, k, v)
	}
	plain := k.Type.Plain && (v.Type.Plain || v.Type.Kind == List && v.Type.Item().Plain)
	if !plain {
		o.note("wildcards in lists that are read, and in what is compared with them, are not expanded, but for the value *")
	}
	switch v.Type.Kind {
	case List:
		if item := v.Type.Item(); !item.Plain && (item.Kind == Text || item.Kind == Any) {
			every := "'*' in "
			if item.Kind == Any || strings.HasSuffix(v.Text, ".sort()") {
				every = "dyn('*') in "
			}
			return truth(k.in(sum)+" in "+v.in(sum)+" || "+every+v.in(sum), disjunction), nil
		}
		return truth(k.in(sum)+" in "+v.in(sum), relation), nil
	case Text:
		if k.Type.Kind == Any && v.Type.Plain {
			// What is no text is not in a name.
			return truth("type("+k.Text+") == string && "+k.in(sum)+" == "+v.in(sum), conjunction), nil
		}
		if k.Type.Kind != Text {
			return k, refuse(writeIt, "values that may not be texts, in a text that is read, are not imported")
		}
		o.note("a text that is read is the value, or a list of texts in JSON, in which \\ escapes nothing")
		return bound(v, func(v Value) (Value, error) {
			list := v.in(postfix) + ".startsWith('[') && " + v.in(postfix) + `.contains('"' + ` + k.in(product) + ` + '"')`
			return truth(k.in(sum)+" == "+v.in(sum)+" || "+list, disjunction), nil
		})
	case Any:
		o.note("a value that is read is a list")
		return truth(k.in(sum)+" in "+v.in(sum), relation), nil
	default:
		return v, refuse(writeIt, "a value that is read and is no list or text is not imported")
	}
}

// subset writes In and NotIn, which are deprecated: the elements of a list are compared without wildcards.
func (o *operation) subset(k, v Value) (Value, error) {
	if v.open != [2]bool{} {
		return v, refuse("write AnyIn or AnyNotIn", "In and NotIn of a pattern with variables are not imported")
	}
	not := o.operator == "notin"
	list, isList := v.Constant.([]any)
	if k.Type.Kind != List {
		return o.one(k, v, not)
	}
	if v.IsConstant && !isList || k.Type.Item().Kind != Text {
		return k, refuse("write AllIn or AnyNotIn", "In and NotIn of a list are imported for lists of texts alone")
	}
	for _, item := range list {
		if _, ok := item.(string); !ok {
			return known(false), nil
		}
	}
	if !v.IsConstant && v.Type.Kind != List {
		return v, refuse("write AllIn or AnyNotIn", "In and NotIn of a list are imported for lists of texts alone")
	}
	name := o.ElementName("value")
	if not {
		return truth(k.in(postfix)+".exists("+name+", !("+name+" in "+v.in(sum)+"))", postfix), nil
	}
	return truth(k.in(postfix)+".all("+name+", "+name+" in "+v.in(sum)+")", postfix), nil
}

// one writes In and NotIn of a value that is no list.
func (o *operation) one(k, v Value, not bool) (Value, error) {
	text, isText := v.Constant.(string)
	found, valid := listIn(text)
	switch {
	case isText && (!valid || found == nil) && not:
		// Not a list in JSON: nothing is not in it.
		return known(false), nil
	case isText && (!valid || found == nil):
		return o.equalOnly(k, text)
	case k.Type.Kind == Any:
		return k, refuse("write AnyIn or AllIn", "In and NotIn of a value that may be a list are not imported")
	}
	return o.scalar(k, v)
}
