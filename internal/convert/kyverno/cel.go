package kyverno

import "strings"

// A binding is how tightly the outermost operator of an expression binds.
type binding int

const (
	choice binding = iota
	either
	both
	relation
	primary
)

// A term is an expression of type bool.
type term struct {
	text  string
	binds binding
	// left, operator and right are those of a comparison.
	left, operator, right string
}

var (
	yes = call("true")
	no  = call("false")
)

// within returns the text of a term as an operand of an operator.
func (t term) within(b binding) string {
	if t.binds < b {
		return "(" + t.text + ")"
	}
	return t.text
}

// not returns the opposite of a term.
func not(t term) term {
	switch {
	case t == yes:
		return no
	case t == no:
		return yes
	case t.operator == "==":
		return compare(t.left, "!=", t.right)
	case t.operator == "!=":
		return compare(t.left, "==", t.right)
	case t.binds == primary && strings.HasPrefix(t.text, "!"):
		return call(t.text[1:])
	}
	return call("!" + t.within(primary))
}

// all returns what holds if all terms do.
func all(terms ...term) term { return joined(terms, " && ", both, yes, no) }

// some returns what holds if one of the terms does.
func some(terms ...term) term { return joined(terms, " || ", either, no, yes) }

func joined(terms []term, operator string, b binding, neutral, decisive term) term {
	var texts []string
	var last term
	seen := map[string]bool{}
	for _, t := range terms {
		switch {
		case t == decisive:
			return decisive
		case t == neutral || seen[t.text]:
			continue
		}
		seen[t.text] = true
		last = t
		texts = append(texts, t.within(b))
	}
	switch len(texts) {
	case 0:
		return neutral
	case 1:
		return last
	}
	return term{text: strings.Join(texts, operator), binds: b}
}

// when returns a term that is one of two, by a condition.
func when(condition, then, otherwise term) term {
	switch {
	case condition == yes || then == otherwise:
		return then
	case condition == no:
		return otherwise
	case otherwise == no:
		return all(condition, then)
	case then == yes:
		return some(condition, otherwise)
	case otherwise == yes:
		return some(not(condition), then)
	}
	return term{text: condition.within(either) + " ? " + then.within(either) + " : " + otherwise.within(either), binds: choice}
}

// compare returns a comparison.
func compare(left, operator, right string) term {
	return term{text: left + " " + operator + " " + right, binds: relation, left: left, operator: operator, right: right}
}

// call returns a term that is a call, a selection or a name.
func call(text string) term { return term{text: text, binds: primary} }
