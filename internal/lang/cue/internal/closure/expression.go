package closure

import (
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/literal"
	"cuelang.org/go/cue/token"

	"github.com/usher-dev/usher/internal/lang/cue/internal/syntax"
)

// deepestTranslated is how deep expressions may nest.
const deepestTranslated = 200

// expr translates an expression.
func (t *translator) expr(x ast.Expr, in *env) code {
	if t.obstacle != nil {
		return unclearCode
	}
	t.expressions++
	if t.depth++; t.depth > deepestTranslated {
		return t.cannot(x, "it nests deeply")
	}
	defer func() { t.depth-- }()
	switch x := x.(type) {
	case *ast.ParenExpr:
		return t.expr(x.X, in)
	case *ast.BasicLit:
		t.long = t.long || len(x.Value) > longText
		return t.literalCode(x)
	case *ast.Ident:
		return t.ident(x, in)
	case *ast.SelectorExpr:
		name, ok := syntax.StaticLabel(x.Sel)
		if !ok || strings.HasPrefix(name, "#") || strings.HasPrefix(name, "_") {
			return t.cannot(x, "it selects a hidden field or definition")
		}
		t.long = t.long || len(name) > longText
		return selection(t.expr(x.X, in), name)
	case *ast.IndexExpr:
		return t.indexed(x, in)
	case *ast.Interpolation:
		return t.interpolated(x, in)
	case *ast.UnaryExpr:
		return t.unary(x, in)
	case *ast.BinaryExpr:
		return t.binary(x, in)
	case *ast.CallExpr:
		return t.function(x, in)
	case *ast.ListLit:
		return t.literal(t.list(x, in))
	case *ast.StructLit:
		return t.literal(t.structure(x, in))
	}
	return t.cannot(x, "it uses an expression outside the subset")
}

// condition translates a condition, or the source of a loop.
func (t *translator) condition(x ast.Expr, in *env) code {
	t.conditions++
	defer func() { t.conditions-- }()
	return t.expr(x, in)
}

// literal returns the code of a list or struct that is written out.
func (t *translator) literal(c code) code {
	if t.conditions == 0 {
		return c
	}
	return certain(c)
}

func selection(of code, name string) code {
	return func(m *machine, f *frame) (any, status) {
		v, s := of(m, f)
		if s > choice {
			return nil, s
		}
		return m.fieldOf(v, name)
	}
}

// fieldOf returns a field of a struct. A field of anything else is an error.
func (m *machine) fieldOf(v any, name string) (any, status) {
	switch v := v.(type) {
	case map[string]any:
		if field, ok := v[name]; ok {
			return member(field)
		}
		return nil, absent
	case *structure:
		if i, ok := v.find(name); ok {
			return member(v.values[i])
		}
		return nil, absent
	case open:
		m.doubt = true
		return nil, absent
	}
	return nil, unclear
}

func (t *translator) indexed(x *ast.IndexExpr, in *env) code {
	if _, written := x.Index.(*ast.BasicLit); !written {
		t.long = true
	}
	of, by := t.expr(x.X, in), t.expr(x.Index, in)
	return func(m *machine, f *frame) (any, status) {
		v, s := of(m, f)
		i, is := by(m, f)
		if is > choice || s == unclear {
			return nil, unclear
		}
		if s == absent {
			return nil, absent
		}
		switch i := i.(type) {
		case string:
			if isHidden(i) {
				return nil, unclear
			}
			return m.fieldOf(v, i)
		case int64:
			if list, ok := v.([]any); ok && i >= 0 && i < int64(len(list)) {
				return member(list[i])
			}
		}
		return nil, unclear
	}
}

// interpolated translates an interpolation of strings, whole numbers and booleans.
func (t *translator) interpolated(x *ast.Interpolation, in *env) code {
	texts, ok := syntax.Texts(x)
	if !ok {
		return t.cannot(x, "it interpolates bytes")
	}
	values := make([]code, 0, len(x.Elts)/2)
	for i := 1; i < len(x.Elts); i += 2 {
		values = append(values, t.expr(x.Elts[i], in))
	}
	length := 16 * len(values)
	for _, text := range texts {
		length += len(text)
	}
	return func(m *machine, f *frame) (any, status) {
		text := make([]byte, 0, length)
		for i, value := range values {
			v, s := value(m, f)
			if s > choice {
				return nil, unclear
			}
			text = append(text, texts[i]...)
			switch v := v.(type) {
			case string:
				if len(v)/16 > m.steps {
					return nil, unclear
				}
				text = append(text, v...)
			case int64:
				text = strconv.AppendInt(text, v, 10)
			case bool:
				text = strconv.AppendBool(text, v)
			default:
				return nil, unclear
			}
			if !m.spend(len(text) / 16) {
				return nil, unclear
			}
		}
		return string(append(text, texts[len(values)]...)), known
	}
}

func (t *translator) unary(x *ast.UnaryExpr, in *env) code {
	operand := t.expr(x.X, in)
	switch x.Op {
	case token.NOT:
		return func(m *machine, f *frame) (any, status) {
			v, s := operand(m, f)
			b, ok := v.(bool)
			if !ok || s > choice {
				return nil, unclear
			}
			return !b, known
		}
	case token.SUB:
		return func(m *machine, f *frame) (any, status) {
			v, s := operand(m, f)
			// The decimal -0 is not 0.
			i, ok := v.(int64)
			if !ok || s > choice || i == 0 || i == math.MinInt64 {
				return nil, unclear
			}
			return -i, known
		}
	}
	return t.cannot(x, "it has a bound or default, %s", x.Op)
}

func (t *translator) binary(b *ast.BinaryExpr, in *env) code {
	switch b.Op {
	case token.OR:
		return t.disjunction(b, in)
	case token.EQL, token.NEQ:
		if syntax.IsBottom(b.X) || syntax.IsBottom(b.Y) {
			return t.presence(b, in)
		}
	case token.MAT, token.NMAT:
		return t.match(b, in)
	case token.MUL:
		if t.shapes.Of(b.X) == syntax.AList || t.shapes.Of(b.Y) == syntax.AList {
			return t.cannot(b, "it repeats a list")
		}
	case token.LAND, token.LOR, token.ADD, token.SUB, token.LSS, token.LEQ, token.GTR, token.GEQ:
	default:
		return t.cannot(b, "it uses the operator %s", b.Op)
	}
	x, y, op := t.expr(b.X, in), t.expr(b.Y, in), b.Op
	return func(m *machine, f *frame) (any, status) {
		v, s := x(m, f)
		if s > choice {
			return nil, unclear
		}
		w, s := y(m, f)
		if s > choice {
			return nil, unclear
		}
		return m.operate(op, v, w)
	}
}

// presence translates a comparison with _|_.
func (t *translator) presence(b *ast.BinaryExpr, in *env) code {
	x := b.X
	if syntax.IsBottom(x) {
		x = b.Y
	}
	if !isReference(x) {
		return t.cannot(b, "it compares something else than a name or path with _|_")
	}
	value, whenAbsent := t.expr(x, in), b.Op == token.EQL
	param := isOneOf(t.params, x)
	return func(m *machine, f *frame) (any, status) {
		switch v, s := value(m, f); {
		case s == absent:
			return whenAbsent, known
		case s == unclear, isOpen(v) && !param:
			// For a type alone, such as what remains of *object.x | int, the evaluator is not
			// consistent.
			return nil, unclear
		}
		return !whenAbsent, known
	}
}

// isOneOf reports whether x is the name of a parameter.
func isOneOf(params []string, x ast.Expr) bool {
	id, ok := x.(*ast.Ident)
	if !ok {
		return false
	}
	_, inFile := id.Scope.(*ast.File)
	return inFile && slices.Contains(params, id.Name)
}

// isReference reports whether x is a name, or a path from one.
func isReference(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.ParenExpr:
		return isReference(x.X)
	case *ast.Ident:
		return x.Node != nil
	case *ast.SelectorExpr:
		return isReference(x.X)
	case *ast.IndexExpr:
		_, written := x.Index.(*ast.BasicLit)
		return isReference(x.X) && (written || isReference(x.Index))
	}
	return false
}

// match translates =~ and !~.
func (t *translator) match(b *ast.BinaryExpr, in *env) code {
	t.long = true
	value, wanted := t.expr(b.X, in), b.Op == token.MAT
	pattern := t.pattern(b.Y, in)
	return func(m *machine, f *frame) (any, status) {
		v, s := value(m, f)
		text, ok := v.(string)
		if !ok || s > choice {
			return nil, unclear
		}
		p := pattern(m, f)
		if p == nil || !p.affordable(m, text) {
			return nil, unclear
		}
		return p.re.MatchString(text) == wanted, known
	}
}

// numberIn returns a number literal, if Go can represent it exactly: a fraction has at most 15
// digits, so that comparing values is comparing literals.
func numberIn(text string) (any, bool) {
	var info literal.NumInfo
	if err := literal.ParseNum(text, &info); err != nil {
		return nil, false
	}
	if info.IsInt() {
		i, ok := new(big.Int).SetString(info.String(), 0)
		if !ok {
			i, ok = new(big.Int).SetString(strings.TrimLeft(info.String(), "0"), 10)
		}
		if !ok || !i.IsInt64() {
			return nil, false
		}
		return i.Int64(), true
	}
	if len(text) > 15 || strings.ContainsAny(text, "eEKMGTP") {
		return nil, false
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(text, "_", ""), 64)
	if err != nil {
		return nil, false
	}
	return fraction(f), true
}
