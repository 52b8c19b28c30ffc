package closure

import (
	"math"
	"regexp"
	"regexp/syntax"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/literal"
	"cuelang.org/go/cue/token"
)

// A pattern is a regular expression, with the number of instructions that every byte may
// take.
type pattern struct {
	re   *regexp.Regexp
	size int
}

// patternOf returns a regular expression, nil if it is none.
func patternOf(text string) *pattern {
	re, err := regexp.Compile(text)
	if err != nil {
		return nil
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil
	}
	return &pattern{re, len(program.Inst)}
}

// affordable reports whether there is time to match a text.
func (p *pattern) affordable(m *machine, text string) bool {
	return m.spend(20 + len(text)*p.size/4)
}

// pattern translates a regular expression; the result is nil where it is not clear which.
func (t *translator) pattern(x ast.Expr, in *env) func(*machine, *frame) *pattern {
	if lit, ok := x.(*ast.BasicLit); ok && lit.Kind == token.STRING {
		text, err := literal.Unquote(lit.Value)
		p := patternOf(text)
		if err != nil || p == nil || strings.HasPrefix(strings.TrimLeft(lit.Value, "#"), "'") {
			t.cannot(x, "it has a regular expression that is none")
			return nil
		}
		return func(*machine, *frame) *pattern { return p }
	}
	value := t.expr(x, in)
	return func(m *machine, f *frame) *pattern {
		v, s := value(m, f)
		text, ok := v.(string)
		if !ok || s > choice || len(text) > longestPattern {
			return nil
		}
		// A repetition is compiled as often as it says, at most a thousand times.
		if !m.spend(200 + 20*len(text) + 20_000*strings.Count(text, "{")) {
			return nil
		}
		return patternOf(text)
	}
}

// longestPattern is how long a regular expression of the input may be.
const longestPattern = 1000

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
		p := pattern(m, f)
		if p == nil || len(values) == 0 {
			return nil, unclear
		}
		if text, ok := values[0].(string); !ok || !p.affordable(m, text) {
			return nil, unclear
		}
		return use(m, p.re, values)
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
