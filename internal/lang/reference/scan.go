package reference

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// parseChain reads a chain of CUE selectors: a.b."c d"["e.f"][0]. It is not ok for
// anything else.
func parseChain(text string) ([]step, bool) {
	var steps []step
	for rest := text; rest != "" || len(steps) == 0; {
		var s step
		var ok bool
		switch {
		case rest != "" && rest[0] == '[' && len(steps) > 0:
			s, rest, ok = cutIndex(rest)
		case len(steps) > 0 && (rest[0] != '.' || len(rest) == 1):
			return nil, false
		default:
			s, rest, ok = cutLabel(strings.TrimPrefix(rest, "."))
		}
		if !ok {
			return nil, false
		}
		steps = append(steps, s)
	}
	return steps, !strings.HasPrefix(text, ".")
}

// cutIndex reads ["key"] or [0].
func cutIndex(text string) (s step, rest string, ok bool) {
	inner := text[1:]
	if strings.HasPrefix(inner, `"`) {
		if s, rest, ok = cutLabel(inner); !ok || !strings.HasPrefix(rest, "]") {
			return step{}, "", false
		}
		return s, rest[1:], true
	}
	digits, rest, ok := strings.Cut(inner, "]")
	if !ok || !isDigits(digits) || len(digits) > 1 && digits[0] == '0' {
		return step{}, "", false
	}
	index, err := strconv.Atoi(digits)
	return step{index: index}, rest, err == nil
}

// cutLabel reads name or "key".
func cutLabel(text string) (s step, rest string, ok bool) {
	if strings.HasPrefix(text, `"`) {
		end := stringEnd(text)
		if end < 0 {
			return step{}, "", false
		}
		t := ParseText(text[1 : end-1])
		key, literal := t.Literal()
		return step{key: &key}, text[end:], literal
	}
	end := 0
	for end < len(text) {
		r, size := utf8.DecodeRuneInString(text[end:])
		if !isNameRune(r, end == 0) {
			break
		}
		end += size
	}
	key := text[:end]
	return step{key: &key}, text[end:], end > 0
}

// stringEnd returns where the string literal that text begins with ends, -1 if it does not
// end on its line or is of a multi-line form.
func stringEnd(text string) int {
	if strings.HasPrefix(text, `"""`) {
		return -1
	}
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case isControl(c):
			return -1
		case c == '"':
			return i + 1
		case c == '\\':
			if i++; i < len(text) && text[i] == '(' {
				end := groupEnd(text[i:])
				if end < 0 {
					return -1
				}
				i += end - 1
			}
		}
	}
	return -1
}

// groupEnd returns where the bracket that text begins with is closed, -1 if it is not, or
// not in a way that is certain.
func groupEnd(text string) int {
	var open []byte
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			end := stringEnd(text[i:])
			if end < 0 {
				return -1
			}
			i += end - 1
		case isControl(c) || strings.IndexByte("'#@", c) >= 0 || strings.HasPrefix(text[i:], "//"):
			return -1
		case c == '(' || c == '[' || c == '{':
			open = append(open, c)
		case c == ')' || c == ']' || c == '}':
			if len(open) == 0 || !closes(open[len(open)-1], c) {
				return -1
			}
			if open = open[:len(open)-1]; len(open) == 0 {
				return i + 1
			}
		}
	}
	return -1
}

func closes(open, c byte) bool {
	return open == '(' && c == ')' || open == '[' && c == ']' || open == '{' && c == '}'
}

// selfContained reports whether a piece of CUE stays one expression wherever it is pasted:
// its brackets and strings are closed, and it neither ends nor starts a field.
func selfContained(text string) bool {
	if groupEnd("("+text+")") != len(text)+2 {
		return false
	}
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i += stringEnd(text[i:]) - 1
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		case ',', ':', ';':
			if depth == 0 {
				return false
			}
		}
	}
	return true
}

func startsOperand(text string) bool {
	r, _ := utf8.DecodeRuneInString(text)
	return isNameRune(r, true) || r == '"'
}

// isControl reports whether a byte could end a line or is not to be seen.
func isControl(c byte) bool { return c < ' ' && c != '\t' || c == 0x7f }

func isDigits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

func isNameRune(r rune, first bool) bool {
	return r == '_' || r == '$' || unicode.IsLetter(r) && r != utf8.RuneError || !first && unicode.IsDigit(r)
}

// IsPlainName reports whether a key can stand after a dot in every version of CUE. Names
// with a leading underscore are hidden there, and keywords are not names.
func IsPlainName(key string) bool {
	switch key {
	case "", "true", "false", "null", "for", "in", "if", "let", "import", "package", "div", "mod", "quo", "rem":
		return false
	}
	for i := range len(key) {
		c := key[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c != '_' && (c < '0' || c > '9')) {
			return false
		}
	}
	return true
}
