package cue

import (
	"math"
	"regexp"
	"strconv"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/literal"
)

// A function is a builtin. What it cannot compute is unclear.
type function func(m *machine, args []any) (any, status)

// function translates a call.
func (t *translator) function(x *ast.CallExpr, in *env) code {
	name, ok := calleeOf(x)
	if !ok {
		return t.cannot(x, "it calls something outside the subset")
	}
	if strings.HasPrefix(name, "regexp.") && len(x.Args) > 0 {
		return t.regexpFunction(x, name, in)
	}
	fun := functionOf(name)
	if fun == nil {
		return t.cannot(x, "it calls %s", name)
	}
	if name == "len" && len(x.Args) == 1 {
		return length(t.expr(x.Args[0], in))
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
		name, static := staticLabel(fun.Sel)
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

// regexpFunction translates the functions of package regexp.
func (t *translator) regexpFunction(x *ast.CallExpr, name string, in *env) code {
	use, ok := regexpFunctions()[name]
	if !ok {
		return t.cannot(x, "it calls %s", name)
	}
	pattern, args := t.pattern(x.Args[0], in), t.args(x.Args[1:], in)
	return func(m *machine, f *frame) (any, status) {
		values, ok := args(m, f)
		if !ok {
			return nil, unclear
		}
		re := pattern(m, f)
		if re == nil {
			return nil, unclear
		}
		return use(m, re, values)
	}
}

func regexpFunctions() map[string]func(*machine, *regexp.Regexp, []any) (any, status) {
	return map[string]func(*machine, *regexp.Regexp, []any) (any, status){
		"regexp.Match": func(_ *machine, re *regexp.Regexp, args []any) (any, status) {
			if text, ok := one[string](args); ok {
				return re.MatchString(text), known
			}
			return nil, unclear
		},
		"regexp.Find": func(_ *machine, re *regexp.Regexp, args []any) (any, status) {
			text, ok := one[string](args)
			at := re.FindStringIndex(text)
			if !ok || at == nil {
				return nil, unclear
			}
			return text[at[0]:at[1]], known
		},
		"regexp.FindSubmatch": func(m *machine, re *regexp.Regexp, args []any) (any, status) {
			text, ok := one[string](args)
			found := re.FindStringSubmatch(text)
			if !ok || found == nil {
				return nil, unclear
			}
			return m.texts(found)
		},
		"regexp.FindAll": func(m *machine, re *regexp.Regexp, args []any) (any, status) {
			text, n, ok := two[string, int64](args)
			if !ok || n > math.MaxInt32 || n < math.MinInt32 {
				return nil, unclear
			}
			found := re.FindAllString(text, int(n))
			if found == nil {
				return nil, unclear
			}
			return m.texts(found)
		},
		"regexp.ReplaceAll": func(m *machine, re *regexp.Regexp, args []any) (any, status) {
			text, by, ok := two[string, string](args)
			if !ok || !m.spend(len(text)*(len(by)+1)/16) {
				return nil, unclear
			}
			return re.ReplaceAllString(text, by), known
		},
		"regexp.ReplaceAllLiteral": func(m *machine, re *regexp.Regexp, args []any) (any, status) {
			text, by, ok := two[string, string](args)
			if !ok || !m.spend(len(text)*(len(by)+1)/16) {
				return nil, unclear
			}
			return re.ReplaceAllLiteralString(text, by), known
		},
	}
}

// functionOf returns a builtin that the translator knows, nil if it does not.
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

// textFunction returns a function of package strings.
func textFunction(name string) function {
	if f, ok := map[string]func(string) string{
		"strings.ToLower": strings.ToLower, "strings.ToUpper": strings.ToUpper, "strings.TrimSpace": strings.TrimSpace,
	}[name]; ok {
		return func(m *machine, args []any) (any, status) {
			text, ok := one[string](args)
			if !ok || !m.spend(len(text)/16) {
				return nil, unclear
			}
			return f(text), known
		}
	}
	if f, ok := map[string]func(a, b string) any{
		"strings.HasPrefix":   func(a, b string) any { return strings.HasPrefix(a, b) },
		"strings.HasSuffix":   func(a, b string) any { return strings.HasSuffix(a, b) },
		"strings.Contains":    func(a, b string) any { return strings.Contains(a, b) },
		"strings.ContainsAny": func(a, b string) any { return strings.ContainsAny(a, b) },
		"strings.Count":       func(a, b string) any { return int64(strings.Count(a, b)) },
		"strings.Index":       func(a, b string) any { return int64(strings.Index(a, b)) },
		"strings.LastIndex":   func(a, b string) any { return int64(strings.LastIndex(a, b)) },
		"strings.TrimPrefix":  func(a, b string) any { return strings.TrimPrefix(a, b) },
		"strings.TrimSuffix":  func(a, b string) any { return strings.TrimSuffix(a, b) },
		"strings.Trim":        func(a, b string) any { return strings.Trim(a, b) },
		"strings.TrimLeft":    func(a, b string) any { return strings.TrimLeft(a, b) },
		"strings.TrimRight":   func(a, b string) any { return strings.TrimRight(a, b) },
	}[name]; ok {
		return func(m *machine, args []any) (any, status) {
			a, b, ok := two[string, string](args)
			if !ok || !m.spend((len(a)+len(b))/16) {
				return nil, unclear
			}
			return f(a, b), known
		}
	}
	switch name {
	case "strings.Split":
		return func(m *machine, args []any) (any, status) {
			text, by, ok := two[string, string](args)
			if !ok || !m.spend(strings.Count(text, by)) {
				return nil, unclear
			}
			return m.texts(strings.Split(text, by))
		}
	case "strings.Fields":
		return func(m *machine, args []any) (any, status) {
			text, ok := one[string](args)
			if !ok || !m.spend(len(text)/4) {
				return nil, unclear
			}
			return m.texts(strings.Fields(text))
		}
	case "strings.Join":
		return join
	case "strings.Replace":
		return replace
	}
	return nil
}

// texts returns a list of texts.
func (m *machine) texts(texts []string) (any, status) {
	if !m.spend(len(texts)) {
		return nil, unclear
	}
	list := make([]any, len(texts))
	for i, text := range texts {
		list[i] = text
	}
	return list, known
}

func join(m *machine, args []any) (any, status) {
	list, by, ok := two[[]any, string](args)
	if !ok {
		return nil, unclear
	}
	texts := make([]string, len(list))
	length := 0
	for i, v := range list {
		text, ok := v.(string)
		if !ok {
			return nil, unclear
		}
		texts[i] = text
		length += len(text) + len(by)
	}
	if !m.spend(length / 16) {
		return nil, unclear
	}
	return strings.Join(texts, by), known
}

func replace(m *machine, args []any) (any, status) {
	if len(args) != 4 {
		return nil, unclear
	}
	text, old, ok := two[string, string](args[:2])
	by, n, found := two[string, int64](args[2:])
	if !ok || !found || n < math.MinInt32 || n > math.MaxInt32 {
		return nil, unclear
	}
	if !m.spend((len(text) + strings.Count(text, old)*len(by)) / 16) {
		return nil, unclear
	}
	return strings.Replace(text, old, by, int(n)), known
}

// listFunction returns a function of package list.
func listFunction(name string) function {
	switch name {
	case "list.Contains":
		return contains
	case "list.Concat":
		return func(m *machine, args []any) (any, status) {
			lists, ok := one[[]any](args)
			if !ok {
				return nil, unclear
			}
			return m.flatten(lists, 1, true)
		}
	case "list.FlattenN":
		return func(m *machine, args []any) (any, status) {
			lists, depth, ok := two[[]any, int64](args)
			if !ok {
				return nil, unclear
			}
			return m.flatten(lists, depth, false)
		}
	case "list.Max", "list.Min":
		return func(_ *machine, args []any) (any, status) {
			list, ok := one[[]any](args)
			if !ok {
				return nil, unclear
			}
			return most(list, name == "list.Max")
		}
	case "list.Sum":
		return total
	case "list.Range":
		return numbers
	}
	return nil
}

// contains computes list.Contains of scalars; lists and structs compare by content.
func contains(m *machine, args []any) (any, status) {
	if len(args) != 2 || !m.spend(1) {
		return nil, unclear
	}
	list, ok := args[0].([]any)
	if !ok || !m.spend(len(list)) {
		return nil, unclear
	}
	switch args[1].(type) {
	case nil, bool, string, int64:
	default:
		return nil, unclear
	}
	for _, v := range list {
		v, s := member(v)
		switch v.(type) {
		case nil, bool, string, int64:
		default:
			return nil, unclear
		}
		if s != known {
			return nil, unclear
		}
		if v == args[1] {
			return true, known
		}
	}
	return false, known
}

// flatten returns the members of lists in a list, to a depth; if all of them have to be
// lists, another value is unclear.
func (m *machine) flatten(lists []any, depth int64, all bool) (any, status) {
	flat := make([]any, 0, len(lists))
	var add func(list []any, depth int64) bool
	add = func(list []any, depth int64) bool {
		for _, v := range list {
			if c, ok := v.(chosen); ok {
				if _, isList := c.value.([]any); isList || all {
					return false
				}
			}
			inner, isList := v.([]any)
			switch {
			case isList && depth != 0:
				if !add(inner, depth-1) {
					return false
				}
				continue
			case all && depth == 1:
				return false
			}
			if !m.spend(1) {
				return false
			}
			flat = append(flat, v)
		}
		return true
	}
	if !add(lists, depth) {
		return nil, unclear
	}
	return flat, known
}

func most(list []any, greatest bool) (any, status) {
	if len(list) == 0 {
		return nil, unclear
	}
	var result int64
	for i, v := range list {
		v, s := member(v)
		n, ok := v.(int64)
		if !ok || s != known {
			return nil, unclear
		}
		if i == 0 || greatest == (n > result) {
			result = n
		}
	}
	return result, known
}

func total(_ *machine, args []any) (any, status) {
	list, ok := one[[]any](args)
	if !ok {
		return nil, unclear
	}
	sum := int64(0)
	for _, v := range list {
		v, s := member(v)
		n, ok := v.(int64)
		if !ok || s != known || n > 1<<52 || n < -1<<52 || sum > 1<<52 || sum < -1<<52 {
			return nil, unclear
		}
		sum += n
	}
	return sum, known
}

// numbers computes list.Range of whole numbers.
func numbers(m *machine, args []any) (any, status) {
	if len(args) != 3 {
		return nil, unclear
	}
	from, to, ok := two[int64, int64](args[:2])
	step, isInt := args[2].(int64)
	const bound = 1 << 40
	if !ok || !isInt || step <= 0 || from > to || from < 0 || to > bound || step > bound {
		return nil, unclear
	}
	n := (to - from + step - 1) / step
	if n > longestMade || !m.spend(int(n)) {
		return nil, unclear
	}
	list := make([]any, 0, n)
	for i := from; i < to; i += step {
		list = append(list, i)
	}
	return list, known
}
