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

	"github.com/usher-dev/usher/internal/lang/cel"
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
	if t == nil || index >= len(t.validations) || t.validations[index].ast == nil {
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
	part := &t.validations[index]
	f := finder{&trace{of: t, part: part, vars: a, search: &search{ctx: ctx, activation: a}}}
	var found place
	a.meter.Within(fieldTime, func() { found = f.find(part.ast.NativeRep().Expr()) })
	if interrupted(ctx, a) != nil || f.search.exhausted() {
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
	switch key := e.AsLiteral().(type) {
	case types.String:
		return p.child(string(key))
	case types.Int:
		return p.item(int(key))
	}
	p.ends = true
	return p
}

// A search limits what is done to find the field of one validation. Nil has no limit.
type search struct {
	ctx                context.Context //nolint:containedctx // It lasts for one call of Field.
	activation         *activation
	steps, evaluations int
}

// exhausted reports whether it takes too long to find the field.
func (s *search) exhausted() bool {
	return s != nil && (s.steps > maxSteps || s.evaluations > maxEvaluations || s.ctx.Err() != nil)
}

// evaluate counts an evaluation, and reports whether that is still allowed.
func (s *search) evaluate() bool {
	if s == nil {
		return true
	}
	s.evaluations++
	return s.evaluations <= maxEvaluations
}

// A finder finds a field in a trace.
type finder struct{ *trace }

// step counts an expression that is looked at, and reports whether that is still allowed.
func (f finder) step() bool {
	f.search.steps++
	return !f.search.exhausted()
}

// find returns the place that an expression reads which has the wrong value.
func (f finder) find(e celast.Expr) place {
	if !f.step() {
		return place{}
	}
	if found := f.place(e); found.known {
		return found
	}
	if alias, within := f.alias(e); alias != nil {
		return within.find(alias)
	}
	if e.Kind() == celast.ComprehensionKind {
		return f.loop(e)
	}
	switch e.AsCall().FunctionName() {
	case operators.LogicalAnd:
		return f.operands(e, types.False)
	case operators.LogicalOr:
		return f.operands(e, types.True)
	case operators.Conditional:
		return f.conditional(e)
	}
	if found := f.list(e); found.path != "" {
		return found
	}
	for _, part := range cel.Parts(e) {
		if found := f.find(part); found.path != "" {
			return found
		}
	}
	return place{}
}

// operands finds the operand that decides the value of && or ||, which end does. If all do, it is
// what they have in common.
func (f finder) operands(e celast.Expr, end types.Bool) place {
	all := flat(e, e.AsCall().FunctionName())
	decides := func(v ref.Val) bool { return v == end }
	switch value := f.value(e); {
	case value == nil || value == !end:
		var found []place
		for _, operand := range all {
			found = append(found, f.find(operand))
		}
		return meeting(found)
	case types.IsError(value):
		decides = types.IsError
	}
	for _, operand := range all {
		if decides(f.value(operand)) {
			return f.find(operand)
		}
	}
	return place{}
}

func (f finder) conditional(e celast.Expr) place {
	args := e.AsCall().Args()
	var found place
	if branch := f.branch(e); branch != nil {
		found = f.find(branch)
	} else if f.vars == nil {
		found = meeting([]place{f.find(args[1]), f.find(args[2])})
	}
	if found.path != "" {
		return found
	}
	return f.find(args[0])
}

// branch returns the branch that ?: takes, nil if that is not known.
func (f finder) branch(e celast.Expr) celast.Expr {
	args := e.AsCall().Args()
	switch f.value(args[0]) {
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
func (f finder) place(e celast.Expr) place {
	if !f.step() {
		return place{}
	}
	if alias, within := f.alias(e); alias != nil {
		return within.place(alias)
	}
	if name := e.AsIdent(); name != "" {
		if l := f.local(name); l != nil {
			return l.place
		}
		return place{known: name == objectName}
	}
	if operand, key := cel.Selected(e); operand != nil {
		if key == nil {
			return f.place(operand).child(e.AsSelect().FieldName())
		}
		return f.place(operand).key(key)
	}
	call := e.AsCall()
	switch call.FunctionName() {
	case "or", "orValue", "value":
		return f.place(call.Target())
	case "dyn", "optional.of", "optional.ofNonZeroValue":
		return f.place(call.Args()[0])
	}
	return place{}
}

// alias returns the expression of which an expression is the name: that of a variable, or what
// cel.bind binds. It is nil if there is none.
func (f finder) alias(e celast.Expr) (_ celast.Expr, within finder) {
	switch e.Kind() {
	case celast.IdentKind:
		if l := f.local(e.AsIdent()); l != nil && l.alias != nil {
			return l.alias, l.within
		}
	case celast.SelectKind:
		if e.AsSelect().Operand().AsIdent() != variablesName || f.local(variablesName) != nil {
			return nil, f
		}
		if v := f.of.variable(e.AsSelect().FieldName()); v != nil && v.ast != nil {
			return v.ast.NativeRep().Expr(), finder{&trace{of: f.of, part: v, vars: f.search.activation, search: f.search}}
		}
	case celast.ComprehensionKind:
		if c := e.AsComprehension(); binds(c) {
			return c.Result(), f.bind(c)
		}
	}
	return nil, f
}
