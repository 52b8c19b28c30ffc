package cue

import (
	"math"

	"cuelang.org/go/cue/ast"
)

// count returns how many members or fields v may have.
func (e *estimate) count(v *extent) float64 {
	n := v.members
	e.walk(v, &extent{}, func(_ *ast.Field, _ string, _ *scope, times float64) { n += times })
	for _, tree := range v.trees {
		switch t := tree.(type) {
		case map[string]any:
			n += float64(len(t))
		case []any:
			n += float64(len(t))
		}
	}
	if v.any != nil {
		n += v.any.values
	}
	most := 0.0
	for _, a := range v.alts {
		most = max(most, e.count(a))
	}
	return n + most
}

// total returns what it takes to evaluate v with everything in it, in bytes.
func (e *estimate) total(v *extent) float64 {
	if v.state == summed {
		return v.total
	}
	if v.state == summing || e.excess != nil || e.depth >= deepestEstimate {
		return 0
	}
	v.state = summing
	e.depth++
	defer func() { e.depth-- }()
	total := perValue + v.cost + max(v.text, 0) + digits(max(v.number, 0))
	own := &extent{}
	seen := map[string]bool{}
	e.walk(v, own, func(field *ast.Field, name string, in *scope, times float64) {
		switch {
		case name == "":
			total += times * (1 + e.label(field, in) + e.total(e.fieldValue(field, in)))
		case !seen[name] || times > 1:
			seen[name] = true
			total += times * (1 + float64(len(name)) + e.total(e.field(v, name)))
		}
	})
	total += own.cost
	for _, p := range v.parts {
		total += p.times * e.total(p.value)
	}
	for _, tree := range v.trees {
		total += e.weight(tree)
	}
	if v.any != nil {
		total += perValue*v.any.values + v.any.bytes
	}
	most := 0.0
	for _, a := range v.alts {
		if v.each {
			most += e.total(a)
		} else {
			most = max(most, e.total(a))
		}
	}
	total += most
	if v.ways > 1 && !v.each {
		total *= v.ways
	}
	if math.IsNaN(total) {
		total = math.Inf(1)
	}
	v.total, v.state = total, summed
	return total
}

// label returns what it takes to evaluate the label of a field that is computed.
func (e *estimate) label(field *ast.Field, in *scope) float64 {
	switch x := labelOf(field).(type) {
	case *ast.ListLit:
		if len(x.Elts) == 1 {
			return e.total(e.eval(x.Elts[0], in))
		}
	case ast.Expr:
		return e.total(e.eval(x, in))
	}
	return 0
}

// weight returns what a tree counts for.
func (e *estimate) weight(tree any) float64 {
	e.steps--
	total := float64(perValue)
	switch t := tree.(type) {
	case string:
		total += float64(len(t))
	case map[string]any:
		for name, child := range t {
			total += float64(len(name)) + e.weight(child)
		}
	case []any:
		for _, child := range t {
			total += e.weight(child)
		}
	}
	return total
}
