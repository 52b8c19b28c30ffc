package expression

import (
	"strings"

	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
)

// JSON writes a value of JSON, in which texts may have variables {{ }}.
func (s *Scope) JSON(of any) (Value, error) {
	switch v := of.(type) {
	case string:
		return s.String(v)
	case []any:
		return s.items(v)
	case map[string]any:
		for key, inner := range v {
			if c, err := s.JSON(inner); err != nil || !c.IsConstant || strings.Contains(key, "{{") {
				return Value{}, refuse(writeIt, "a map with variables as a value is not imported")
			}
		}
	}
	return Constant(of), nil
}

func (s *Scope) items(of []any) (Value, error) {
	values, constants := make([]Value, len(of)), make([]any, len(of))
	known := true
	var item Type
	for i := range of {
		var err error
		if values[i], err = s.JSON(of[i]); err != nil {
			return Value{}, err
		}
		known = known && values[i].IsConstant
		constants[i] = values[i].Constant
		if i > 0 && !values[i].Type.same(item) {
			item = Type{}
			continue
		}
		item.Kind, item.Plain = values[i].Type.Kind, values[i].Type.Plain && (i == 0 || item.Plain)
	}
	if known {
		return Constant(constants), nil
	}
	texts := make([]string, len(values))
	list := Value{Type: ListOf(item), binds: postfix}
	for i, v := range values {
		if v.CanBeNull() || v.Type.Kind == List {
			return v, refuse(writeIt, "a list as an element of a list is not imported")
		}
		texts[i] = v.Text
		if item.Kind == Any {
			texts[i] = "dyn(" + v.Text + ")"
		}
		list.fails = list.fails || v.CanFail()
	}
	list.Text = "[" + strings.Join(texts, ", ") + "]"
	return list, nil
}

// String writes a text with variables {{ }}. One that is nothing but a variable is its value, of any kind.
func (s *Scope) String(text string) (Value, error) {
	parts, err := syntax.Parts(text)
	switch {
	case err != nil:
		return Value{}, refuse(writeIt, "%s: %v", text, err)
	case len(parts) == 0:
		return Constant(""), nil
	}
	if len(parts) == 1 && parts[0].Expression != "" {
		return s.Expression(parts[0].Expression)
	}
	all := Value{Type: Type{Kind: Text, Plain: true}, binds: sum}
	var texts []string
	for _, part := range parts {
		var v Value
		switch {
		case part.Reference != "":
			return v, refuse("write the value in its place", "a reference $(%s) is not imported here", part.Reference)
		case part.Expression != "":
			if v, err = s.Expression(part.Expression); err != nil {
				return v, err
			}
			all.fails = all.fails || v.CanFail()
			if v.CanBeNull() {
				v, err = s.AsText(v)
			} else {
				v, err = s.textOf(v)
			}
			if err != nil {
				return v, err
			}
		default:
			v = Constant(part.Literal)
		}
		all.Type.Plain = all.Type.Plain && v.Type.Plain
		texts = append(texts, v.in(sum))
	}
	if len(parts) == 1 && parts[0].Expression == "" {
		return Constant(parts[0].Literal), nil
	}
	all.Text = strings.Join(texts, " + ")
	return all, nil
}

// Message writes a text with variables for the users who read it: values that are absent are left out, and lists
// and maps are written as CEL writes them. The Text is one expression; IsConstant says that there is none.
func (s *Scope) Message(text string) (Value, error) {
	parts, err := syntax.Parts(text)
	if err != nil {
		return Value{}, refuse(writeIt, "%s: %v", text, err)
	}
	var texts []string
	constant, literal := true, false
	for _, part := range parts {
		var v Value
		switch {
		case part.Reference != "":
			return v, refuse("write the value in its place", "a reference $(%s) is not imported in messages", part.Reference)
		case part.Expression == "":
			texts, literal = append(texts, quote(part.Literal)), true
			continue
		}
		constant = false
		if v, err = s.Expression(part.Expression); err != nil {
			return v, err
		}
		switch v.Type.Kind {
		case Text:
			v = fresh(v.Or("''"), min(v.binds, v.optionBinds()), v.Type)
			texts = append(texts, v.in(sum))
		case List:
			if v.Type.Item().Kind == Text {
				texts = append(texts, fresh(v.list(), v.emptyBinds(), v.Type).in(postfix)+".join(', ')")
				continue
			}
			texts = append(texts, "'%s'.format(["+v.list()+"])")
		default:
			texts = append(texts, "'%s'.format(["+v.Or("null")+"])")
		}
	}
	if constant {
		c := strings.Builder{}
		for _, part := range parts {
			c.WriteString(part.Literal)
		}
		return Constant(c.String()), nil
	}
	if !literal && !strings.HasPrefix(texts[0], "'") {
		// Values of which nothing is known have to become text.
		texts[0] = "string(" + texts[0] + ")"
	}
	return fresh(strings.Join(texts, " + "), sum, Type{Kind: Text}), nil
}
