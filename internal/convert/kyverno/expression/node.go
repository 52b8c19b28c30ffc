package expression

import (
	"strings"

	"github.com/usher-dev/usher/internal/convert/kyverno/jmespath"
)

// A translation writes one expression. Its scope also has the names of elements that are taken.
type translation struct {
	*Scope

	// fails says that a call in it may fail.
	fails *bool
	// searched is a call that contains() is about.
	searched *jmespath.Node
	// looping says that it is evaluated on each element of a list.
	looping bool
	// hard is set by what fails even where errors become null: variables in quotes, which are read before.
	hard *bool
	// read is what variables in quotes in loops are, which is read before.
	read *[]string
	// steps are how many nodes have been written: some are written more than once.
	steps *int
	// swallows says that errors become null.
	swallows bool
}

// longest is how long an expression may get: operands of || are written more than once.
const longest = 20_000

// mostSteps is how many nodes of an expression are written.
const mostSteps = 10_000

// node writes a node that is evaluated on a value.
func (t *translation) node(n *jmespath.Node, on Value) (Value, error) {
	if *t.steps++; *t.steps > mostSteps {
		return Value{}, refuse("write it as variables of a policy", "the expression has too many calls in one another")
	}
	v, err := t.write(n, on)
	if err == nil && len(v.Text)+len(v.option)+len(v.empty)+len(v.guard) > longest {
		return v, refuse("write it as variables of a policy", "the expression would be too long")
	}
	return v, err
}

// write writes a node of any length.
func (t *translation) write(n *jmespath.Node, on Value) (Value, error) {
	switch n.Op {
	case jmespath.Current:
		return on, nil
	case jmespath.Field:
		return t.field(n.Text, on)
	case jmespath.Literal:
		return Constant(n.Value), nil
	case jmespath.Sub, jmespath.Pipe:
		return t.sub(n, on)
	case jmespath.Index:
		index, _ := n.Value.(int)
		return t.index(index, on)
	case jmespath.Slice:
		return Value{}, refuse(writeIt, "slices of lists, such as [1:2], are not imported")
	case jmespath.Project:
		return t.project(n, on)
	case jmespath.ProjectValues:
		return t.projectValues(n, on)
	case jmespath.Filter:
		return t.filter(n, on)
	case jmespath.Flatten:
		return t.flatten(n.Args[0], on)
	case jmespath.Or:
		return t.either(n, on)
	case jmespath.And:
		return t.both(n, on)
	case jmespath.Not:
		return t.not(n, on)
	case jmespath.Compare:
		return t.compare(n, on)
	case jmespath.Call:
		return t.call(n, on)
	case jmespath.List:
		return t.list(n, on)
	case jmespath.Text, jmespath.Key, jmespath.Outer:
		return t.quoted(n, on)
	case jmespath.Map:
		return mapOfExpressions(t, n, on)
	case jmespath.Reference:
	}
	return Value{}, refuse(writeIt, "an expression as a value, &a, is not imported")
}

func negated(v Value) (Value, error) {
	v, err := v.truthy()
	if err != nil {
		return v, err
	}
	return fresh("!"+v.in(unary), unary, Type{Kind: Bool}), nil
}

func (t *translation) field(name string, on Value) (Value, error) {
	if on.root != nil {
		path := name
		if on.Text != "@" {
			path = on.Text + "." + name
		}
		return on.root.known(path)
	}
	switch {
	case on.isNull():
		return on, nil
	case on.items != nil && name == "items":
		return *on.items, nil
	}
	switch on.Type.Kind {
	case Map, Any:
		return on.field(name), nil
	case images:
		return imageNamed(on, quote(name)), nil
	case image:
		return imagePart(on, name)
	default:
		return Value{}, refuse("check the path", "%s is read of something that has no fields", name)
	}
}

func (t *translation) not(n *jmespath.Node, on Value) (Value, error) {
	v, err := t.node(n.Args[0], on)
	if err != nil {
		return v, err
	}
	return negated(v)
}

// sub writes what comes after a dot, a bracket or |.
func (t *translation) sub(n *jmespath.Node, on Value) (Value, error) {
	if v, written, err := fieldOfYAML(t, n, on); written {
		return v, err
	}
	left, err := t.node(n.Args[0], on)
	if err != nil {
		return left, err
	}
	if n.Op == jmespath.Pipe {
		switch left.absent {
		case missing, mixed:
			left.absent, left.guard = null, ""
		case never, null:
		}
	} else if n.Args[1].Op == jmespath.Call && left.option != "" && left.absent == missing {
		return callOn(t, n.Args[1], left)
	}
	return t.node(n.Args[1], left)
}

// callOn writes a call on something that may be missing: then so is the result.
func callOn(t *translation, n *jmespath.Node, left Value) (Value, error) {
	present := left
	present.option, present.absent, present.guard = "", never, ""
	v, err := t.node(n, present)
	if err != nil || v.option != "" {
		return v, err
	}
	soft, err := t.node(n, fresh("v", postfix, left.Type))
	if err != nil {
		return v, err
	}
	v.option, v.absent = left.option+".optMap(v, "+soft.Text+")", missing
	return v, nil
}

func (t *translation) index(index int, on Value) (Value, error) {
	if on.isNull() {
		return on, nil
	}
	if on.Type.Kind != List && on.Type.Kind != Any {
		return Value{}, refuse("check the path", "an element is read of something that is no list")
	}
	at := literal(int64(index))
	if index < 0 {
		if on.option != "" || strings.ContainsAny(on.Text, "()") {
			return Value{}, refuse(writeIt, "elements that are counted from the end of such a list are not imported")
		}
		at = "size(" + on.Text + ") - " + literal(int64(-index))
	}
	element := Value{Type: on.Type.Item(), binds: postfix, Text: on.in(postfix) + "[" + at + "]", absent: null}
	element.option = on.in(postfix) + "[?" + at + "]"
	if on.option != "" {
		if on.absent != null || on.guard != "" {
			element.absent, element.guard = mixed, element.option+".hasValue()"
			if on.guard != "" {
				element.guard = on.guard + " && " + element.guard
			}
		}
		element.option = on.option + "[?" + at + "]"
	}
	return element, nil
}
