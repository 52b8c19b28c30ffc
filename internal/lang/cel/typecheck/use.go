package typecheck

import (
	"context"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/rule"
)

// Uses returns the fields of objects that expressions read, and the constants that they are compared
// with. It may say too little.
func (c *Checker) Uses(expressions []admission.Expression) []rule.Use {
	if c.once.Do(c.prepare); c.err != nil {
		return nil
	}
	variables := map[string]paths{}
	var all []rule.Use
	for i, parsed := range c.parse(context.Background(), expressions) {
		if parsed == nil {
			continue
		}
		root := parsed.NativeRep().Expr()
		of := traceAll(root, variables)
		if expressions[i].Use == admission.Variable {
			variables["variables."+expressions[i].Name] = of[root.ID()]
		}
		u := reader{paths: of, uses: &all}
		u.read(root)
	}
	return all
}

// Constants returns the constants in expressions, each once.
func (c *Checker) Constants(expressions []admission.Expression) []any {
	if c.once.Do(c.prepare); c.err != nil {
		return nil
	}
	var all []any
	seen := map[any]bool{}
	var collect func(ast.Expr)
	collect = func(e ast.Expr) {
		for _, constant := range comparisonsWith("==", e) {
			if !seen[constant.With] {
				seen[constant.With] = true
				all = append(all, constant.With)
			}
		}
		for _, below := range cel.Parts(e) {
			collect(below)
		}
	}
	for _, parsed := range c.parse(context.Background(), expressions) {
		if parsed != nil {
			collect(parsed.NativeRep().Expr())
		}
	}
	return all
}

// mostUses is how many fields expressions are known to read: each is compared with those before it.
const mostUses = 2000

// A reader finds out how an expression uses fields.
type reader struct {
	paths map[int64]paths
	uses  *[]rule.Use
}

// add notes the use of the value of a node.
func (u *reader) add(of paths, compared ...rule.Comparison) {
	for _, at := range of {
		u.addOne(at, compared)
	}
}

func (u *reader) addOne(at path, compared []rule.Comparison) {
	if at.holder != objectName && at.holder != "oldObject" || len(at.steps) == 0 {
		return
	}
	of := rule.CurrentObject
	if at.holder != objectName {
		of = rule.OldObject
	}
	only := len(compared) > 0
	for i := range *u.uses {
		use := &(*u.uses)[i]
		if use.Of == of && slices.Equal(use.Paths[0], at.steps) {
			use.Compared, use.Only = append(use.Compared, compared...), use.Only && only
			return
		}
	}
	if len(*u.uses) >= mostUses {
		return
	}
	*u.uses = append(*u.uses, rule.Use{Of: of, Paths: [][]string{at.steps}, Compared: compared, Only: only})
}

func (u *reader) read(e ast.Expr) {
	switch {
	case u.compares(e):
		return
	case e.Kind() == ast.SelectKind && e.AsSelect().IsTestOnly():
		// Objects without the field are tried, too.
		return
	case len(u.paths[e.ID()]) > 0:
		if u.add(u.paths[e.ID()]); !mixes(e) {
			return
		}
	}
	for _, below := range cel.Parts(e) {
		if e.Kind() == ast.ComprehensionKind && below == e.AsComprehension().IterRange() && len(u.paths[below.ID()]) > 0 && !mixes(below) {
			// Its elements are what is read.
			continue
		}
		u.read(below)
	}
}

// mixes reports whether a node has paths, and parts that are read besides: it is a sum, a conditional or a filter.
func mixes(e ast.Expr) bool {
	if e.Kind() != ast.CallKind {
		return e.Kind() == ast.ComprehensionKind
	}
	function := e.AsCall().FunctionName()
	return function == operators.Add || function == operators.Conditional
}

// compares reports whether a node compares a field with constants.
func (u *reader) compares(e ast.Expr) bool {
	if e.Kind() != ast.CallKind {
		return false
	}
	call, args := e.AsCall(), cel.Parts(e)
	op := operatorOf(call.FunctionName())
	if op == "" || len(args) != 2 {
		return false
	}
	at, with := u.paths[args[0].ID()], args[1]
	if len(at) == 0 && !call.IsMemberFunction() && op != "in" {
		at, with, op = u.paths[args[1].ID()], args[0], exchanged(op)
	}
	compared := comparisonsWith(op, with)
	if len(at) == 0 || slices.ContainsFunc(at, func(p path) bool { return p.part }) || len(compared) == 0 || slices.ContainsFunc(args, isOr) {
		return false
	}
	u.add(at, compared...)
	return true
}

// isOr reports whether a node is a field, or another value if it is not there.
func isOr(e ast.Expr) bool {
	return e.AsCall().FunctionName() == "orValue"
}

func operatorOf(function string) string {
	switch function {
	case operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals, operators.In:
		symbol, _ := operators.FindReverse(function)
		return symbol
	case "startsWith":
		return "HasPrefix"
	case "endsWith":
		return "HasSuffix"
	case "contains":
		return "Contains"
	case "matches":
		return "=~"
	}
	return ""
}

// exchanged returns the operator that says the same with its operands exchanged.
func exchanged(op string) string {
	return strings.NewReplacer("<", ">", ">", "<").Replace(op)
}

func comparisonsWith(op string, e ast.Expr) []rule.Comparison {
	if op == "in" {
		if e.Kind() != ast.ListKind {
			return nil
		}
		var all []rule.Comparison
		for _, element := range e.AsList().Elements() {
			all = append(all, comparisonsWith("==", element)...)
		}
		return all
	}
	switch value := e.AsLiteral().(type) {
	case types.String:
		return []rule.Comparison{{Op: op, With: string(value)}}
	case types.Int:
		return []rule.Comparison{{Op: op, With: int64(value)}}
	case types.Double:
		return []rule.Comparison{{Op: op, With: float64(value)}}
	case types.Bool:
		return []rule.Comparison{{Op: op, With: bool(value)}}
	}
	return nil
}
