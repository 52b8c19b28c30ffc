package admission

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

const (
	// maxSteps is how many expressions are looked at to find a field.
	maxSteps = 10_000
	// maxEvaluations is how many of them are evaluated.
	maxEvaluations = 4 * maxTried
	// fieldTime is how long that may take.
	fieldTime = 50 * time.Millisecond
)

// Field returns the path of the field of the object that the failing part of a validation reads,
// such as spec.containers[1].image; empty if there is none, or if it takes too long to find out.
//
// A path consists of names that the policy has and of positions in lists. It does not tell values
// of the object, nor keys that are computed.
func (p *Program) Field(ctx context.Context, in *Input, index int) (path string) {
	if in.Object == nil || p.traced == nil || p.heavy {
		return ""
	}
	t := p.traced()
	if t == nil || index >= len(t.validations) || t.validations[index] == nil {
		return ""
	}
	// The request is denied whatever happens here.
	defer func() {
		if recover() != nil {
			path = ""
		}
	}()
	in.context = ctx
	a := in.activation(p, withNamespace|withAuthorizer)
	if a.counted != nil {
		// Parts do not count their cost: what exceeded the budget must not run again without one.
		if _, _, err := a.run(&p.validations[index]); err != nil {
			return ""
		}
	}
	f := &finder{ctx: ctx, traced: t, activation: a}
	var found place
	a.meter.Within(fieldTime, func() {
		found = f.find(t.validations[index].NativeRep().Expr(), &scope{ast: t.validations[index], vars: a})
	})
	if interrupted(ctx, a) != nil || f.exhausted() {
		return ""
	}
	return found.path
}

// A place is where a value is in the object.
type place struct {
	path string
	// known says that the value is in the object; with an empty path it is the object.
	known bool
	// ends says that the path is that of a map or list in which the value is.
	ends bool
}

func (p place) child(name string) place {
	switch {
	case !p.known || p.ends:
	case strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		p.ends = true
	case p.path == "":
		p.path = name
	case name == "" || strings.ContainsFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-", r)
	}):
		p.path += "[" + name + "]"
	default:
		p.path += "." + name
	}
	return p
}

// key is the place of a value by a key of an expression. One that is computed is not told: it may
// come from the object, or from other objects.
func (p place) key(e celast.Expr) place {
	if e.Kind() == celast.LiteralKind {
		switch key := e.AsLiteral().(type) {
		case types.String:
			return p.child(string(key))
		case types.Int:
			return p.item(int(key))
		}
	}
	p.ends = true
	return p
}

// A finder finds the field of one validation.
type finder struct {
	ctx                context.Context //nolint:containedctx // It lasts for one call of Field.
	traced             *traced
	activation         *activation
	steps, evaluations int
}

// exhausted reports whether it takes too long to find the field.
func (f *finder) exhausted() bool {
	return f.steps > maxSteps || f.evaluations > maxEvaluations || f.ctx.Err() != nil
}

// step counts an expression that is looked at, and reports whether that is still allowed.
func (f *finder) step() bool {
	f.steps++
	return !f.exhausted()
}

// value returns the value of an expression, nil if it is not known.
func (f *finder) value(e celast.Expr, s *scope) ref.Val {
	if s.vars == nil || f.exhausted() {
		return nil
	}
	program, err := f.traced.plan(s.ast, e)
	if err != nil {
		return nil
	}
	return f.run(program, s.vars)
}

// find returns the place that an expression reads which has the wrong value.
func (f *finder) find(e celast.Expr, s *scope) place {
	if !f.step() {
		return place{}
	}
	if found := f.place(e, s); found.known {
		return found
	}
	if alias, within := f.alias(e, s); alias != nil {
		return f.find(alias, within)
	}
	switch e.Kind() {
	case celast.ComprehensionKind:
		return f.loop(e, s)
	case celast.CallKind:
		switch e.AsCall().FunctionName() {
		case operators.LogicalAnd:
			return f.operands(e, s, types.False)
		case operators.LogicalOr:
			return f.operands(e, s, types.True)
		case operators.Conditional:
			return f.conditional(e, s)
		}
		if found := f.list(e, s); found.path != "" {
			return found
		}
	}
	for _, part := range parts(e) {
		if found := f.find(part, s); found.path != "" {
			return found
		}
	}
	return place{}
}

// operands finds the operand that decides the value of && or ||, which end does. If all do, it is
// what they have in common.
func (f *finder) operands(e celast.Expr, s *scope, end types.Bool) place {
	all := flat(e, e.AsCall().FunctionName())
	decides := func(v ref.Val) bool { return v == end }
	switch value := f.value(e, s); {
	case value == nil || value == !end:
		var found []place
		for _, operand := range all {
			found = append(found, f.find(operand, s))
		}
		return meeting(found)
	case types.IsError(value):
		decides = types.IsError
	}
	for _, operand := range all {
		if decides(f.value(operand, s)) {
			return f.find(operand, s)
		}
	}
	return place{}
}

func (f *finder) conditional(e celast.Expr, s *scope) place {
	args := e.AsCall().Args()
	var found place
	if branch := f.branch(e, s); branch != nil {
		found = f.find(branch, s)
	} else if s.vars == nil {
		found = meeting([]place{f.find(args[1], s), f.find(args[2], s)})
	}
	if found.path != "" {
		return found
	}
	return f.find(args[0], s)
}

// branch returns the branch that ?: takes, nil if that is not known.
func (f *finder) branch(e celast.Expr, s *scope) celast.Expr {
	args := e.AsCall().Args()
	switch f.value(args[0], s) {
	case types.True:
		return args[1]
	case types.False:
		return args[2]
	}
	return nil
}

// meeting returns what places have in common. One that is below all others is the one: the others
// test whether it is there.
func meeting(all []place) place {
	all = slices.DeleteFunc(all, func(p place) bool { return p.path == "" })
	var inner []place
	for i, p := range all {
		if !slices.ContainsFunc(all[i+1:], func(other place) bool { return isBelow(other.path, p.path) }) &&
			!slices.ContainsFunc(all[:i], func(other place) bool { return other.path != p.path && isBelow(other.path, p.path) }) {
			inner = append(inner, p)
		}
	}
	if len(inner) == 0 {
		return place{}
	}
	last := inner[len(inner)-1]
	for path := last.path; path != ""; path = path[:max(strings.LastIndexAny(path, ".["), 0)] {
		if !slices.ContainsFunc(inner, func(p place) bool { return !isBelow(p.path, path) }) {
			return place{path: path, known: true, ends: last.ends || path != last.path}
		}
	}
	return last
}

// isBelow reports whether a path is another, or below it.
func isBelow(path, above string) bool {
	rest, ok := strings.CutPrefix(path, above)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// place returns where the value of an expression is in the object.
func (f *finder) place(e celast.Expr, s *scope) place {
	if !f.step() {
		return place{}
	}
	if alias, within := f.alias(e, s); alias != nil {
		return f.place(alias, within)
	}
	switch e.Kind() {
	case celast.IdentKind:
		if l := s.local(e.AsIdent()); l != nil {
			return l.place
		}
		return place{known: e.AsIdent() == objectName}
	case celast.SelectKind:
		return f.place(e.AsSelect().Operand(), s).child(e.AsSelect().FieldName())
	case celast.CallKind:
		call := e.AsCall()
		args := call.Args()
		switch call.FunctionName() {
		case operators.Index, operators.OptIndex, operators.OptSelect:
			return f.place(args[0], s).key(args[1])
		case "or", "orValue", "value":
			return f.place(call.Target(), s)
		case "dyn", "optional.of", "optional.ofNonZeroValue":
			return f.place(args[0], s)
		}
	}
	return place{}
}

// alias returns the expression of which an expression is the name: that of a variable, or what
// cel.bind binds. It is nil if there is none.
func (f *finder) alias(e celast.Expr, s *scope) (celast.Expr, *scope) {
	switch e.Kind() {
	case celast.IdentKind:
		if l := s.local(e.AsIdent()); l != nil && l.alias != nil {
			return l.alias, l.within
		}
	case celast.SelectKind:
		operand := e.AsSelect().Operand()
		if operand.Kind() != celast.IdentKind || operand.AsIdent() != variablesName || s.local(variablesName) != nil {
			return nil, nil
		}
		if ast := f.traced.variables[e.AsSelect().FieldName()]; ast != nil {
			return ast.NativeRep().Expr(), &scope{ast: ast, vars: f.activation}
		}
	case celast.ComprehensionKind:
		if c := e.AsComprehension(); binds(c) {
			return c.Result(), f.bind(c, s)
		}
	}
	return nil, nil
}
