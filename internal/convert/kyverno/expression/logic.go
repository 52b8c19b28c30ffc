package expression

import (
	"github.com/usher-dev/usher/internal/convert/kyverno/jmespath"
)

// either writes a || b: a, unless it counts as false.
func (t *translation) either(n *jmespath.Node, on Value) (Value, error) {
	a, err := t.node(n.Args[0], on)
	if err != nil {
		return a, err
	}
	if a.root != nil {
		return a, refuse("name a field of it", "the operand of || is more than a policy can read")
	}
	var b Value
	if other := n.Args[1]; other.Op == jmespath.Field && other.Text == "" && on.root != nil {
		// "" is the name of a field, which there is none of.
		b = Constant(nil)
	} else if b, err = t.node(other, on); err != nil {
		return b, err
	}
	if b.root != nil {
		return b, refuse("name a field of it", "the operand of || is more than a policy can read")
	}
	switch {
	case a.IsConstant && falsy(a.Constant):
		return b, nil
	case a.IsConstant:
		return a, nil
	}
	if a.Text == "request.operation" || a.Type.Kind == Integer && a.option == "" {
		return a, nil
	}
	v, err := orElse(a, b)
	if err != nil {
		return v, err
	}
	if b.IsConstant && a.or == nil {
		v.or = &[2]Value{a, b}
	}
	return v, nil
}

// orElse returns a || b.
func orElse(a, b Value) (Value, error) {
	if b.IsConstant && falsy(b.Constant) {
		if v, ok := orEmpty(a, b); ok {
			return v, nil
		}
	}
	switch a.Type.Kind {
	case Integer, Number:
		if a.option == "" {
			return a, nil
		}
		return alternative(a, b), nil
	case Bool:
		if b.option == "" && b.Type.Kind == Bool {
			return fresh(orWith(a, "false").in(disjunction)+" || "+b.in(conjunction), disjunction, b.Type), nil
		}
	case images, image:
		return a, refuse(writeIt, "an image as an operand of || is not imported")
	case Text, List, Map, Either, Any:
	}
	if a.option == "" {
		test, err := a.truthy()
		if err != nil {
			return test, err
		}
		return chosen(test.in(disjunction), a, b), nil
	}
	whole := a
	whole.option, whole.absent, whole.guard = a.whole(), null, ""
	if a.empty != "" {
		whole.option = "optional.ofNonZeroValue(" + a.list() + ")"
	}
	return alternative(whole, b), nil
}

// orWith is Or, as a value.
func orWith(v Value, constant string) Value { return fresh(v.Or(constant), v.optionBinds(), v.Type) }

// common is the type of what is one of two values.
func common(a, b Type) Type {
	t := a
	if !b.same(a) {
		t = Type{}
		if number(a) && number(b) {
			t = Type{Kind: Number}
		} else if textOrWhole(a) && textOrWhole(b) {
			t = Type{Kind: Either}
		}
	}
	t.Plain = a.Plain && b.Plain
	return t
}

// alternative is b in place of an absent value.
func alternative(a, b Value) Value {
	t := common(a.Type, b.Type)
	if b.isNull() {
		t = a.Type
	}
	if b.option != "" {
		v := Value{Type: t, binds: postfix, option: a.option + ".or(" + b.option + ")", absent: null}
		v.Text = v.option + ".value()"
		return v
	}
	v := fresh(a.Or(b.Text), postfix, t)
	if b.CanBeNull() {
		v.absent, v.option, v.Text = null, a.option, a.Text
	}
	return v
}

func textOrWhole(t Type) bool { return t.Kind == Text || t.Kind == Integer || t.Kind == Either }

func number(t Type) bool { return t.Kind == Integer || t.Kind == Number }

// chosen is a if the test holds, else b.
func chosen(test string, a, b Value) Value {
	t := a.Type
	if !b.Type.same(t) {
		t = Type{}
		if a.Type.Kind == Text && b.Type.Kind == Integer || a.Type.Kind == Integer && b.Type.Kind == Text {
			t = Type{Kind: Either}
		}
	}
	t.Plain = a.Type.Plain && b.Type.Plain
	right := b.in(disjunction)
	if b.Type.Kind != a.Type.Kind {
		right = "dyn(" + b.Text + ")"
	}
	v := fresh(test+" ? "+a.in(disjunction)+" : "+right, ternary, t)
	if b.option != "" {
		v.absent = null
		v.option = "(" + test + " ? " + a.Optional() + " : " + b.option + ")"
		if b.Type.Kind != a.Type.Kind {
			v.option = "(" + test + " ? optional.of(dyn(" + a.Text + ")) : " + b.option + ".optMap(v, dyn(v)))"
		}
	}
	return v
}

// orEmpty is a || b for an empty b, or false if it has no short form.
func orEmpty(a, b Value) (Value, bool) {
	switch c := b.Constant.(type) {
	case string:
		switch a.Type.Kind {
		case Text, Either:
			return fresh(a.Or("''"), postfix, a.Type), true
		case List:
			v := fresh(a.list(), a.emptyBinds(), a.Type)
			v.emptyText = true
			return v, true
		default:
		}
	case []any:
		if a.Type.Kind == List {
			return fresh(a.list(), a.emptyBinds(), a.Type), true
		}
	case map[string]any:
		if a.Type.Kind == Map {
			return fresh(a.Or("{}"), postfix, a.Type), true
		}
	case bool:
		if a.Type.Kind == Bool {
			return fresh(a.Or(literal(c)), postfix, a.Type), true
		}
	}
	return Value{}, false
}

// operands writes the two arguments of a node.
func (t *translation) operands(n *jmespath.Node, on Value) (a, b Value, err error) {
	if a, err = t.node(n.Args[0], on); err == nil {
		b, err = t.node(n.Args[1], on)
	}
	return a, b, err
}

// both writes a && b: a if it counts as false, else b.
func (t *translation) both(n *jmespath.Node, on Value) (Value, error) {
	a, b, err := t.operands(n, on)
	if err != nil {
		return Value{}, err
	}
	if a.Type.Kind != Bool {
		return a, refuse(writeIt, "&& of a value that is no condition is not imported")
	}
	a = orWith(a, "false")
	if b.Type.Kind != Bool {
		return chosenIf(a, b), nil
	}
	v := fresh(a.in(conjunction)+" && "+b.in(relation), conjunction, b.Type)
	if b.option != "" {
		v.option, v.absent = "("+a.in(disjunction)+" ? "+b.option+" : optional.of(false))", b.absent
	}
	return v, nil
}

// chosenIf is b if a holds, else false.
func chosenIf(a, b Value) Value {
	v := fresh(a.in(disjunction)+" ? "+b.in(disjunction)+" : dyn(false)", ternary, Type{})
	if b.option != "" {
		v.option, v.absent = "("+a.in(disjunction)+" ? "+b.option+" : optional.of(dyn(false)))", b.absent
		if notNull := b.NotNull(); notNull != "" {
			v.guard = "(" + a.in(disjunction) + " ? " + notNull + " : true)"
		}
	}
	return v
}

// compare writes a comparison, in which a missing key is null.
func (t *translation) compare(n *jmespath.Node, on Value) (Value, error) {
	if of := n.Args; of[0].Op == jmespath.List && of[1].Op == jmespath.List && len(of[0].Args) == len(of[1].Args) && on.option == "" && on.root == nil {
		return compareLists(t, n, on)
	}
	a, b, err := t.operands(n, on)
	if err != nil {
		return Value{}, err
	}
	if a.root != nil || b.root != nil {
		return a, refuse("name a field of it", "the operand of %s is more than a policy can read", n.Text)
	}
	truth := Type{Kind: Bool}
	if n.Text == "==" || n.Text == "!=" {
		return equals(a, b, n.Text), nil
	}
	if !number(a.Type) || !number(b.Type) {
		return a, refuse(writeIt, "%s of values that may not be numbers is not imported", n.Text)
	}
	v := fresh(a.in(sum)+" "+n.Text+" "+b.in(sum), relation, truth)
	for _, operand := range []Value{b, a} {
		if operand.option != "" {
			v = fresh(operand.option+".hasValue() && "+v.in(relation), conjunction, truth)
		}
	}
	return v, nil
}

// compareLists compares two lists of as many expressions, each with the one in its place.
func compareLists(t *translation, n *jmespath.Node, on Value) (Value, error) {
	same := make([]Value, len(n.Args[0].Args))
	for i := range same {
		var err error
		if same[i], err = t.compare(&jmespath.Node{Op: jmespath.Compare, Text: "==", Args: []*jmespath.Node{n.Args[0].Args[i], n.Args[1].Args[i]}}, on); err != nil {
			return same[i], err
		}
	}
	v := joined(same, " && ", conjunction, "false", "true")
	switch n.Text {
	case "==":
		return v, nil
	case "!=":
		return inverse(v), nil
	}
	return v, refuse(writeIt, "%s of lists is not imported", n.Text)
}

// equals compares two values by == or !=, null with null.
func equals(a, b Value, operator string) Value {
	truth := Type{Kind: Bool}
	if a.IsConstant {
		a, b = b, a
	}
	switch {
	case b.IsConstant && b.Constant == true && a.Type.Kind == Bool && operator == "==":
		return fresh(a.Or("false"), a.optionBinds(), truth)
	case b.IsConstant && b.Constant == false && a.Type.Kind == Bool && a.option == "" && operator == "==":
		return fresh("!"+a.in(unary), unary, truth)
	case a.option == "" && b.option == "":
		return fresh(a.in(sum)+" "+operator+" "+b.in(sum), relation, truth)
	case b.IsConstant:
		absent := "null"
		if zero := zeroOf(b.Constant); zero != "" {
			absent = zero
		}
		return fresh(a.Or(absent)+" "+operator+" "+b.Text, relation, truth)
	case a.Type.Kind == Any || b.Type.Kind == Any:
		return fresh(a.paren("null")+" "+operator+" "+b.paren("null"), relation, truth)
	case a.option != "" && b.option != "":
		return fresh(a.option+" "+operator+" "+b.option, relation, truth)
	}
	return fresh(a.Optional()+" "+operator+" "+b.Optional(), relation, truth)
}

func (v Value) optionBinds() power {
	if v.option == "" {
		return v.binds
	}
	return postfix
}

// zeroOf returns a value of the kind of a constant that differs from it; none if it is the usual one.
func zeroOf(of any) string {
	switch c := of.(type) {
	case string:
		if c != "" {
			return "''"
		}
	case bool:
		return literal(!c)
	}
	return ""
}
