package cue

import (
	"slices"

	"cuelang.org/go/cue/ast"

	"github.com/usher-dev/usher/internal/lang/cue/internal/syntax"
)

// messages are the fields of validate that users read.
var messages = []string{"reason", "warnings"}

// placeOf returns the key of the top-level field, or of the let clause, in which the tracer is, and whether that
// is within a message.
func (t *tracer) placeOf() (within any, told bool) {
	for i, n := range t.stack {
		switch n := n.(type) {
		case *ast.LetClause:
			return n, false
		case *ast.Field:
			name, _ := syntax.StaticLabel(n.Label)
			if name != Validate.output() {
				return name, false
			}
			return name, slices.ContainsFunc(t.stack[i+1:], func(n ast.Node) bool {
				field, ok := n.(*ast.Field)
				if !ok {
					return false
				}
				name, _ := syntax.StaticLabel(field.Label)
				return slices.Contains(messages, name)
			})
		}
	}
	return nil, false
}

// tell marks what is within the fields and clauses that messages are made of.
func (t *tracer) tell() {
	type mention struct {
		key any
		use *use
	}
	inside := map[any][]mention{}
	var queue []any
	for key, uses := range t.uses {
		for i := range uses {
			if uses[i].told {
				queue = append(queue, key)
			}
			inside[uses[i].within] = append(inside[uses[i].within], mention{key, &uses[i]})
		}
	}
	seen := map[any]bool{nil: true}
	for len(queue) > 0 {
		key := queue[0]
		if queue = queue[1:]; seen[key] {
			continue
		}
		seen[key] = true
		for _, m := range inside[key] {
			m.use.told = true
			queue = append(queue, m.key)
		}
	}
}
