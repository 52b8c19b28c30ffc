package expression

import (
	"strings"

	"github.com/usher-dev/usher/internal/convert/kyverno/jmespath"
)

// each returns the name of the elements of a list, and a translation in which it is taken.
func (t *translation) each(n *jmespath.Node) (string, *translation) {
	name := t.ElementName(pathName(n))
	return name, &translation{Scope: t.Taking(name), fails: t.fails, hard: t.hard, read: t.read, steps: t.steps, looping: true, swallows: t.swallows}
}

// then applies a macro, or a call, to the list that a value is, if it is one. What has no value becomes null.
func then(v Value, steps string, item Type) Value {
	if steps == "" {
		v.absent, v.guard = nullIf(v.option != ""), ""
		return v
	}
	result := Value{Type: ListOf(item), binds: postfix, Text: v.in(postfix) + steps}
	if v.option != "" {
		result.absent, result.before, result.steps = null, v.option, steps
		if v.before != "" {
			result.before, result.steps = v.before, v.steps+steps
		}
		result.option = result.before + ".optMap(l, l" + result.steps + ")"
		result.empty = parenthesized(v.list(), v.emptyBinds(), postfix) + steps
	}
	return result
}

func (v Value) emptyBinds() power {
	if v.empty != "" && strings.Contains(v.empty, " + ") {
		return sum
	}
	return postfix
}

func nullIf(absent bool) absence {
	if absent {
		return null
	}
	return never
}

// elements returns the list that a value is for a projection.
func elements(v Value) (Value, error) {
	switch v.Type.Kind {
	case List:
		v.or = nil
		return v, nil
	case Any:
		if v.IsConstant {
			return v, nil
		}
		// What is no list has no elements.
		list := Value{Type: ListOf(Type{}), binds: postfix, absent: null}
		list.option = v.Optional() + ".optFlatMap(l, type(l) == list ? optional.of(l) : optional.none())"
		list.Text = list.option + ".value()"
		return list, nil
	default:
		return v, refuse("check the path", "the elements are read of something that is no list")
	}
}

func (t *translation) project(n *jmespath.Node, on Value) (Value, error) {
	left, err := t.node(n.Args[0], on)
	if err != nil {
		return left, err
	}
	if left, err = elements(left); err != nil {
		return left, err
	}
	return t.apply(left, n.Args[0], n.Args[1])
}

// apply evaluates a node on each element of a list.
func (t *translation) apply(list Value, of, each *jmespath.Node) (Value, error) {
	if list.isNull() {
		return list, nil
	}
	if each.Op == jmespath.Current {
		return then(list, "", list.Type.Item()), nil
	}
	name, inner := t.each(of)
	element := fresh(name, postfix, list.Type.Item())
	v, err := inner.node(each, element)
	if err != nil {
		return v, err
	}
	switch {
	case v.option == "" && v.Text == name:
		return then(list, "", v.Type), nil
	case v.option == "":
		return then(list, ".map("+name+", "+v.Text+")", v.Type), nil
	}
	return then(list, ".map("+name+", "+presence(v, name, element)+", "+v.Text+")", v.Type), nil
}

// presence returns a condition that there is a value.
func presence(v Value, name string, of Value) string {
	if field, ok := strings.CutPrefix(v.Text, name+"."); ok && identifier(field) && of.Type.Kind == Map {
		return "has(" + v.Text + ")"
	}
	return v.option + ".hasValue()"
}

func (t *translation) projectValues(n *jmespath.Node, on Value) (Value, error) {
	left, err := t.swallowed(n.Args[0], on)
	if err != nil {
		return left, err
	}
	if left.isNull() {
		return left, nil
	}
	if left.root == nil && left.Type.Kind == images {
		return t.apply(imagesOf(left), n.Args[0], n.Args[1])
	}
	if left.root != nil || left.Type.Kind != Map {
		return Value{}, refuse(writeIt, "the values of such a map, .*, are not imported")
	}
	return t.apply(then(left, ".transformList(k, v, v)", left.Type.Item()), n.Args[0], n.Args[1])
}

func (t *translation) filter(n *jmespath.Node, on Value) (Value, error) {
	left, err := t.swallowed(n.Args[0], on)
	if err != nil {
		return left, err
	}
	if left, err = elements(left); err != nil {
		return left, err
	}
	if left.isNull() {
		return left, nil
	}
	name, inner := t.each(n.Args[0])
	condition, err := inner.node(n.Args[2], fresh(name, postfix, left.Type.Item()))
	if err != nil {
		return condition, err
	}
	if condition, err = condition.truthy(); err != nil {
		return condition, err
	}
	return t.apply(then(left, ".filter("+name+", "+condition.Text+")", left.Type.Item()), n.Args[0], n.Args[1])
}

// swallowed writes a node whose errors become null, which those of CEL cannot.
func (t *translation) swallowed(n *jmespath.Node, on Value) (Value, error) {
	fails := false
	inner := *t
	inner.fails = &fails
	v, err := inner.node(n, on)
	if err == nil && fails {
		fails, inner.swallows = false, true
		v, err = inner.node(n, on)
	}
	if err == nil && fails {
		return Value{}, refuse("give what may be missing a default, such as (a || `[]`)", "a function of what may be missing makes the list, and its error would be an empty list")
	}
	return v, err
}

func (t *translation) flatten(of *jmespath.Node, on Value) (Value, error) {
	left, err := t.swallowed(of, on)
	if err != nil {
		return left, err
	}
	if left, err = elements(left); err != nil || left.isNull() {
		return left, err
	}
	if left.joined[0] != "" {
		all := fresh(left.joined[0], sum, ListOf(left.Type.Item().Item()))
		if left.option != "" {
			all.option, all.absent, all.empty = strings.Replace(left.option, left.Text, all.Text, 1), null, left.joined[1]
		}
		return all, nil
	}
	switch item := left.Type.Item(); item.Kind {
	case List:
		return then(left, ".flatten()", item.Item()), nil
	case Any:
		return then(left, ".flatten()", Type{}), nil
	default:
		return then(left, "", item), nil
	}
}

// list writes a list of expressions. It is only read to make one list of its lists, or of what is in it.
func (t *translation) list(n *jmespath.Node, on Value) (Value, error) {
	present := on
	present.option, present.absent = "", never
	v, err := t.items(n, present)
	if err != nil || on.option == "" {
		return v, err
	}
	soft, err := t.items(n, on)
	if err != nil {
		return v, err
	}
	v.absent, v.option, v.empty = on.absent, on.option+".optMap(v, "+v.Text+")", soft.Text
	v.joined[1] = soft.joined[0]
	return v, nil
}

// numbers writes a list of numbers, of which none may be null.
func numbers(t *translation, n *jmespath.Node, on Value) (Value, error) {
	items := make([]string, len(n.Args))
	for i, arg := range n.Args {
		v, err := t.node(arg, on)
		switch {
		case err != nil:
			return v, err
		case v.root != nil || !number(v.Type):
			return v, refuse(writeIt, "a list of values that may be no numbers, [a, b], is not imported here")
		}
		*t.fails = *t.fails || v.option != ""
		items[i] = "double(" + v.Text + ")"
	}
	return fresh("["+strings.Join(items, ", ")+"]", postfix, ListOf(Type{Kind: Number})), nil
}

func (t *translation) items(n *jmespath.Node, on Value) (Value, error) {
	items := make([]string, len(n.Args))
	var item Type
	for i, arg := range n.Args {
		v, err := t.node(arg, on)
		switch {
		case err != nil:
			return v, err
		case v.Type.Kind == List || v.Type.Kind == Any || v.Type.Kind == images:
			items[i] = v.list()
		case v.option != "":
			return v, refuse(writeIt, "a list of values that may be absent, [a, b], is not imported")
		default:
			items[i] = v.Text
		}
		if i == 0 {
			item = v.Type
		} else if !v.Type.same(item) {
			return v, refuse(writeIt, "a list of different kinds of values, [a, b], is not imported")
		}
	}
	v := fresh("["+strings.Join(items, ", ")+"]", postfix, ListOf(item))
	if item.Kind == List {
		v.joined[0] = strings.Join(items, " + ")
	}
	return v, nil
}
