package expression

import (
	"strings"

	"github.com/usher-dev/usher/internal/convert/kyverno/jmespath"
	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
	"github.com/usher-dev/usher/internal/kind"
)

// A Binding says how much the outermost operator of an expression binds.
type Binding = power

// Bindings, from those that bind least. Sums and products bind more than relations.
const (
	Ternary     = ternary
	Disjunction = disjunction
	Conjunction = conjunction
	Relation    = relation
)

// Binding returns how much the text binds.
func (v Value) Binding() Binding { return v.binds }

// IsNullOrScalar reports whether a value is null, or a text, a number or true or false; and never an error.
func IsNullOrScalar(v Value) bool {
	scalar := v.Type.Kind == Text || v.Type.Kind == Either || v.Type.Kind == Integer || v.Type.Kind == Number || v.Type.Kind == Bool
	return scalar && v.absent == null && v.option != "" && v.NotNull() != ""
}

// Postfix returns the text in a place where something is selected of it.
func (v Value) Postfix() string { return v.in(postfix) }

// IsShort reports whether the value is a name that needs no other one, and is never absent.
func (v Value) IsShort() bool {
	return v.IsConstant || v.items != nil || v.absent == never && !v.fails && len(v.Text) < 40 && !strings.ContainsAny(v.Text, "( ")
}

// OfSchemas is the type of values with one of some schemas.
func OfSchemas(set *kind.Set, schemas ...*kind.Schema) Type { return typeOf(set, schemas) }

// Reading returns a value that is read from elsewhere, which may fail.
func (v Value) Reading() Value {
	v.fails = true
	return v
}

// Missable returns a value that is null in CEL if there is none.
func (v Value) Missable() Value {
	v.option, v.absent, v.guard = v.Text, null, v.Text+" != null"
	return v
}

// Nullable returns a value that is null in CEL where Kyverno has null.
func (v Value) Nullable() Value {
	return Value{Type: v.Type, Text: v.Exact(), binds: ternary, fails: v.CanFail()}
}

// Items returns the object whose items a list are.
func (v Value) Items() Value {
	return Value{Type: Type{Kind: Map}, Text: v.Text, binds: postfix, items: &v, fails: true}
}

// Default returns the value with a constant in place of one that is absent.
func (v Value) Default(of Value) (Value, error) {
	if v.items != nil {
		return v, nil
	}
	if v.option == "" {
		return v, nil
	}
	t := common(v.Type, of.Type)
	if of.option != "" || of.CanBeNull() {
		return v, refuse(writeIt, "a default that may be absent is not imported")
	}
	d := fresh(v.Or(of.Text), postfix, t)
	d.fails = v.fails || of.fails
	return d, nil
}

// Variable writes a variable of a context. It fails where Kyverno has an error or null.
func (s *Scope) Variable(of *syntax.Variable) (Value, error) {
	path := Constant("")
	var err error
	if flat := syntax.Flat(of.JMESPath); of.JMESPath != "" {
		if path, err = s.String(flat); err != nil {
			return path, err
		}
	}
	text, ok := path.Constant.(string)
	if !ok || !path.IsConstant {
		return path, refuse("write the path without variables", "a path of a variable that is made of others is not imported")
	}
	var v Value
	switch {
	case of.Value == nil && text == "":
		v = Constant(nil)
	case of.Value == nil:
		v, err = s.Expression(text)
	default:
		v, err = s.JSON(of.Value.Of)
		if err == nil && text != "" {
			v, err = s.On(v, text)
		}
	}
	if err != nil || of.Default == nil {
		if err == nil && v.isNull() {
			return v, refuse("leave it out", "the variable is null, which is an error")
		}
		return required(v), err
	}
	if v.Type.Kind == Any && !v.IsConstant && v.items == nil {
		v.option, v.absent = v.Optional()+".optFlatMap(v, v == null ? optional.none() : optional.of(v))", null
	}
	d, err := s.JSON(of.Default.Of)
	switch {
	case err != nil:
		return d, err
	case v.isNull():
		return d, nil
	}
	return v.Default(d)
}

// required returns a value that fails if it is absent, even as an operand of ||.
func required(v Value) Value {
	v.fails = v.fails || v.absent != never
	if v.Type.Kind == Any && !v.IsConstant && v.items == nil {
		v.Text, v.binds, v.fails = "["+v.Text+"].filter(v, v != null)[0]", postfix, true
	}
	v.absent, v.guard, v.option, v.empty, v.before = never, "", "", "", ""
	return v
}

// On writes a JMESPath expression that is evaluated on a value.
func (s *Scope) On(v Value, text string) (Value, error) {
	n, err := jmespath.Parse(syntax.Flat(text))
	if err != nil {
		return Value{}, refuse("correct the expression", "%s: %v", text, err)
	}
	fails := v.fails
	var read []string
	result, err := (&translation{Scope: s, fails: &fails, hard: &fails, read: &read, steps: new(int)}).node(n, v)
	result.fails = fails
	return result.after(read), err
}

// Elements writes the list that an expression is for a loop: what is missing has no elements, and what is no list
// is one.
func (s *Scope) Elements(text string) (Value, error) {
	v, err := s.Expression(text)
	if err != nil || v.isNull() {
		return Constant([]any{}), err
	}
	switch v.Type.Kind {
	case List:
		return fresh(v.list(), v.emptyBinds(), v.Type), nil
	case Any:
		return fresh(v.Optional()+".optMap(l, type(l) == list ? l : [l]).orValue([])", postfix, ListOf(v.Type.Item())), nil
	default:
		if v.option == "" {
			return fresh("["+v.Text+"]", postfix, ListOf(v.Type)), nil
		}
		return fresh(v.option+".optMap(v, [v]).orValue([])", postfix, ListOf(v.Type)), nil
	}
}

// Required is like [Scope.Elements] for a loop in which a list that is missing is an error.
func Required(s *Scope, text string) (Value, error) {
	v, err := s.Expression(text)
	if err != nil || v.CanBeNull() || !v.CanFail() {
		return s.Elements(text)
	}
	switch v.Type.Kind {
	case List:
		return v, nil
	case Any:
		return fresh("["+v.Text+"].map(l, type(l) == list ? l : l == null ? [] : [l])[0]", postfix, ListOf(v.Type.Item())), nil
	default:
		return fresh("["+v.Text+"]", postfix, ListOf(v.Type)), nil
	}
}

// pattern writes a value of JSON that may be a text with wildcards beside variables: those at its ends are kept apart.
func (s *Scope) pattern(of any) (Value, error) {
	text, ok := of.(string)
	if n := starred(text); n != nil {
		v, err := parsed(s, n, text)
		v.open = [2]bool{false, true}
		return v, err
	}
	if !ok || !wildcardBeside(text) {
		return s.JSON(of)
	}
	inside := strings.TrimSuffix(strings.TrimPrefix(text, "*"), "*")
	if wildcardBeside(inside) {
		return Value{}, refuse(writeIt, "wildcards between variables are not imported")
	}
	v, err := s.String(inside)
	v.open = [2]bool{strings.HasPrefix(text, "*"), strings.HasSuffix(text, "*")}
	return v, err
}

// starred returns an expression that makes texts with * after them by join(), without it; nil for other texts.
func starred(text string) *jmespath.Node {
	parts, err := syntax.Parts(text)
	if err != nil || len(parts) != 1 || parts[0].Expression == "" {
		return nil
	}
	n, err := jmespath.Parse(parts[0].Expression)
	if err != nil {
		return nil
	}
	last := n
	for last.Op == jmespath.Sub || last.Op == jmespath.Project {
		last = last.Args[1]
	}
	if last.Op != jmespath.Call || last.Text != "join" || len(last.Args) != 2 || last.Args[1].Op != jmespath.List {
		return nil
	}
	items := last.Args[1].Args
	if end := items[len(items)-1]; end.Op != jmespath.Literal || end.Value != "*" {
		return nil
	}
	items[len(items)-1] = &jmespath.Node{Op: jmespath.Literal, Value: ""}
	return n
}

// wildcardBeside reports whether a text with variables also has wildcards.
func wildcardBeside(text string) bool {
	parts, err := syntax.Parts(text)
	variables, wildcards := false, false
	for _, part := range parts {
		variables = variables || part.Expression != ""
		wildcards = wildcards || strings.ContainsAny(part.Literal, "*?")
	}
	return err == nil && variables && wildcards
}

// fitsOpen writes whether a text fits a pattern with * before or after a text that is read.
func fitsOpen(s *Scope, k, v Value) (Value, error) {
	if v.Type.Kind == List && v.Type.Item().Kind == Text && k.Type.Kind == Text && k.Type.Plain {
		s.note("wildcards in values that are read are not expanded")
		name := s.ElementName("pattern")
		return truth(v.in(postfix)+".exists("+name+", "+k.in(postfix)+".startsWith("+name+"))", postfix), nil
	}
	if k.Type.Kind != Text && k.Type.Kind != Any || v.Type.Kind != Text {
		return k, refuse(writeIt, "wildcards beside variables in a pattern for something that may not be a text are not imported")
	}
	s.note("wildcards in values that are read are not expanded")
	method := map[[2]bool]string{{true, true}: "contains", {true, false}: "endsWith", {false, true}: "startsWith"}[v.open]
	fits := truth(k.in(postfix)+"."+method+"("+v.Text+")", postfix)
	if k.Type.Kind == Any {
		fits = truth("type("+k.Text+") == string && "+fits.Text, conjunction)
	}
	return fits, nil
}

// Fits writes whether a value fits a text of a pattern that is made of variables.
func (s *Scope) Fits(k Value, pattern string) (Value, error) {
	inside := strings.TrimPrefix(pattern, "!")
	not := inside != pattern
	begins, ends := strings.HasPrefix(inside, "*"), strings.HasSuffix(inside, "*")
	inside = strings.TrimSuffix(strings.TrimPrefix(inside, "*"), "*")
	v, err := s.String(inside)
	if err != nil {
		return v, err
	}
	for _, part := range literals(inside) {
		if strings.ContainsAny(part, "*?|&<>!") {
			return v, refuse(writeIt, "operators and wildcards beside variables in a pattern are not imported")
		}
	}
	if v.CanBeNull() {
		return v, refuse(writeIt, "a pattern that may be null is not imported")
	}
	var result Value
	if v.open = [2]bool{begins, ends}; !begins && !ends {
		result, err = (&operation{Scope: s}).equalValues(k, v)
	} else if result, err = fitsOpen(s, k, v); k.Type.Kind == Any {
		err = refuse(writeIt, "wildcards beside variables in a pattern for something that may not be a text are not imported")
	}
	if err == nil && not {
		result = inverse(result)
	}
	return result, err
}

func literals(text string) []string {
	parts, err := syntax.Parts(text)
	if err != nil {
		return nil
	}
	var all []string
	for _, part := range parts {
		all = append(all, part.Literal)
	}
	return all
}
