package cue

import (
	"math"
	"slices"
	"strconv"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/literal"
	"cuelang.org/go/cue/token"
)

// An extent is how large a value may be, whichever value it is. Struct literals, lists
// and input are looked into only when somebody selects in them.
type extent struct {
	// text is how many bytes it may have as a text or bytes, number how large it may be
	// as a number; -1 if it is none. least is how small a number, other than 0.
	text, number, least float64
	// exact says that it is a number, and that signed is which.
	exact  bool
	signed float64
	// members is how many members it has as a list, those of trees and alts aside.
	members float64
	// cost is what it takes to compute it, its members and fields aside.
	cost float64
	// ways is how many alternatives it may have at once, if they are not scalars.
	ways float64

	lits  []literalIn
	parts []part
	trees []any
	// any says that it is a part of some input of these sizes, and so are its members.
	any *inputSize
	// alts are values that it may be instead; each says that all of them are evaluated.
	alts []*extent
	each bool

	fields    map[string]*extent
	anyMember *extent
	total     float64
	state     sumState
}

// A literalIn is a struct literal, or file, where it stands.
type literalIn struct {
	node ast.Node
	in   *scope
}

// A part is one or more members of a list.
type part struct {
	value *extent
	times float64
}

// An inputSize bounds an input that is not known yet.
type inputSize struct {
	values, bytes, number float64
}

type sumState int

const (
	notSummed sumState = iota
	summing
	summed
)

// manyParts is how many different members of a list are told apart.
const manyParts = 64

// nothing returns the extent of what is no value yet, such as a type.
func nothing() *extent { return &extent{text: -1, number: -1, least: math.Inf(1)} }

// inputExtent returns the extent of any input of this size.
func inputExtent(size inputSize) *extent {
	return &extent{text: size.bytes, number: size.number, least: 1e-300, any: &size}
}

// treeExtent returns the extent of a JSON tree.
func treeExtent(tree any) *extent {
	v := nothing()
	v.trees = []any{tree}
	switch t := tree.(type) {
	case string:
		v.text = float64(len(t))
	case int64:
		return exactly(v, float64(t))
	case float64:
		return exactly(v, t)
	}
	return v
}

func literalExtent(x *ast.BasicLit) *extent {
	v := nothing()
	switch x.Kind {
	case token.STRING:
		v.text = float64(len(x.Value))
	case token.INT, token.FLOAT:
		return exactly(v, magnitude(x.Value))
	}
	return v
}

// exactly makes v a number.
func exactly(v *extent, n float64) *extent {
	v.exact, v.signed, v.number = true, n, math.Abs(n)
	if v.number > 0 {
		v.least = v.number
	}
	return v
}

// magnitude returns a number as it is written, +Inf if it is very large.
func magnitude(text string) float64 {
	var info literal.NumInfo
	if err := literal.ParseNum(text, &info); err != nil {
		return math.Inf(1)
	}
	n, err := strconv.ParseFloat(info.String(), 64)
	if err != nil && !math.IsInf(n, 0) {
		return math.Inf(1)
	}
	return math.Abs(n)
}

// isScalar reports whether it surely has no members or fields.
func (v *extent) isScalar() bool {
	if len(v.lits)+len(v.parts) > 0 || v.any != nil {
		return false
	}
	for _, tree := range v.trees {
		switch tree.(type) {
		case map[string]any, []any:
			return false
		}
	}
	return !slices.ContainsFunc(v.alts, func(a *extent) bool { return !a.isScalar() })
}

// isList reports whether it may be a list.
func (v *extent) isList() bool {
	if v.any != nil || v.members > 0 || len(v.parts) > 0 {
		return true
	}
	for _, tree := range v.trees {
		if _, ok := tree.([]any); ok {
			return true
		}
	}
	return slices.ContainsFunc(v.alts, (*extent).isList)
}

// hasLits reports whether there are struct literals in it that unification may change.
func (v *extent) hasLits() bool {
	return len(v.lits) > 0 || slices.ContainsFunc(v.alts, (*extent).hasLits)
}

// written is how many bytes it may become in a text.
func (v *extent) written() float64 {
	n := max(v.text, 5)
	if v.number >= 0 {
		n = max(n, digits(v.number)+40)
	}
	return n
}

// digits is how many digits a number of this size has; those of the largest are
// bounded by what makes them.
func digits(number float64) float64 {
	if math.IsInf(number, 1) {
		return longestShift
	}
	return math.Log10(number + 1)
}

// settle makes v as large as the largest of its alternatives.
func (v *extent) settle() {
	for _, a := range v.alts {
		v.text = max(v.text, a.text)
		v.number = max(v.number, a.number)
		v.least = min(v.least, a.least)
		if v.each {
			v.ways += max(a.ways, 1)
		} else {
			v.ways = max(v.ways, a.ways)
		}
	}
	if v.ways <= 1 || v.isScalar() {
		v.ways = 0
	}
}

// join unifies v with other: each of the two may add to the other.
func (v *extent) join(other *extent) {
	switch {
	case other.number < 0:
	case v.number < 0:
		v.exact, v.signed = other.exact, other.signed
	default:
		v.exact = v.exact && other.exact && v.signed == other.signed
	}
	v.text = max(v.text, other.text)
	v.number = max(v.number, other.number)
	v.least = min(v.least, other.least)
	v.cost += other.cost
	v.members += other.members
	v.parts = append(v.parts, other.parts...)
	v.trees = append(v.trees, other.trees...)
	if other.any != nil {
		v.any = other.any
	}
	if other.ways > 1 {
		v.ways = max(v.ways, 1) * other.ways
	}
	for _, lit := range other.lits {
		if !slices.Contains(v.lits, lit) {
			v.lits = append(v.lits, lit)
		}
	}
	if len(v.alts) == 0 && !slices.ContainsFunc(other.alts, (*extent).hasLits) {
		// What refers to nothing cannot come to refer to something else by unification.
		v.alts, v.each = other.alts, other.each
		return
	}
	for _, a := range other.alts {
		ways := v.ways
		v.join(a)
		v.ways = ways
	}
}

// sum and product are those of numbers that are there.
func sum(x, y float64) float64 {
	if x < 0 || y < 0 {
		return max(x, y)
	}
	return x + y
}

func product(x, y float64) float64 {
	if x < 0 || y < 0 {
		return max(x, y)
	}
	return times(x, y)
}

// times is x * y, or -1 if one of them is not there.
func times(x, y float64) float64 {
	switch {
	case x < 0 || y < 0:
		return -1
	case x == 0 || y == 0:
		return 0
	}
	return x * y
}
