package cue

import (
	"slices"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"

	"github.com/usher-dev/usher/internal/lang/cue/internal/syntax"
)

// constraint returns what a declaration of a value reads of it, nil if it accepts anything.
func constraint(e ast.Expr) *need {
	switch x := e.(type) {
	case *ast.ParenExpr:
		return constraint(x.X)
	case *ast.Ident:
		if x.Name == "_" {
			return nil
		}
		if scalar(x) {
			return &need{}
		}
	case *ast.BasicLit, *ast.BottomLit:
		return &need{}
	case *ast.UnaryExpr:
		if scalar(x) {
			return &need{}
		}
	case *ast.BinaryExpr:
		if scalar(x) {
			return &need{}
		}
		if x.Op == token.AND {
			return union(constraint(x.X), constraint(x.Y))
		}
	case *ast.StructLit:
		return structConstraint(x)
	case *ast.ListLit:
		return listConstraint(x)
	}
	return &need{whole: true}
}

func union(a, b *need) *need {
	if a == nil || b == nil {
		if a == nil {
			return b
		}
		return a
	}
	total := &need{}
	total.add(a)
	total.add(b)
	return total
}

func structConstraint(s *ast.StructLit) *need {
	total := &need{}
	for _, elt := range s.Elts {
		switch d := elt.(type) {
		case *ast.Field:
			var member *need
			if pattern, ok := d.Label.(*ast.ListLit); ok && len(pattern.Elts) == 1 {
				member = total.step(step{})
			} else if name, ok := syntax.StaticLabel(d.Label); ok {
				member = total.step(step{name: name, isName: true})
			} else {
				return &need{whole: true}
			}
			member.add(constraint(d.Value))
		case *ast.Ellipsis:
			if d.Type != nil {
				total.step(step{}).add(constraint(d.Type))
			}
		case *ast.CommentGroup, *ast.Attribute:
		default:
			return &need{whole: true}
		}
	}
	return total
}

func listConstraint(l *ast.ListLit) *need {
	total := &need{each: &need{}}
	for _, elt := range l.Elts {
		switch x := elt.(type) {
		case *ast.Ellipsis:
			if x.Type != nil {
				total.step(step{}).add(constraint(x.Type))
			}
		case *ast.Comprehension:
			return &need{whole: true}
		default:
			total.step(step{}).add(constraint(x))
		}
	}
	return total
}

// scalar reports whether e is surely nothing but scalars, types and bounds of scalars.
func scalar(e ast.Expr) bool {
	switch x := e.(type) {
	case *ast.ParenExpr:
		return scalar(x.X)
	case *ast.BasicLit, *ast.BottomLit, *ast.Interpolation:
		return true
	case *ast.Ident:
		return x.Node == nil && slices.Contains(syntax.ScalarTypes(), x.Name)
	case *ast.UnaryExpr:
		// A bound compares with a scalar, in any notation of its operand.
		return x.Op != token.MUL || scalar(x.X)
	case *ast.BinaryExpr:
		switch x.Op {
		case token.AND, token.OR:
			return scalar(x.X) && scalar(x.Y)
		}
	}
	return false
}
