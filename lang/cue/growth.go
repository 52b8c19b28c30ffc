package cue

import (
	"fmt"
	"math"

	"cuelang.org/go/cue/ast"

	"github.com/usher-dev/usher/lang/cue/internal/syntax"
)

// An estimate bounds from above what evaluating a source makes, without evaluating it: the
// evaluator can be neither stopped nor held to an amount of memory.
//
// It follows the source the way an evaluation does, with sizes in place of values, and
// takes all conditions for true.
type estimate struct {
	bounds bounds
	// steps counts down to where the estimate itself takes too long, depth how deep it is.
	steps, depth int
	// excess is the first expression that may become too large, nil if there is none.
	excess *excess
	shapes syntax.Shapes
	// indices are those of the literals that have been looked into.
	indices map[ast.Node]*index
}

// Bounds are the sizes above which an estimate is an excess.
type bounds struct {
	// total is for all that is made, in bytes; a value counts for perValue, and a round of
	// a loop for one.
	total float64
	// text is for one text, in bytes.
	text float64
}

const (
	// longestMade is how many members a list may have that a source makes; the evaluator
	// takes 20 s over the nested loops that make 100,000.
	longestMade = 100_000
	// perValue is what a value counts for; the evaluator takes 500 to 1,000 bytes.
	perValue = 64
	// longestShift is how many bits a number may be shifted by.
	longestShift = 64 << 10
	// deepestEstimate is how deep estimates go before they take a source for recursive.
	deepestEstimate = 3000
	// mostSteps is how many expressions an estimate looks at, and values of the input.
	mostSteps = 300_000
)

var (
	// constantBounds are for what a source makes of nothing.
	constantBounds = bounds{total: 10e6, text: 10e6}
	// inputBounds are for what it makes of one input.
	inputBounds = bounds{total: 64 << 20, text: 64 << 20}
)

// An excess is what may become too large; node is nil if it is all of the source.
type excess struct {
	node ast.Node
	what string
}

// growthOf returns the first thing in file that may become too large when the evaluator
// gets input, nil if there is none.
func growthOf(file *ast.File, input *extent, b bounds) *excess {
	e := &estimate{bounds: b, steps: mostSteps, shapes: syntax.Shapes{}, indices: map[ast.Node]*index{}}
	root := &extent{}
	root.lits = []literalIn{{file, nil}}
	if input != nil {
		e.join(root, input)
	}
	e.embeds(root)
	total := e.total(root)
	if e.excess == nil && total > b.total {
		e.excess = e.largest(file, root)
	}
	return e.excess
}

// largest returns the top-level field that makes most.
func (e *estimate) largest(file *ast.File, root *extent) *excess {
	var node ast.Node = file
	most := -1.0
	for _, decl := range file.Decls {
		field, ok := decl.(*ast.Field)
		if !ok {
			continue
		}
		name, ok := syntax.StaticLabel(field.Label)
		if !ok {
			continue
		}
		if total := e.total(e.field(root, name)); total > most {
			node, most = field, total
		}
	}
	return &excess{node, fmt.Sprintf("may make more than %s bytes of values", amount(e.bounds.total))}
}

// exceed records that node may become too large.
func (e *estimate) exceed(node ast.Node, format string, args ...any) {
	if e.excess == nil {
		e.excess = &excess{node, fmt.Sprintf(format, args...)}
	}
}

// amount writes a bound for a reader.
func amount(n float64) string {
	switch {
	case n >= 1<<20 && math.Mod(n, 1<<20) == 0:
		return fmt.Sprintf("%.0f Mi", n/(1<<20))
	case n >= 1e6:
		return fmt.Sprintf("%g million", n/1e6)
	}
	return fmt.Sprintf("%.0f", n)
}

// A scope is where names are looked up: a file, struct, clause or field, and what it
// stands for.
type scope struct {
	outer *scope
	node  ast.Node
	value *extent
	// key is the key of a for clause.
	key  *extent
	lets map[ast.Node]*extent
	// known are paths of which a condition leaves less.
	known map[string]*extent
}

func (s *scope) at(node ast.Node) *scope {
	for ; s != nil; s = s.outer {
		if s.node == node {
			return s
		}
	}
	return nil
}

// enter reports whether the estimate may go on, deeper.
func (e *estimate) enter() bool {
	if e.excess != nil {
		return false
	}
	if e.steps--; e.steps < 0 {
		e.exceed(nil, "is too entangled to tell how large it may become")
		return false
	}
	if e.depth >= deepestEstimate {
		e.exceed(nil, "refers to itself, so that there is no telling how large it may become")
		return false
	}
	e.depth++
	return true
}
