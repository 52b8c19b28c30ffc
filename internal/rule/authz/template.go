package authz

import (
	"fmt"
	"strings"
)

// A Template is a text with placeholders, such as $(user), for values of a request.
type Template struct {
	text  string
	parts []part
}

type part struct {
	literal string
	// of is the source of the placeholder; zero for a literal. Key is that of extra.
	of  placeholder
	key string
}

type placeholder uint8

const (
	literal placeholder = iota
	userName
	accountNamespace
	accountName
	nodeName
	extraValue
)

// ParseTemplate reads a text with any number of placeholders: $(user),
// $(serviceAccount.namespace), $(serviceAccount.name), $(node) and $(extra:KEY).
func ParseTemplate(text string) (Template, error) {
	t := Template{text: text}
	for rest := text; rest != ""; {
		before, after, found := strings.Cut(rest, "$(")
		if before != "" {
			t.parts = append(t.parts, part{literal: before})
		}
		if !found {
			break
		}
		name, tail, closed := strings.Cut(after, ")")
		if !closed {
			return Template{}, fmt.Errorf("%q has a placeholder without closing parenthesis", text)
		}
		p, err := placeholderOf(name)
		if err != nil {
			return Template{}, err
		}
		t.parts = append(t.parts, p)
		rest = tail
	}
	return t, nil
}

func placeholderOf(name string) (part, error) {
	switch name {
	case "user":
		return part{of: userName}, nil
	case "serviceAccount.namespace":
		return part{of: accountNamespace}, nil
	case "serviceAccount.name":
		return part{of: accountName}, nil
	case "node":
		return part{of: nodeName}, nil
	}
	if key, ok := strings.CutPrefix(name, "extra:"); ok && key != "" {
		return part{of: extraValue, key: key}, nil
	}
	return part{}, fmt.Errorf("$(%s) is no placeholder: there are $(user), $(serviceAccount.namespace), $(serviceAccount.name), $(node) and $(extra:KEY)", name)
}

// Literal returns the text without placeholders, and whether there are none.
func (t *Template) Literal() (string, bool) {
	for i := range t.parts {
		if t.parts[i].of != literal {
			return "", false
		}
	}
	return t.text, true
}

// resolves reports whether each placeholder has exactly one value, which is not empty.
func (t *Template) resolves(q *Query) bool {
	for i := range t.parts {
		if t.parts[i].of != literal && t.parts[i].value(q) == "" {
			return false
		}
	}
	return true
}

// equals reports whether the value of the template is text, and whether it has a value.
func (t *Template) equals(text string, q *Query) (equal, ok bool) {
	if !t.resolves(q) {
		return false, false
	}
	for i := range t.parts {
		rest, found := strings.CutPrefix(text, t.parts[i].value(q))
		if !found {
			return false, true
		}
		text = rest
	}
	return text == "", true
}

func (p *part) value(q *Query) string {
	switch p.of {
	case literal:
		return p.literal
	case userName:
		return q.User.Name
	case accountNamespace:
		return q.AccountNamespace
	case accountName:
		return q.AccountName
	case nodeName:
		return q.Node
	case extraValue:
		if values := q.User.Extra[p.key]; len(values) == 1 {
			return values[0]
		}
	}
	return ""
}

// String is the template as it is written.
func (t Template) String() string { return t.text }

// Literal returns a template whose value is text; placeholders in it have no meaning.
func Literal(text string) Template {
	return Template{text: text, parts: []part{{literal: text}}}
}
