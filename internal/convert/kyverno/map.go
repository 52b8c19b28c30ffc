package kyverno

import (
	"slices"
	"strings"

	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
	"github.com/usher-dev/usher/internal/kind"
)

// ofMap returns what a map says about a value.
//
// If a condition does not hold, the pattern is not for the value, whatever its other keys say. Then anchors are
// asked: if all of them say that they are not for the value, neither is the pattern. Then the other keys, in
// order, and the first that does not pass decides.
func (w *patterns) ofMap(p *syntax.Pattern, at string, of shape) (answer, error) {
	isMap := yes
	if !of.isMap() {
		isMap = compare("type("+at+")", "==", "map")
	}
	condition, anchors, skipped := yes, yes, yes
	conditions, asked := false, false
	var rest []syntax.Key
	for _, key := range p.Keys {
		if key.Anchor == syntax.NoAnchor || key.Anchor == syntax.AddIfAbsent {
			rest = append(rest, key)
			continue
		}
		a, err := w.ofKey(p, key, at, of)
		if err != nil {
			return answer{}, err
		}
		switch key.Anchor {
		case syntax.Conditional, syntax.Global:
			condition, conditions = all(condition, a.passes()), true
		default:
			anchors, skipped, asked = all(anchors, a.ok), all(skipped, a.skips), true
		}
	}
	if conditions || !asked {
		skipped = no
	}
	others, err := w.inOrder(p, rest, at, of)
	if err != nil {
		return answer{}, err
	}
	a := answer{
		ok:    all(isMap, some(not(condition), all(anchors, some(skipped, others.ok)))),
		skips: all(isMap, some(not(condition), all(anchors, some(skipped, others.skips)))),
	}
	return a, w.short(p, a)
}

// inOrder returns what keys without an anchor say: those with anchors below them first, from the last to the first.
func (w *patterns) inOrder(p *syntax.Pattern, keys []syntax.Key, at string, of shape) (answer, error) {
	var ordered, plain []syntax.Key
	for _, key := range keys {
		if anchorsBelow(key.Value) {
			ordered = append(ordered, key)
		} else {
			plain = append(plain, key)
		}
	}
	slices.Reverse(ordered)
	ordered = append(ordered, plain...)
	result := answer{yes, no}
	for _, key := range slices.Backward(ordered) {
		a, err := w.ofKey(p, key, at, of)
		if err != nil {
			return answer{}, err
		}
		result = answer{ok: all(a.ok, some(a.skips, result.ok)), skips: some(a.skips, all(a.ok, result.skips))}
	}
	return result, nil
}

// anchorsBelow reports whether there are anchors in a pattern.
func anchorsBelow(p *syntax.Pattern) bool {
	return slices.ContainsFunc(p.Items, anchorsBelow) || slices.ContainsFunc(p.Keys, func(k syntax.Key) bool {
		return k.Anchor != syntax.NoAnchor && k.Anchor != syntax.AddIfAbsent || anchorsBelow(k.Value)
	})
}

// ofKey returns what a key says about a map.
func (w *patterns) ofKey(p *syntax.Pattern, key syntax.Key, at string, of shape) (answer, error) {
	if strings.Contains(key.Text, "{{") || strings.Contains(key.Text, "$(") {
		return answer{}, refuse(key.Value.Field, "its key has a variable", "write it as a validation")
	}
	if key.Anchor == syntax.NoAnchor || key.Anchor == syntax.AddIfAbsent {
		// The anchor that adds means nothing here.
		key.Name = key.Text
	}
	if a, ok, err := w.metadata(p, key, at, of); ok || err != nil {
		return a, err
	}
	next, always := of.field(key.Name)
	present, value := has(at, key.Name), member(at, key.Name)
	if always {
		present = yes
	}
	switch key.Anchor {
	case syntax.Negation:
		return answer{not(present), no}, nil
	case syntax.Existence:
		return w.exists(key, present, value, next)
	case syntax.Conditional, syntax.Global, syntax.Equality:
		a, err := w.answer(key.Value, value, next)
		if err != nil {
			return answer{}, err
		}
		if key.Anchor == syntax.Conditional {
			return answer{all(present, a.ok), all(present, a.skips)}, nil
		}
		return answer{some(not(present), a.ok), all(present, a.skips)}, nil
	default:
	}
	if key.Value.Sort == syntax.Scalar {
		ok, err := w.member(key, at, of, present, value, next)
		return answer{ok, no}, err
	}
	if t, ok := chain(key, at, of); ok {
		return answer{t, no}, nil
	}
	a, err := w.answer(key.Value, value, next)
	return answer{all(present, a.ok), all(present, a.skips)}, err
}

// exists returns what the anchor says that one element of a list has to fit, for each of some patterns.
func (w *patterns) exists(key syntax.Key, present term, value string, of shape) (answer, error) {
	if key.Value.Sort != syntax.List {
		return answer{not(present), no}, nil
	}
	fits := yes
	if of.sort() != kind.List {
		fits = compare("type("+value+")", "==", "list")
	}
	for _, item := range key.Value.Items {
		if item.Sort != syntax.Map {
			fits = no
			break
		}
		name := w.variable(value)
		a, err := w.answer(item, name, of.element())
		w.taken = w.taken[:len(w.taken)-1]
		if err != nil {
			return answer{}, err
		}
		fits = all(fits, call(value+".exists("+name+", "+a.passes().text+")"))
	}
	return answer{some(not(present), fits), no}, nil
}

// member returns what a scalar says about a key that may be absent.
func (w *patterns) member(key syntax.Key, at string, of shape, present term, value string, next shape) (term, error) {
	if key.Value.Scalar == "*" {
		if next.sort() == kind.Anything {
			return all(present, compare(value, "!=", "null")), nil
		}
		return present, nil
	}
	if t, ok := chain(key, at, of); ok {
		return t, nil
	}
	t, err := w.ofScalar(key.Value, value, next)
	if err != nil {
		return no, err
	}
	if leafOf(key.Value.Scalar).absent() {
		return some(not(present), t), nil
	}
	return all(present, t), nil
}

// chain returns what a key says whose pattern is one scalar, or maps of one key each around it: the value that a
// path of optional fields selects, or one that does not fit.
func chain(key syntax.Key, at string, of shape) (term, bool) {
	path := []string{at}
	p := key.Value
	for {
		next, _ := of.field(key.Name)
		path = append(path, optional(key.Name))
		of = next
		if p.Sort == syntax.Scalar {
			break
		}
		if p.Sort != syntax.Map || len(p.Keys) != 1 || p.Keys[0].Anchor != syntax.NoAnchor || !of.isMap() || key.Name == "metadata" {
			return no, false
		}
		key, p = p.Keys[0], p.Keys[0].Value
		if strings.ContainsAny(key.Text, "{$*?") || key.Name == "metadata" {
			return no, false
		}
	}
	if literal(p) != nil {
		return no, false
	}
	l := leafOf(p.Scalar)
	if p.Scalar == "*" && of.sort() != kind.Anything {
		return call(strings.Join(path, "") + ".hasValue()"), true
	}
	if l.absent() {
		return no, false
	}
	const hole = "\x00"
	t, err := l.fits(hole, of.sort())
	if err != nil || strings.Count(t.text, hole) != 1 {
		// An error is found again, with its place.
		return no, false
	}
	unfit := l.unfit(of.sort())
	if unfit == "" {
		return no, false
	}
	value := strings.Join(path, "") + ".orValue(" + unfit + ")"
	return term{text: strings.Replace(t.text, hole, value, 1), binds: t.binds}, true
}

// unfit returns a value of a type that does not fit; empty if none is known.
func (l leaf) unfit(of kind.Type) string {
	switch of {
	case kind.Text:
		if l.text != "" && !l.takes("") {
			return "''"
		}
	case kind.Bool:
		if v, ok := l.value.(bool); ok {
			return map[bool]string{true: "false", false: "true"}[v]
		}
	case kind.Integer:
		if v, ok := l.value.(int64); ok && v != 0 {
			return "0"
		}
	default:
	}
	return ""
}

// takes reports whether a text fits of a leaf that compares texts alone.
func (l leaf) takes(text string) bool {
	for _, conditions := range l.alternatives {
		fits := true
		for _, c := range conditions {
			is, ok := c.wild(text)
			if !ok || c.duration != nil || c.quantity != nil {
				return true
			}
			fits = fits && is
		}
		if fits {
			return true
		}
	}
	return false
}

func optional(key string) string {
	if simple.MatchString(key) {
		return ".?" + key
	}
	return "[?" + convert.Quote(key) + "]"
}
