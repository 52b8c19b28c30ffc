package expression

import "github.com/usher-dev/usher/internal/convert/kyverno/jmespath"

// quoted writes a variable in quotes of any sort.
func (t *translation) quoted(n *jmespath.Node, on Value) (Value, error) {
	if n.Op == jmespath.Key {
		return t.key(n, on)
	}
	if n.Op == jmespath.Outer {
		return t.outer(n)
	}
	return t.text(n)
}

// text writes a variable in quotes, which is read where the expression is evaluated.
func (t *translation) text(n *jmespath.Node) (Value, error) {
	v, err := t.node(n.Args[0], t.top())
	if err != nil {
		return v, err
	}
	if v.root != nil || v.CanBeNull() {
		return v, refuse(writeIt, "a variable in quotes that may be null is not imported")
	}
	t.unread(v)
	*t.hard = *t.hard || v.CanFail()
	return t.textOf(v)
}

// outer writes a variable in backquotes, which is read where the expression is evaluated.
func (t *translation) outer(n *jmespath.Node) (Value, error) {
	v, err := t.node(n.Args[0], t.top())
	if err != nil {
		return v, err
	}
	if v.root != nil || v.CanBeNull() || v.Type.Kind == Text || v.Type.Kind == Any {
		return v, refuse(writeIt, "a variable in backquotes that may be a text or null is not imported")
	}
	t.unread(v)
	*t.hard = *t.hard || v.CanFail()
	return fresh(v.Text, v.binds, v.Type), nil
}

// unread notes that a variable in quotes is not read for a list without elements, as Kyverno reads it.
func (t *translation) unread(v Value) {
	if t.looping && v.CanFail() {
		t.note("if " + v.Text + " is absent, Kyverno has an error, and the policy has one if there is something to compare it with")
	}
}

// key selects a key of a map that is read.
func (t *translation) key(n *jmespath.Node, on Value) (Value, error) {
	key, err := t.node(&jmespath.Node{Op: jmespath.Text, Args: n.Args}, on)
	if err != nil {
		return key, err
	}
	if on.root != nil || on.Type.Kind != Map && on.Type.Kind != Any || on.Type.part == object {
		return key, refuse(writeIt, "a key of such a map that is a variable is not imported")
	}
	v := Value{Type: on.Type.Item(), binds: postfix, Text: on.in(postfix) + "[" + key.Text + "]", absent: missing}
	v.option = on.in(postfix) + "[?" + key.Text + "]"
	if on.option != "" {
		v.option, v.absent, v.guard = on.option+"[?"+key.Text+"]", on.absent, on.guard
		if on.absent == null {
			v.absent, v.guard = mixed, on.NotNull()
		}
	}
	return v, nil
}
