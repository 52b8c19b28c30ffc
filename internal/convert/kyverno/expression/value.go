package expression

import (
	"strings"

	"github.com/usher-dev/usher/internal/convert/kyverno/jmespath"
)

// A Value is a CEL expression for what a text, a JMESPath expression or a value of JSON is.
type Value struct {
	Type Type
	// Text fails if there is no value: where Kyverno has null, and where it has an error.
	Text string
	// IsConstant says that the value is known: it is Constant.
	IsConstant bool
	Constant   any

	binds power
	// option is an optional value, which is none if there is no value. It is empty if there always is one.
	option string
	// empty is an empty list if there is no value.
	empty string
	// absent says what Kyverno has if there is no value.
	absent absence
	// guard is a condition that it is not null, where it may be null or an error.
	guard string
	// before and steps make the option: what is applied to the list that is there, before all steps.
	before, steps string
	// keysOf is the map whose keys it is.
	keysOf *Value
	// fails says that it fails in other cases, too.
	fails bool
	// joined is one list of the lists in it, and with an empty list if there is no value.
	joined [2]string
	// or are the operands of ||, of which the second is a constant that counts as false or not.
	or *[2]Value
	// emptyText says that an empty list is an empty text.
	emptyText bool
	// open says that a text is the middle of a pattern, which has * before or after it.
	open [2]bool
	// items are the objects of a list, if it is one of the API server.
	items *Value
	// made is how a map is made, if an expression does it.
	made *made
	// root says that it is what expressions begin with.
	root *Scope
}

// An absence says what there is in place of a value that is absent.
type absence int

const (
	never absence = iota
	// missing is an error.
	missing
	// null is null.
	null
	// mixed is either.
	mixed
)

// A power says how much the outermost operator of an expression binds.
type power int

const (
	ternary power = iota
	disjunction
	conjunction
	relation
	sum
	product
	unary
	postfix
)

// in returns an expression in a place where operators that bind less need parentheses.
func (v Value) in(p power) string { return parenthesized(v.Text, v.binds, p) }

func parenthesized(text string, binds, p power) string {
	if binds < p {
		return "(" + text + ")"
	}
	return text
}

// CanBeNull reports whether Kyverno has null for it.
func (v Value) CanBeNull() bool {
	return v.absent == null || v.absent == mixed || v.IsConstant && v.Constant == nil
}

func (v Value) isNull() bool { return v.IsConstant && v.Constant == nil }

// Optional returns an optional value in CEL, which is none if there is no value.
func (v Value) Optional() string {
	if v.option == "" {
		return "optional.of(" + v.Text + ")"
	}
	return v.option
}

// Or returns an expression with a constant in CEL in place of an absent value.
func (v Value) Or(constant string) string {
	switch v.option {
	case "":
		return v.Text
	case v.Text:
		return "(" + v.Text + " != null ? " + v.Text + " : dyn(" + constant + "))"
	}
	return v.option + ".orValue(" + constant + ")"
}

// Exact returns an expression that fails where Kyverno has an error, and is null where it has null.
func (v Value) Exact() string {
	switch v.absent {
	case null, mixed:
		switch {
		case v.guard == "" && strings.Contains(v.option, "("):
			return v.option + ".optMap(v, dyn(v)).orValue(null)"
		case v.guard == "":
			return v.Or("null")
		}
		return v.guard + " ? " + v.in(disjunction) + " : null"
	case never, missing:
	}
	return v.Text
}

// NotNull returns a condition in CEL that Kyverno does not have null; it is empty if it never does.
func (v Value) NotNull() string {
	switch {
	case v.IsConstant && v.Constant == nil:
		return "false"
	case v.absent != null && v.absent != mixed:
		return ""
	case v.guard == "":
		return v.option + ".hasValue()"
	}
	return v.guard
}

// list returns an expression that is an empty list if there is no value.
func (v Value) list() string {
	if v.empty != "" {
		return v.empty
	}
	return v.Or("[]")
}

// Constant returns the value of a constant of JSON.
func Constant(of any) Value {
	v := Value{Constant: of, IsConstant: true, Text: literal(of), binds: postfix}
	switch c := of.(type) {
	case string:
		v.Type = Type{Kind: Text, Plain: !strings.ContainsAny(c, "*?")}
	case bool:
		v.Type.Kind = Bool
	case int64:
		v.Type.Kind = Integer
	case float64:
		v.Type.Kind = Number
		if c == float64(int64(c)) {
			v.Type.Kind = Integer
		}
	case []any:
		v.Type = ListOf(Type{})
		if len(c) > 0 {
			item := Constant(c[0]).Type
			for _, e := range c[1:] {
				if !Constant(e).Type.same(item) {
					item = Type{}
				}
			}
			v.Type = ListOf(item)
		}
	case map[string]any:
		v.Type.Kind = Map
	case nil:
		v.absent = null
	}
	return v
}

func fresh(text string, binds power, t Type) Value { return Value{Text: text, binds: binds, Type: t} }

// field selects a field of a value.
func (v Value) field(name string) Value {
	t, required := v.Type.Field(name)
	selected := Value{Type: t, binds: postfix}
	base := v.in(postfix)
	selected.Text = base + selection(name)
	switch {
	case v.option == "" && required:
		return selected
	case v.option == "":
		selected.option, selected.absent = base+optional(name)+nullable(name, t), missing
		return selected
	}
	selected.option, selected.absent, selected.guard = v.option+optional(name), v.absent, v.guard
	if v.absent == null && !required {
		selected.absent, selected.guard = mixed, v.NotNull()
	}
	return selected
}

// nullable makes an optional value none that API servers write as null: the rules of roles that have none.
func nullable(name string, t Type) string {
	if name == "rules" && t.Kind == List {
		if _, ok := t.Item().Field("verbs"); ok {
			return ".optFlatMap(v, v == null ? optional.none() : optional.of(v))"
		}
	}
	return ""
}

func selection(name string) string {
	if identifier(name) {
		return "." + name
	}
	return "[" + quote(name) + "]"
}

func optional(name string) string {
	if identifier(name) {
		return ".?" + name
	}
	return "[?" + quote(name) + "]"
}

func identifier(name string) bool {
	switch name {
	case "in", "true", "false", "null", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package", "return", "var", "void", "while":
		return false
	}
	for i, r := range name {
		if r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}

// truthy returns a condition that holds unless a value counts as false: null, an empty text, list or map, or false.
func (v Value) truthy() (Value, error) {
	test := func(text string, binds power) (Value, error) { return fresh(text, binds, Type{Kind: Bool}), nil }
	switch v.Type.Kind {
	case Bool:
		if v.option == "" {
			v.or, v.keysOf = nil, nil
			return v, nil
		}
		return test(v.Or("false"), postfix)
	case Text:
		return test(v.paren("''")+" != ''", relation)
	case List:
		if v.option == "" && v.empty == "" {
			return test("size("+v.Text+") > 0", relation)
		}
		return test("size("+v.list()+") > 0", relation)
	case Map:
		return test("size("+v.Or("{}")+") > 0", relation)
	case Integer, Number:
		if v.option == "" {
			return test("true", postfix)
		}
		return test(v.option+".hasValue()", postfix)
	case Either:
		return test(v.paren("''")+" != ''", relation)
	case Any:
	case images, image:
		return v, refuse(writeIt, "an image as a condition is not imported")
	}
	return test(v.whole()+".hasValue()", postfix)
}

// whole returns an optional value, which is none if the value counts as false.
func (v Value) whole() string {
	switch v.Type.Kind {
	case Text, List, Map, Bool:
		return v.Optional() + ".optFlatMap(v, optional.ofNonZeroValue(v))"
	case Integer, Number:
		return v.Optional()
	case Any, Either, images, image:
	}
	return v.Optional() + ".optFlatMap(v, v == 0 ? optional.of(v) : optional.ofNonZeroValue(v))"
}

// paren is Or, as an operand of a comparison.
func (v Value) paren(constant string) string {
	if v.option == "" {
		return v.in(sum)
	}
	return v.Or(constant)
}

// falsy reports whether a constant counts as false.
func falsy(of any) bool {
	switch c := of.(type) {
	case nil:
		return true
	case bool:
		return !c
	case string:
		return c == ""
	case []any:
		return len(c) == 0
	case map[string]any:
		return len(c) == 0
	}
	return false
}

// pathName is the last field of an expression, for the name of its elements.
func pathName(n *jmespath.Node) string {
	switch n.Op {
	case jmespath.Field:
		return n.Text
	case jmespath.Sub, jmespath.Pipe:
		if name := pathName(n.Args[1]); name != "" {
			return name
		}
		return pathName(n.Args[0])
	case jmespath.Flatten, jmespath.Project, jmespath.Filter, jmespath.Or:
		if n.Op == jmespath.Project {
			if name := pathName(n.Args[1]); name != "" {
				return name
			}
		}
		return pathName(n.Args[0])
	default:
		return ""
	}
}

// CanFail reports whether Exact fails for some objects.
func (v Value) CanFail() bool { return v.fails || v.absent == missing || v.absent == mixed }
