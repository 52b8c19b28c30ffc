package expression

import (
	"regexp"
	"slices"
	"strings"

	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
)

// Conditions writes conditions: one of those of any, and all of those of all. Where one that may fail comes before
// another one, the second is not asked if the first fails, as in Kyverno.
func (s *Scope) Conditions(c *syntax.Conditions) (Value, error) {
	var parts []Value
	if c.Any != nil {
		v, err := s.sequence(c.Any, " || ", disjunction, "true", "false")
		if err != nil {
			return v, err
		}
		parts = append(parts, v)
	}
	if len(c.All) > 0 {
		v, err := s.sequence(c.All, " && ", conjunction, "false", "true")
		if err != nil {
			return v, err
		}
		parts = append(parts, v)
	}
	if len(parts) == 0 {
		return truth("true", postfix), nil
	}
	return joined(parts, " && ", conjunction, "false", "true"), nil
}

func (s *Scope) sequence(all []syntax.Condition, operator string, binds power, decided, none string) (Value, error) {
	parts := make([]Value, len(all))
	for i := range all {
		var err error
		if parts[i], err = s.Condition(&all[i]); err != nil {
			return Value{}, err
		}
	}
	return joined(parts, operator, binds, decided, none), nil
}

// joined joins conditions, in order: CEL's operators hold, or do not, whatever else fails.
func joined(parts []Value, operator string, binds power, decided, none string) Value {
	if len(parts) == 0 {
		return truth(none, postfix)
	}
	v := parts[len(parts)-1]
	for i := len(parts) - 2; i >= 0; i-- {
		left, failing := parts[i], v.fails
		switch {
		case left.IsConstant && left.Text == decided:
			v = left
		case left.IsConstant:
		case v.IsConstant && v.Text == none:
			v = left
			continue
		case left.fails && left.guard != "":
			// It is strict, and so is what comes after it.
			rest := v
			if v.guard != "" {
				rest = truth(v.guard+" && "+v.in(conjunction), conjunction)
			}
			v = truth(left.in(binds)+operator+rest.in(binds), binds)
			v.guard = left.guard
		case left.fails && decided == "true":
			v = truth(left.in(disjunction)+" ? true : "+v.in(disjunction), ternary)
		case left.fails:
			v = truth(left.in(disjunction)+" ? "+v.in(disjunction)+" : false", ternary)
		default:
			v = truth(left.in(binds)+operator+v.in(binds), binds)
		}
		v.fails = failing || left.fails
	}
	if v.guard != "" {
		v = truth(v.guard+" && "+v.in(conjunction), conjunction)
	}
	return v
}

func truth(text string, binds power) Value { return fresh(text, binds, Type{Kind: Bool}) }

func known(b bool) Value { return Constant(b) }

func inverse(v Value) Value {
	if b, ok := v.Constant.(bool); ok && v.IsConstant {
		return known(!b)
	}
	if inner, ok := strings.CutPrefix(v.Text, "!"); ok && v.binds == unary {
		return truth(inner, postfix)
	}
	if v.binds == relation && !strings.ContainsAny(v.Text, "()'") {
		for operator, opposite := range map[string]string{" == ": " != ", " != ": " == "} {
			if strings.Count(v.Text, operator) == 1 {
				return truth(strings.Replace(v.Text, operator, opposite, 1), relation)
			}
		}
	}
	return truth("!"+v.in(unary), unary)
}

// Condition writes one condition.
func (s *Scope) Condition(c *syntax.Condition) (Value, error) {
	key, err := s.JSON(c.Key.Of)
	if err != nil {
		return key, err
	}
	value, err := s.pattern(c.Value.Of)
	if err != nil {
		return value, err
	}
	if text, ok := c.Key.Of.(string); ok && wildcardBeside(text) {
		return key, refuse(writeIt, "wildcards beside variables in a key are not imported")
	}
	o := &operation{Scope: s, operator: strings.ToLower(c.Operator)}
	v, err := o.write(key, value)
	if err != nil {
		return v, err
	}
	v.fails = key.CanFail() || value.CanFail()
	if s.lenient && v.fails {
		if v.guard, err = present(key, value); err != nil {
			return v, err
		}
	}
	return v, nil
}

// ofValue applies the comparison to a value that may be null.
func (o *operation) ofValue(k, value Value, apply func(k, v Value) (Value, error)) (Value, error) {
	guard := value.NotNull()
	value.absent, value.guard = never, ""
	result, err := apply(k, value)
	switch {
	case err != nil || guard == "":
		return result, err
	case o.operator == "notequals" || o.operator == "notequal":
		// Nothing equals null.
		return unlessNull(k, truth("!("+guard+") || "+result.in(conjunction), disjunction)), nil
	}
	return truth(guard+" && "+result.in(relation), conjunction), nil
}

// present returns a condition that no value is missing.
func present(values ...Value) (string, error) {
	var all []string
	for _, v := range values {
		switch {
		case !v.CanFail():
		case v.fails || v.absent != missing:
			return "", refuse(writeIt, "a condition of elements that may be an error is not imported")
		case simplePath(v.Text):
			all = append(all, "has("+v.Text+")")
		default:
			all = append(all, v.option+".hasValue()")
		}
	}
	return strings.Join(all, " && "), nil
}

// simplePath reports whether all but the last field of a path is a name.
func simplePath(text string) bool {
	name, field, ok := strings.Cut(text, ".")
	return ok && identifier(name) && identifier(field)
}

// An operation is a comparison of a condition.
type operation struct {
	*Scope

	operator string
}

// write writes the comparison of a key with a value. A key that is null never holds.
func (o *operation) write(key, value Value) (Value, error) {
	if key.IsConstant && key.Constant == nil {
		return known(false), nil
	}
	if key.emptyText {
		return o.textOfList(key, value)
	}
	if holds, ok := o.folded(key, value); ok {
		return known(holds), nil
	}
	key = o.shortened(key, value)
	apply, err := o.comparison()
	if err != nil {
		return Value{}, err
	}
	if key.Type.Kind == List && key.absent == null && (o.operator == "anyin" || o.operator == "anynotin") {
		// An empty list does not hold either.
		key = fresh(key.list(), key.emptyBinds(), key.Type)
	}
	inner := func(k Value) (Value, error) { return o.ofValue(k, value, apply) }
	guard := key.NotNull()
	switch {
	case guard == "":
		return bound(key, inner)
	case key.guard == "" && key.absent == null:
		// A name for what is there.
		name, of, steps := "v", key.option, ""
		if key.before != "" {
			name, of, steps = "l", key.before, key.steps
		}
		result, err := inner(fresh(name+steps, postfix, key.Type))
		if err != nil || result.IsConstant && result.Constant == false {
			return result, err
		}
		return truth(of+".optMap("+name+", "+result.Text+").orValue(false)", postfix), nil
	}
	present := key
	present.absent, present.guard = never, ""
	result, err := bound(present, inner)
	if err != nil {
		return result, err
	}
	return truth(guard+" && "+result.in(relation), conjunction), nil
}

// textOfList writes the comparison of a list, or of an empty text if it is empty.
func (o *operation) textOfList(key, value Value) (Value, error) {
	empty, ok := o.emptyTextHolds(value)
	if !ok {
		return key, refuse(writeIt, "an empty list that counts as an empty text is not compared in this way")
	}
	key.emptyText = false
	listed, err := o.write(key, value)
	if err != nil {
		return listed, err
	}
	none, some := truth("size("+key.Text+") == 0", relation), truth("size("+key.Text+") > 0", relation)
	switch {
	case listed.IsConstant && listed.Constant == empty:
		return listed, nil
	case listed.IsConstant && empty:
		return none, nil
	case listed.IsConstant:
		return some, nil
	case empty:
		return truth(none.in(disjunction)+" || "+listed.in(disjunction), disjunction), nil
	case strings.HasPrefix(o.operator, "any"):
		// It does not hold for an empty list either.
		return listed, nil
	}
	return truth(some.in(conjunction)+" && "+listed.in(conjunction), conjunction), nil
}

// emptyTextHolds returns the outcome for an empty text, if it is known.
func (o *operation) emptyTextHolds(value Value) (holds, ok bool) {
	if !value.IsConstant {
		return false, false
	}
	not := strings.Contains(o.operator, "not")
	switch o.operator {
	case "equals", "equal", "notequals", "notequal":
		text, isText := value.Constant.(string)
		return (isText && strings.Trim(text, "*") == "") != not, true
	case "anyin", "allin", "anynotin", "allnotin":
		list, isList := value.Constant.([]any)
		for _, of := range list {
			text, isText := of.(string)
			if !isText || strings.HasPrefix(text, "*") && text != "*" {
				return false, false
			}
		}
		in := slices.ContainsFunc(texts(list), func(of string) bool { return of == "" || of == "*" })
		return in != not, isList
	}
	return false, false
}

// unlessNull adds that a value of which nothing is known is not null to a condition that holds for null.
func unlessNull(v, holds Value) Value {
	if v.Type.Kind != Any || v.IsConstant || holds.IsConstant {
		return holds
	}
	return truth(v.in(sum)+" != null && "+holds.in(relation), conjunction)
}

// folded returns the outcome for constants, if it is known.
func (o *operation) folded(key, value Value) (holds, ok bool) {
	text, isText := key.Constant.(string)
	if !isText || !key.IsConstant || !value.IsConstant {
		return false, false
	}
	of, isText := value.Constant.(string)
	list, isList := value.Constant.([]any)
	if isText && !plain(of) || isList && slices.ContainsFunc(list, func(of any) bool { t, ok := of.(string); return !ok || !plain(t) }) || !plain(text) {
		return false, false
	}
	in := slices.ContainsFunc(texts(list), func(of string) bool { return matches(of, text) || matches(text, of) })
	switch o.operator {
	case "equals", "equal":
		return isText && matches(of, text), isText
	case "notequals", "notequal":
		return !(isText && matches(of, text)), isText
	case "anyin", "allin", "in":
		return in || isText && matches(of, text), isText || isList
	case "anynotin", "allnotin", "notin":
		return !in, isList
	}
	return false, false
}

// plain reports whether a text is no number, quantity, duration, range or JSON, for sure.
func plain(text string) bool {
	return text == "*" || text != "" && !strings.ContainsAny(text, "?0123456789[{\"")
}

func matches(pattern, text string) bool {
	return regexp.MustCompile(wildcardRegexp(pattern)).MatchString(text)
}

// marker is the name of a key while its uses are counted.
const marker = "\x00"

// bound writes a condition on a key, which gets a name if it is long and read more than once.
func bound(key Value, write func(Value) (Value, error)) (Value, error) {
	named := key
	named.Text, named.binds, named.IsConstant = marker, postfix, false
	v, err := write(named)
	if err != nil || key.IsConstant || strings.Count(v.Text, marker) < 2 || !strings.ContainsAny(key.Text, "(") {
		return write(key)
	}
	return truth("["+key.Text+"].exists(v, "+strings.ReplaceAll(v.Text, marker, "v")+")", postfix), nil
}

// shortened returns a key without what makes no difference to the comparison: of x || ” only whether x is absent
// counts, if what is compared is neither empty nor false.
func (o *operation) shortened(key, value Value) Value {
	if key.or == nil || key.Type.Kind != Any && key.Type.Kind != Either && key.Type.Kind != Text {
		return key
	}
	a, b := key.or[0], key.or[1]
	if a.option == "" || !b.IsConstant || b.Constant == nil || !value.IsConstant {
		return key
	}
	of, isText := value.Constant.(string)
	other, alsoText := b.Constant.(string)
	plain := isText && alsoText && of != "" && !strings.ContainsAny(of, "*?") && of != other
	if plain && (o.operator == "equals" || o.operator == "equal" || o.operator == "notequals" || o.operator == "notequal") {
		return fresh(a.Or(b.Text), postfix, key.Type)
	}
	return key
}

// comparison returns how to write the operator for a key and a value that are there.
func (o *operation) comparison() (func(k, v Value) (Value, error), error) {
	switch o.operator {
	case "equals", "equal":
		return o.equal, nil
	case "notequals", "notequal":
		return func(k, v Value) (Value, error) {
			result, err := o.equal(k, v)
			return unlessNull(k, inverse(result)), err
		}, nil
	case "anyin", "allin", "anynotin", "allnotin":
		return o.membership, nil
	case "in", "notin":
		return o.subset, nil
	case "greaterthan", "durationgreaterthan":
		return o.order(">"), nil
	case "greaterthanorequals", "durationgreaterthanorequals":
		return o.order(">="), nil
	case "lessthan", "durationlessthan":
		return o.order("<"), nil
	case "lessthanorequals", "durationlessthanorequals":
		return o.order("<="), nil
	}
	return nil, refuse("correct the operator", "there is no operator %s", o.operator)
}
