package syntax

import (
	"errors"
	"regexp"
	"slices"
	"strings"
)

// A Part of a text is a literal, or what is replaced by a value: one of the fields is set.
type Part struct {
	Literal string
	// Expression is the JMESPath of {{ }}.
	Expression string
	// Reference is the path of $( ) to text of the policy, with an operator before it or without.
	Reference string
}

var (
	variable  = regexp.MustCompile(`\{\{(?:\{[^{}]*\}|[^{}])*\}\}`)
	reference = regexp.MustCompile(`\$\([^ ]+\)`)
)

// Parts splits a text into literals, whose escapes are resolved, and the rest. An empty text has no parts.
func Parts(text string) ([]Part, error) {
	var parts []Part
	begin := 0
	text = flat(text)
	for _, at := range variable.FindAllStringIndex(text, -1) {
		if at[0] > 0 && text[at[0]-1] == '\\' {
			continue
		}
		expression := strings.NewReplacer("{{", "", "}}", "").Replace(text[at[0]:at[1]])
		// A minus says that variables in the value stay as they are.
		expression = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(expression), "-"))
		if expression == "" {
			return nil, errors.New("a variable {{ }} is empty")
		}
		parts = append(literals(parts, text[begin:at[0]]), Part{Expression: expression})
		begin = at[1]
	}
	parts = literals(parts, text[begin:])
	var outer strings.Builder
	for _, p := range parts {
		if p.Expression != "" {
			p.Literal = "x"
		}
		outer.WriteString(p.Literal)
	}
	if begin > 0 && variable.MatchString(outer.String()) {
		return nil, errors.New("a variable {{ }} is inside another one")
	}
	return parts, nil
}

// Flat returns a text in which variables that are all of a quoted text of an expression have other braces, which
// [jmespath.Parse] knows.
func Flat(text string) string { return flattened(text, func(string, int, int) bool { return true }) }

// flat does so for variables that are in others.
func flat(text string) string {
	return flattened(text, func(inner string, begin, end int) bool {
		return slices.ContainsFunc(variable.FindAllStringIndex(masked(inner), -1), func(outer []int) bool { return outer[0] < begin && outer[1] > end })
	})
}

// masked returns a text of the same length without the braces of variables that are all of a quoted text.
func masked(text string) string {
	for _, at := range variable.FindAllStringIndex(text, -1) {
		if quotedAt(text, at) {
			text = text[:at[0]] + "\x01\x01" + text[at[0]+2:at[1]-2] + "\x02\x02" + text[at[1]:]
		}
	}
	return text
}

// quotedAt reports whether a part of a text has the same quotes before and after it.
func quotedAt(text string, at []int) bool {
	return at[0] > 0 && at[1] < len(text) && text[at[0]-1] == text[at[1]] && strings.ContainsRune("'\"`", rune(text[at[1]]))
}

// flattened replaces the braces of one variable after the other.
func flattened(text string, replace func(inner string, begin, end int) bool) string {
	for range 20 {
		changed := false
		for _, at := range variable.FindAllStringIndex(text, -1) {
			if !quotedAt(text, at) {
				continue
			}
			inner := text[:at[0]] + "\x01" + strings.TrimSpace(text[at[0]+2:at[1]-2]) + "\x02" + text[at[1]:]
			if replace(inner, at[0], at[0]+1) {
				text, changed = inner, true
				break
			}
		}
		if !changed {
			break
		}
	}
	return text
}

// literals adds a text without variables, in which there may be references.
func literals(parts []Part, text string) []Part {
	add := func(literal string) {
		if literal = strings.NewReplacer(`\{{`, "{{", `\$(`, "$(").Replace(literal); literal != "" {
			parts = append(parts, Part{Literal: literal})
		}
	}
	begin := 0
	for _, at := range reference.FindAllStringIndex(text, -1) {
		if at[0] > 0 && text[at[0]-1] == '\\' {
			continue
		}
		add(text[begin:at[0]])
		parts = append(parts, Part{Reference: strings.Trim(text[at[0]:at[1]], "$()")})
		begin = at[1]
	}
	add(text[begin:])
	return parts
}

// Literal returns a text without variables and references, and whether it is one.
func Literal(text string) (string, bool) {
	parts, err := Parts(text)
	switch {
	case err != nil || len(parts) > 1:
		return "", false
	case len(parts) == 0:
		return "", true
	}
	return parts[0].Literal, parts[0].Expression == "" && parts[0].Reference == ""
}
