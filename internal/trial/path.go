package trial

import (
	"regexp"
	"slices"
	"strings"

	"github.com/usher-dev/usher/internal/rule"
)

// A path leads to a field; "[]" is every element of a list.
type path []string

var fieldWord = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)

// isKey reports whether p is a label or an annotation.
func (p path) isKey() bool {
	return len(p) == 3 && p[0] == "metadata" && (p[1] == "labels" || p[1] == "annotations")
}

// isIdentity reports whether every object has the field when webhooks see it.
func (p path) isIdentity() bool {
	if len(p) == 1 {
		return p[0] == "apiVersion" || p[0] == "kind" || p[0] == "metadata"
	}
	return len(p) == 0 || p[0] == "metadata" && (p[1] == "name" || p[1] == "namespace")
}

// below reports whether p lies below or at other.
func (p path) below(other path) bool {
	return len(p) >= len(other) && slices.Equal(p[:len(other)], other)
}

func (p path) inList() bool { return slices.Contains(p, rule.Element) }

// expression returns the path as programs write it.
func (p path) expression() string {
	var text strings.Builder
	for i, name := range p {
		switch {
		case name == rule.Element:
			text.WriteString(name)
		case name == "" || fieldWord.FindString(name) != name:
			text.WriteString(`["` + name + `"]`)
		case i > 0:
			text.WriteString("." + name)
		default:
			text.WriteString(name)
		}
	}
	return text.String()
}

// lacking describes an object without the field.
func (p path) lacking() string {
	switch {
	case p.isKey():
		return "without the " + strings.TrimSuffix(p[1], "s") + " " + p[2]
	case p.inList():
		return "with an element that has no " + p.expression()
	case len(p) == 2 && p[0] == "metadata":
		return "without " + p[1]
	}
	return "without " + p.expression()
}

// pointer returns the path as a JSON pointer.
func (p path) pointer() string {
	var text strings.Builder
	for _, name := range p {
		text.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
	}
	return text.String()
}

// pathOf parses a JSON pointer; nil if it is invalid.
func pathOf(pointer string) path {
	if !strings.HasPrefix(pointer, "/") {
		return nil
	}
	p := path(strings.Split(pointer[1:], "/"))
	for i := range p {
		p[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(p[i])
	}
	return p
}
