package closure

import (
	"strconv"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/literal"

	"github.com/usher-dev/usher/internal/lang/cue/internal/syntax"
)

// A function is a builtin. A result that it cannot compute is unclear.
type function func(m *machine, args []any) (any, status)

// function translates a call.
func (t *translator) function(x *ast.CallExpr, in *env) code {
	name, ok := calleeOf(x)
	if !ok {
		return t.cannot(x, "it calls something outside the subset")
	}
	if name == "len" && len(x.Args) == 1 {
		return length(t.expr(x.Args[0], in))
	}
	t.long = true
	if strings.HasPrefix(name, "regexp.") && len(x.Args) > 0 {
		return t.regexpFunction(x, name, in)
	}
	fun := functionOf(name)
	if fun == nil {
		return t.cannot(x, "it calls %s", name)
	}
	args := t.args(x.Args, in)
	return func(m *machine, f *frame) (any, status) {
		values, ok := args(m, f)
		if !ok {
			return nil, unclear
		}
		return fun(m, values)
	}
}

// calleeOf returns the name of the function that is called, with the path of its package.
func calleeOf(x *ast.CallExpr) (string, bool) {
	switch fun := x.Fun.(type) {
	case *ast.Ident:
		return strings.TrimPrefix(fun.Name, "__"), fun.Node == nil
	case *ast.SelectorExpr:
		pkg, ok := fun.X.(*ast.Ident)
		if !ok {
			return "", false
		}
		spec, ok := pkg.Node.(*ast.ImportSpec)
		if !ok {
			return "", false
		}
		path, err := literal.Unquote(spec.Path.Value)
		name, static := syntax.StaticLabel(fun.Sel)
		return path + "." + name, err == nil && static
	}
	return "", false
}

// args translates arguments; they are not ok unless all of them are known.
func (t *translator) args(xs []ast.Expr, in *env) func(*machine, *frame) ([]any, bool) {
	codes := make([]code, len(xs))
	for i, x := range xs {
		codes[i] = t.expr(x, in)
	}
	return func(m *machine, f *frame) ([]any, bool) {
		values := make([]any, len(codes))
		for i, c := range codes {
			v, s := c(m, f)
			if s > choice || isOpen(v) {
				return nil, false
			}
			values[i] = v
		}
		return values, m.spend(len(values))
	}
}

// length translates len, which counts bytes, members and regular fields.
func length(of code) code {
	return func(m *machine, f *frame) (any, status) {
		v, s := of(m, f)
		if s > choice {
			return nil, unclear
		}
		switch v := v.(type) {
		case string:
			return int64(len(v)), known
		case []any:
			return int64(len(v)), known
		case map[string]any:
			return int64(len(v)), known
		case *structure:
			n := 0
			for _, name := range v.names {
				if !isHidden(name) {
					n++
				}
			}
			return int64(n), known
		}
		return nil, unclear
	}
}

// functionOf returns the translation of a builtin, nil if there is none.
func functionOf(name string) function {
	switch name {
	case "len":
		return func(*machine, []any) (any, status) { return nil, unclear }
	case "div", "mod", "quo", "rem":
		return func(_ *machine, args []any) (any, status) { return divide(name, args) }
	case "strconv.Atoi":
		return func(_ *machine, args []any) (any, status) {
			text, ok := one[string](args)
			i, err := strconv.ParseInt(text, 10, 64)
			if !ok || err != nil {
				return nil, unclear
			}
			return i, known
		}
	case "strconv.FormatInt":
		return func(_ *machine, args []any) (any, status) {
			i, base, ok := two[int64, int64](args)
			if !ok || base < 2 || base > 36 {
				return nil, unclear
			}
			return strconv.FormatInt(i, int(base)), known
		}
	case "strconv.FormatBool":
		return func(_ *machine, args []any) (any, status) {
			if b, ok := one[bool](args); ok {
				return strconv.FormatBool(b), known
			}
			return nil, unclear
		}
	case "math.Round", "math.Floor", "math.Ceil", "math.Trunc":
		return func(_ *machine, args []any) (any, status) {
			if i, ok := one[int64](args); ok {
				return i, known
			}
			return nil, unclear
		}
	}
	if fun := textFunction(name); fun != nil {
		return fun
	}
	return listFunction(name)
}

// one, two and three return arguments if there are so many, of these types.
func one[A any](args []any) (a A, ok bool) {
	if len(args) != 1 {
		return a, false
	}
	a, ok = args[0].(A)
	return a, ok
}

func two[A, B any](args []any) (a A, b B, ok bool) {
	if len(args) != 2 {
		return a, b, false
	}
	a, okA := args[0].(A)
	b, okB := args[1].(B)
	return a, b, okA && okB
}

// divide computes div and mod, which are Euclidean, and quo and rem, which truncate.
func divide(name string, args []any) (any, status) {
	x, y, ok := two[int64, int64](args)
	// The decimal -0 is not 0, so only what surely has no sign is computed.
	if !ok || x <= 0 || y <= 0 {
		return nil, unclear
	}
	if name == "div" || name == "quo" {
		return x / y, known
	}
	return x % y, known
}
