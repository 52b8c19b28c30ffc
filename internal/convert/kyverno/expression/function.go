package expression

import (
	"fmt"
	"slices"
	"strings"

	"github.com/usher-dev/usher/internal/convert/kyverno/jmespath"
)

// call writes a call of a function.
func (t *translation) call(n *jmespath.Node, on Value) (Value, error) {
	write := functions()[n.Text]
	if write.args == 0 {
		return Value{}, refuse(writeIt, "CEL has nothing like %s()", n.Text)
	}
	if len(n.Args) != write.args && write.args > 0 {
		return Value{}, refuse("correct the expression", "%s() has %d arguments", n.Text, write.args)
	}
	args := make([]Value, len(n.Args))
	if n.Text == "merge" && on.option != "" {
		// It fails if a map is missing.
		*t.fails = true
		on.option, on.absent, on.guard = "", never, ""
	}
	if n.Text == "contains" && n.Args[0].Op == jmespath.Call {
		t.searched = n.Args[0]
	}
	for i, arg := range n.Args {
		var err error
		if args[i], err = argument(t, n.Text, arg, on); err != nil {
			return Value{}, err
		}
	}
	if n.Text == "to_array" && args[0].option != "" {
		if t.searched != n || args[0].Type.Kind != List {
			return Value{}, refuse(writeIt, "to_array() of something that may be absent is not imported")
		}
		// What is searched for is not null, so that [null] is as good as no list.
		return fresh(args[0].list(), args[0].emptyBinds(), args[0].Type), nil
	}
	if v, ok := swallowedCall(t, n, write, args); ok {
		return v, nil
	}
	v, err := write.write(t, args)
	for _, arg := range args {
		*t.fails = *t.fails || arg.option != "" && n.Text != "to_string" && n.Text != "to_number" && n.Text != "not_null"
	}
	return v, err
}

// argument writes an argument of a function.
func argument(t *translation, of string, arg *jmespath.Node, on Value) (Value, error) {
	if arg.Op == jmespath.Reference {
		return Value{}, refuse(writeIt, "%s() with an expression &x is not imported", of)
	}
	write := (*translation).node
	if arg.Op == jmespath.List && slices.Contains([]string{"max", "min", "sum"}, of) {
		write = numbers
	}
	v, err := write(t, arg, on)
	switch {
	case err != nil:
		return v, err
	case v.isNull():
		return v, refuse(writeIt, "%s() of null is an error", of)
	case v.root != nil:
		return v, refuse("name a field of it", "the argument of %s() is more than a policy can read", of)
	}
	return v, nil
}

// swallowedCall writes a call that is null if an argument has no value, where errors become null.
func swallowedCall(t *translation, n *jmespath.Node, write function, args []Value) (Value, bool) {
	at := slices.IndexFunc(args, func(v Value) bool { return v.option != "" })
	if !t.swallows || at < 0 || strings.HasPrefix(n.Text, "to_") || n.Text == "not_null" {
		return Value{}, false
	}
	present := slices.Clone(args)
	present[at] = fresh("v", postfix, args[at].Type)
	if slices.ContainsFunc(present, func(v Value) bool { return v.option != "" }) {
		return Value{}, false
	}
	soft, err := write.write(t, present)
	if err != nil || soft.option != "" {
		return Value{}, false
	}
	v := Value{Type: soft.Type, binds: postfix, absent: null, option: args[at].option + ".optMap(v, " + soft.Text + ")"}
	v.Text = v.option + ".value()"
	return v, true
}

// A function writes a call of it with its arguments; args is their number, negative if there may be any.
type function struct {
	args  int
	write func(t *translation, args []Value) (Value, error)
}

func functions() map[string]function {
	return map[string]function{
		"length":            {1, length},
		"merge":             {-1, merge},
		"contains":          {2, contains},
		"keys":              {1, keys},
		"values":            {1, values},
		"items":             {0, nil},
		"to_string":         {1, toString},
		"to_number":         {1, toNumber},
		"regex_match":       {2, regexMatch},
		"regex_replace_all": {3, regexReplace},
		"replace_all":       {3, method("replace", Text, 1, 2)},
		"label_match":       {2, labelMatch},
		"split":             {2, split},
		"join":              {2, join},
		"sum":               {1, aggregate("sum")},
		"max":               {1, aggregate("max")},
		"min":               {1, aggregate("min")},
		"sort":              {1, sorted},
		"to_upper":          {1, letters("upperAscii")},
		"to_lower":          {1, letters("lowerAscii")},
		"starts_with":       {2, method("startsWith", Bool, 1)},
		"ends_with":         {2, method("endsWith", Bool, 1)},
		"to_array":          {1, toArray},
		"not_null":          {-1, notNull},
		"divide":            {2, arithmetic("/")},
		"subtract":          {2, arithmetic("-")},
		"multiply":          {2, arithmetic("*")},
		"add":               {2, arithmetic("+")},
	}
}

func isText(v Value) bool { return v.Type.Kind == Text || v.Type.Kind == Any && !v.IsConstant }

// method writes a call of a method of the first text, with others.
func method(name string, result Kind, others ...int) func(*translation, []Value) (Value, error) {
	return func(_ *translation, args []Value) (Value, error) {
		var texts []string
		for _, i := range append([]int{0}, others...) {
			if !isText(args[i]) {
				return args[i], refuse("check the arguments", "%s of something that is no text", name)
			}
			if i > 0 {
				texts = append(texts, args[i].Text)
			}
		}
		return fresh(args[0].in(postfix)+"."+name+"("+strings.Join(texts, ", ")+")", postfix, Type{Kind: result}), nil
	}
}

func length(_ *translation, args []Value) (Value, error) {
	of := args[0]
	if of.keysOf != nil {
		of = *of.keysOf
	}
	switch of.Type.Kind {
	case Text, List, Map, Any:
		return fresh("size("+of.Text+")", postfix, Type{Kind: Integer}), nil
	default:
		return of, refuse("check the argument", "length() of something without a length")
	}
}

func contains(_ *translation, args []Value) (Value, error) {
	in, of := args[0], args[1]
	truth := Type{Kind: Bool}
	if of.option != "" {
		return of, refuse(writeIt, "contains() with something that may be absent is not imported")
	}
	switch {
	case in.keysOf != nil:
		return hasKey(*in.keysOf, of), nil
	case in.Type.Kind == Text && isText(of):
		return fresh(in.in(postfix)+".contains("+of.Text+")", postfix, truth), nil
	case in.Type.Kind == List:
		return fresh(of.in(sum)+" in "+in.in(sum), relation, truth), nil
	case in.Type.Kind == Any && of.Type.Kind == Text:
		return fresh("type("+in.Text+") == string ? "+in.in(postfix)+".contains("+of.Text+") : "+of.Text+" in "+in.in(sum), ternary, truth), nil
	}
	return in, refuse("check the arguments", "contains() of something that is no list or text")
}

// hasKey returns whether a map has a key.
func hasKey(m, key Value) Value {
	if name, ok := key.Constant.(string); ok && key.IsConstant && identifier(name) && m.Type.Kind == Map {
		return fresh("has("+m.in(postfix)+"."+name+")", postfix, Type{Kind: Bool})
	}
	return fresh(key.in(sum)+" in "+m.in(sum), relation, Type{Kind: Bool})
}

func keys(_ *translation, args []Value) (Value, error) {
	of := args[0]
	if of.Type.Kind != Map && of.Type.Kind != Any {
		return of, refuse("check the argument", "keys() of something that is no map")
	}
	if of.Type.Kind == Any {
		// What is no map has no keys: it fails.
		of = fresh("["+of.Text+"].filter(m, type(m) == map)[0]", postfix, of.Type)
	}
	v := fresh(of.in(postfix)+".map(k, k)", postfix, ListOf(Type{Kind: Text, Plain: true}))
	v.keysOf = &of
	return v, nil
}

func values(_ *translation, args []Value) (Value, error) {
	of := args[0]
	if of.Type.Kind == images && of.empty != "" {
		return imagesOf(of), nil
	}
	if of.Type.Kind != Map && of.Type.Kind != Any {
		return of, refuse("check the argument", "values() of something that is no map")
	}
	return fresh(of.in(postfix)+".transformList(k, v, v)", postfix, ListOf(of.Type.Item())), nil
}

func toString(t *translation, args []Value) (Value, error) { return t.AsText(args[0]) }

// AsText writes a value as a text, which may be absent.
func (s *Scope) AsText(of Value) (Value, error) {
	if of.option != "" && of.absent != never {
		// A value that is absent is the text null.
		inner, err := s.textOf(fresh("v", postfix, of.Type))
		if err != nil {
			return inner, err
		}
		return fresh(of.option+".optMap(v, "+inner.Text+").orValue('null')", postfix, Type{Kind: Text}), nil
	}
	return s.textOf(of)
}

// Written writes a value as a text. It is an error if there is none.
func Written(s *Scope, of Value) (Value, error) { return s.textOf(of) }

// textOf writes a value as a text: as JSON, unless it is one.
func (s *Scope) textOf(of Value) (Value, error) {
	switch of.Type.Kind {
	case Text:
		return of, nil
	case Integer, Bool, Either:
	case Map:
		text, err := inJSON(s, of)
		return fresh(text, sum, Type{Kind: Text}), err
	case Any:
		if of.IsConstant {
			return of, refuse(writeIt, "the text of null is not imported")
		}
		s.note("a list, a map or null as a text is an error, where Kyverno has JSON")
	default:
		return of, refuse(writeIt, "the text of what may be a list, a map or a fraction is not imported")
	}
	return fresh("string("+of.Text+")", postfix, Type{Kind: Text}), nil
}

func toNumber(_ *translation, args []Value) (Value, error) {
	of := args[0]
	text := "v.matches(" + decimals + ") ? optional.of(double(v)) : optional.none()"
	switch {
	case number(of.Type):
		return of, nil
	case of.IsConstant && of.Type.Kind == Text:
		return fresh("double("+of.Text+")", postfix, Type{Kind: Number}), nil
	case of.Type.Kind == Text:
	case of.Type.Kind == Either || of.Type.Kind == Any:
		text = "type(v) == string ? (" + text + ") : type(v) == int || type(v) == double ? optional.of(double(v)) : optional.none()"
	default:
		return of, refuse("check the argument", "to_number() of something that is no number or text")
	}
	v := Value{Type: Type{Kind: Number}, binds: postfix, absent: null, option: of.Optional() + ".optFlatMap(v, " + text + ")"}
	v.Text = v.option + ".value()"
	return v, nil
}

func regexMatch(_ *translation, args []Value) (Value, error) {
	pattern, of := args[0], args[1]
	if pattern.Type.Kind != Text {
		return of, refuse("write the pattern as a text", "regex_match() with a pattern that may not be a text")
	}
	switch of.Type.Kind {
	case Text:
	case Integer, Either, Any:
		of = fresh("string("+of.Text+")", postfix, Type{Kind: Text})
	default:
		return of, refuse("check the arguments", "regex_match() of something that is no text")
	}
	return fresh(of.in(postfix)+".matches("+pattern.Text+")", postfix, Type{Kind: Bool}), nil
}

// labelMatch writes whether a map has all entries of another one.
func labelMatch(_ *translation, args []Value) (Value, error) {
	a, b := args[0], args[1]
	return fresh(a.in(postfix)+".all(k, v, "+b.in(postfix)+"[?k] == optional.of(v))", postfix, Type{Kind: Bool}), nil
}

func split(t *translation, args []Value) (Value, error) {
	v, err := method("split", List, 1)(t, args)
	v.Type = ListOf(Type{Kind: Text, Plain: args[0].Type.Plain})
	return v, err
}

func join(_ *translation, args []Value) (Value, error) {
	if !isText(args[0]) || args[1].Type.Kind != List && args[1].Type.Kind != Any {
		return args[0], refuse("check the arguments", "join() of something that is no list")
	}
	if strings.Contains(args[0].Text+args[1].Text, "*") {
		return args[0], refuse("write startsWith() in CEL", "join() with wildcards, which would not be expanded, is not imported")
	}
	return fresh(args[1].in(postfix)+".join("+args[0].Text+")", postfix, Type{Kind: Text}), nil
}

func aggregate(name string) func(*translation, []Value) (Value, error) {
	return func(t *translation, args []Value) (Value, error) {
		of := args[0]
		if of.Type.Kind != List || !number(of.Type.Item()) {
			return of, refuse(writeIt, "%s() of something that may not be a list of numbers is not imported", name)
		}
		if name != "sum" && !strings.HasPrefix(of.Text, "[") {
			t.note(name + "() of an empty list fails, where Kyverno has null")
		}
		return fresh(of.in(postfix)+"."+name+"()", postfix, of.Type.Item()), nil
	}
}

func sorted(_ *translation, args []Value) (Value, error) {
	of := args[0]
	if of.Type.Kind != List || of.Type.Item().Kind != Text && !number(of.Type.Item()) {
		return of, refuse(writeIt, "sort() of something that may not be a list of texts or numbers is not imported")
	}
	return fresh(of.in(postfix)+".sort()", postfix, of.Type), nil
}

func letters(name string) func(*translation, []Value) (Value, error) {
	return func(t *translation, args []Value) (Value, error) {
		v, err := method(name, Text)(t, args)
		v.Type.Plain = args[0].Type.Plain
		if !args[0].Type.Plain {
			t.note(name + "() changes the letters a to z alone")
		}
		return v, err
	}
}

func toArray(_ *translation, args []Value) (Value, error) {
	switch of := args[0]; of.Type.Kind {
	case List:
		return of, nil
	case Any:
		return of, refuse(writeIt, "to_array() of something that may be a list is not imported")
	default:
		return fresh("["+of.Text+"]", postfix, ListOf(of.Type)), nil
	}
}

func notNull(_ *translation, args []Value) (Value, error) {
	if len(args) == 0 {
		return Value{}, refuse("correct the expression", "not_null() has no arguments")
	}
	v := args[len(args)-1]
	for i := len(args) - 2; i >= 0; i-- {
		if args[i].option == "" {
			v = args[i]
			continue
		}
		v = alternative(args[i], v)
	}
	return v, nil
}

func arithmetic(operator string) func(*translation, []Value) (Value, error) {
	return func(t *translation, args []Value) (Value, error) {
		a, b := args[0], args[1]
		if operator == "/" && textOrWhole(a.Type) && textOrWhole(b.Type) && !number(a.Type) && !number(b.Type) {
			t.note("texts that are divided are quantities: a duration is an error")
			amount := func(of Value) string {
				if of.Type.Kind == Text {
					return "quantity(" + of.Text + ")"
				}
				return "quantity(string(" + of.Text + "))"
			}
			by := "[" + amount(b) + "].filter(q, q.compareTo(quantity('0')) != 0)[0]"
			return fresh(amount(a)+".asApproximateFloat() / "+by+".asApproximateFloat()", product, Type{Kind: Number}), nil
		}
		if !number(a.Type) || !number(b.Type) {
			return a, refuse(writeIt, "%s of values that may be quantities or durations is not imported", operator)
		}
		binds := sum
		if operator == "*" || operator == "/" {
			binds = product
		}
		return fresh(fmt.Sprintf("double(%s) %s double(%s)", a.Text, operator, b.Text), binds, Type{Kind: Number}), nil
	}
}
