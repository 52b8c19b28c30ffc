package expression

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/usher-dev/usher/internal/convert/kyverno/jmespath"
)

// A made is a map that an expression makes: keys with values, some of which may be null, in place of those that another
// map has.
type made struct {
	onto *Value
	keys []string
	of   map[string]Value
	// labels says that it is a map of labels, of which some may be null.
	labels bool
}

// named is what is known of the map under a name.
func (m *made) named() *made {
	if m == nil || !m.labels {
		return nil
	}
	return &made{onto: &Value{}, labels: true}
}

// mapOfExpressions writes a map of expressions. What is missing is null in it.
func mapOfExpressions(t *translation, n *jmespath.Node, on Value) (Value, error) {
	if on.option != "" {
		return on, refuse(writeIt, "a map of what may be absent, such as {a: b}, is not imported")
	}
	m := &made{of: map[string]Value{}}
	for i, key := range n.Keys {
		v, err := t.node(n.Args[i], on)
		switch {
		case err != nil:
			return v, err
		case v.root != nil && n.Args[i].Op == jmespath.Field:
			return v, refuse("name a field of it", "%s is more than a policy can read", n.Args[i].Text)
		case v.Type.Kind == images || v.Type.Kind == image || v.root != nil:
			return v, refuse("name a field of it", "the value of %s in {} is more than a policy can read", key)
		}
		m.set(key, v)
	}
	return m.value()
}

func (m *made) set(key string, v Value) {
	if !slices.Contains(m.keys, key) {
		m.keys = append(m.keys, key)
	}
	m.of[key] = v
}

// orNull is a value of any type, which is null if there is none.
func orNull(v Value) string {
	switch {
	case v.isNull():
		return "dyn(null)"
	case v.option == "":
		return "dyn(" + v.Text + ")"
	case v.option == v.Text:
		return "dyn(" + v.Text + ")"
	}
	return v.option + ".optMap(v, dyn(v)).orValue(null)"
}

// value returns the map. The one that it is made onto is written twice.
func (m *made) value() (Value, error) {
	v := Value{Type: Type{Kind: Map}, binds: postfix, made: m}
	entries := make([]string, len(m.keys))
	for i, key := range m.keys {
		entries[i] = quote(key) + ": " + orNull(m.of[key])
	}
	if m.onto == nil {
		v.Text = "{" + strings.Join(entries, ", ") + "}"
		return v, nil
	}
	base, names := *m.onto, literal(listOf(m.keys))
	chain := "dyn(" + base.in(postfix) + "[k])"
	for _, key := range slices.Backward(m.keys) {
		chain = "k == " + quote(key) + " ? " + orNull(m.of[key]) + " : " + chain
	}
	v.Text = fmt.Sprintf("(%s.map(k, !(k in %s), k) + %s).transformMapEntry(i, k, {k: %s})", base.in(postfix), names, names, chain)
	return v, nil
}

func listOf(texts []string) []any {
	all := make([]any, len(texts))
	for i, text := range texts {
		all[i] = text
	}
	return all
}

// merge writes merge() of a map with those that expressions make.
func merge(_ *translation, args []Value) (Value, error) {
	if len(args) < 2 || args[0].Type.Kind != Map || args[0].made != nil {
		return Value{}, refuse(writeIt, "merge() of something that may be no map, or that is made by {}, is not imported")
	}
	// It fails if there is no map.
	onto := args[0]
	onto.option, onto.absent, onto.guard = "", never, ""
	m := &made{onto: &onto, of: map[string]Value{}}
	valid := HasLabels(onto)
	for _, arg := range args[1:] {
		if arg.made == nil || arg.made.onto != nil {
			return arg, refuse(writeIt, "merge() with a map whose keys are not known is not imported")
		}
		for _, key := range arg.made.keys {
			of := arg.made.of[key]
			m.set(key, of)
			valid = valid && labelKey.MatchString(key) && (of.isNull() || !of.IsConstant && of.Type.Kind == Text && of.Type.Plain)
		}
	}
	m.labels = valid
	return m.value()
}

// labelKey finds keys that are no anchors.
var labelKey = regexp.MustCompile(`^[A-Za-z0-9][-._/A-Za-z0-9]*$`)

// HasLabels reports whether a value is a map of labels, of which some may be null: their keys and values are valid, and
// neither anchors nor variables.
func HasLabels(v Value) bool {
	if v.made != nil {
		return v.made.labels
	}
	return v.Type.part == labels && !v.CanBeNull()
}

// NotNulls returns what is not null in a map of labels.
func NotNulls(v Value) string { return v.in(postfix) + ".transformMap(k, v, v != null, v)" }

// escapes are what a text in JSON has in place of characters.
var escapes = [][2]string{{`\`, `\\`}, {`"`, `\"`}, {"<", `\u003c`}, {">", `\u003e`}, {"&", `\u0026`}, {"\n", `\n`}, {"\r", `\r`}, {"\t", `\t`}, {"\b", `\b`}, {"\f", `\f`}}

// inJSON writes a text of a value in JSON.
func inJSON(s *Scope, v Value) (string, error) {
	if v.IsConstant {
		raw, err := json.Marshal(v.Constant)
		return quote(string(raw)), err
	}
	if v.option != "" {
		inner, err := inJSON(s, fresh("v", postfix, v.Type))
		return v.option + ".optMap(v, " + inner + ").orValue('null')", err
	}
	switch v.Type.Kind {
	case Text:
		s.note("control characters but for those of lines, tabs and backspaces are an error in a text that is written as JSON")
		text := strings.Builder{}
		text.WriteString("[" + v.Text + "].filter(c, !c.matches(r'[\\x00-\\x07\\x0b\\x0e-\\x1f\\x{2028}\\x{2029}]'))[0]")
		for _, e := range escapes {
			text.WriteString(".replace(" + quote(e[0]) + ", " + quote(e[1]) + ")")
		}
		return `'"' + ` + text.String() + ` + '"'`, nil
	case Integer, Bool:
		return "string(" + v.Text + ")", nil
	case List:
		inner, err := inJSON(s, fresh("e", postfix, v.Type.Item()))
		return "'[' + " + v.in(postfix) + ".map(e, " + inner + ").join(',') + ']'", err
	case Map:
		if v.made != nil && v.made.onto == nil {
			return mapInJSON(s, v.made)
		}
	default:
	}
	return "", refuse(writeIt, "the text of what may be a list, a map or a fraction is not imported")
}

func mapInJSON(s *Scope, m *made) (string, error) {
	var parts []string
	for i, key := range slices.Sorted(slices.Values(m.keys)) {
		raw, err := json.Marshal(key)
		if err != nil {
			return "", err
		}
		value, err := inJSON(s, m.of[key])
		if err != nil {
			return "", err
		}
		before := map[bool]string{true: "{", false: ","}[i == 0]
		parts = append(parts, quote(before+string(raw)+":"), parenthesizedText(value))
	}
	return strings.Join(append(parts, "'}'"), " + "), nil
}

func parenthesizedText(text string) string {
	if strings.Contains(text, " + ") {
		return "(" + text + ")"
	}
	return text
}
