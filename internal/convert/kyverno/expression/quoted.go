package expression

import (
	"slices"
	"strconv"

	"github.com/usher-dev/usher/internal/convert/kyverno/jmespath"
)

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
	if v.root != nil || v.isNull() {
		return v, refuse(writeIt, "a variable in quotes that is null is not imported")
	}
	*t.hard = *t.hard || v.CanFail()
	if v.CanBeNull() {
		v, err = textOrNull(t.Scope, v)
		return t.before(v), err
	}
	return t.textOf(t.before(v))
}

// textOrNull writes a value in quotes that may be null, which is the text null.
func textOrNull(s *Scope, v Value) (Value, error) {
	fails := v.CanFail()
	if v.guard == "" {
		text, err := s.AsText(v)
		text.fails = fails
		return text, err
	}
	present := fresh(v.Text, v.binds, v.Type)
	text, err := s.textOf(present)
	text = fresh(v.guard+" ? "+text.in(disjunction)+" : 'null'", ternary, Type{Kind: Text})
	text.fails = fails
	return text, err
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
	*t.hard = *t.hard || v.CanFail()
	return t.before(Value{Text: v.Text, binds: v.binds, Type: v.Type, fails: v.CanFail()}), nil
}

// before returns a variable in quotes in a loop as one that is read before the loop, if that may fail: as in Kyverno,
// it fails for a list without elements, too.
func (t *translation) before(v Value) Value {
	if !t.looping || !v.CanFail() {
		return v
	}
	at := slices.Index(*t.read, v.Text)
	if at < 0 {
		at = len(*t.read)
		*t.read = append(*t.read, v.Text)
	}
	name := "given"
	if at > 0 {
		name += strconv.Itoa(at + 1)
	}
	return fresh(name, postfix, v.Type)
}

// after returns a value that fails if something fails that is read before.
func (v Value) after(read []string) Value {
	for i, of := range slices.Backward(read) {
		name := "given"
		if i > 0 {
			name += strconv.Itoa(i + 1)
		}
		wrap := func(text string) string {
			if text == "" {
				return ""
			}
			return "[" + of + "].map(" + name + ", " + text + ")[0]"
		}
		v.Text, v.option, v.empty, v.guard, v.binds = wrap(v.Text), wrap(v.option), wrap(v.empty), wrap(v.guard), postfix
		v.before, v.or, v.keysOf, v.joined, v.IsConstant = "", nil, nil, [2]string{}, false
	}
	return v
}

// key selects a key of a map that is read.
func (t *translation) key(n *jmespath.Node, on Value) (Value, error) {
	key, err := t.node(&jmespath.Node{Op: jmespath.Text, Args: n.Args}, on)
	if err != nil {
		return key, err
	}
	if on.root == nil && on.Type.Kind == images {
		return imageNamed(on, key.Text), nil
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
