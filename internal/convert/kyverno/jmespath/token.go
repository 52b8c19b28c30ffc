package jmespath

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

type tokenKind int

const (
	end tokenKind = iota
	name
	quotedName
	number
	literal
	closeBracket
	closeParen
	comma
	closeBrace
	at
	ampersand
	colon
	pipe
	or
	and
	compare
	flatten
	star
	filter
	dot
	not
	openBrace
	openBracket
	openParen
)

// power says how much an operator binds. A projection ends at one that binds less than 10.
func (k tokenKind) power() int {
	switch k {
	case pipe:
		return 1
	case or:
		return 2
	case and:
		return 3
	case compare:
		return 5
	case flatten:
		return 9
	case star:
		return 20
	case filter:
		return 21
	case dot:
		return 40
	case not:
		return 45
	case openBrace:
		return 50
	case openBracket:
		return 55
	case openParen:
		return 60
	default:
		return 0
	}
}

type token struct {
	kind   tokenKind
	text   string
	value  any
	offset int
}

// tokenize returns the tokens of a text, with one at its end.
func tokenize(text string) ([]token, error) {
	var tokens []token
	for offset := 0; offset < len(text); {
		t := token{offset: offset}
		length, err := t.read(text[offset:])
		if err != nil {
			return nil, &SyntaxError{What: err.Error(), Offset: offset}
		}
		if t.text != "" || t.kind != end {
			tokens = append(tokens, t)
		}
		offset += length
	}
	return append(tokens, token{offset: len(text)}), nil
}

type lexical string

func (e lexical) Error() string { return string(e) }

// read reads a token, or a space, and returns its length.
func (t *token) read(text string) (int, error) {
	for _, long := range []struct {
		text string
		kind tokenKind
	}{
		{"||", or}, {"&&", and}, {"[?", filter}, {"[]", flatten}, {"==", compare}, {"!=", compare}, {"<=", compare}, {">=", compare},
		{"<", compare}, {">", compare}, {"|", pipe}, {"&", ampersand}, {"[", openBracket}, {"!", not}, {"]", closeBracket},
		{"(", openParen}, {")", closeParen}, {"{", openBrace}, {"}", closeBrace}, {",", comma}, {":", colon}, {".", dot}, {"*", star}, {"@", at},
	} {
		if strings.HasPrefix(text, long.text) {
			t.kind, t.text = long.kind, long.text
			return len(long.text), nil
		}
	}
	switch first := text[0]; {
	case strings.IndexByte(" \t\r\n", first) >= 0:
		return 1, nil
	case first == '-' || first >= '0' && first <= '9':
		n := 1
		for n < len(text) && text[n] >= '0' && text[n] <= '9' {
			n++
		}
		t.kind, t.text = number, text[:n]
		return n, nil
	case first == '"' || first == '\'' || first == '`':
		return t.quoted(text)
	}
	n := strings.IndexFunc(text, func(r rune) bool { return !inName(r) })
	if n < 0 {
		n = len(text)
	}
	if n == 0 {
		r, _ := utf8.DecodeRuneInString(text)
		return 0, lexical("unexpected " + strconv.QuoteRune(r))
	}
	t.kind, t.text = name, text[:n]
	return n, nil
}

func inName(r rune) bool {
	return r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}

// quoted reads a quoted name, a text in single quotes, or JSON in backquotes.
func (t *token) quoted(text string) (int, error) {
	quote := text[0]
	n := 1
	if strings.HasPrefix(text[1:], Begin) {
		n = max(n, closing(text))
	}
	for n < len(text) && text[n] != quote {
		if text[n] == '\\' && (quote != '\'' || n+1 < len(text) && text[n+1] == quote) {
			n++
		}
		n++
	}
	if n >= len(text) {
		return 0, lexical("there is no " + string(quote) + " at the end")
	}
	inside := text[1:n]
	t.text = text[:n+1]
	switch quote {
	case '\'':
		t.kind, t.value = literal, strings.ReplaceAll(inside, `\'`, `'`)
	case '`':
		t.kind = literal
		if strings.HasPrefix(inside, Begin) {
			t.value = inside
			break
		}
		if err := json.Unmarshal([]byte(strings.ReplaceAll(inside, "\\`", "`")), &t.value); err != nil {
			return 0, lexical("no JSON in backquotes: " + err.Error())
		}
	case '"':
		t.kind = quotedName
		if strings.HasPrefix(inside, Begin) {
			t.text = inside
			break
		}
		if err := json.Unmarshal([]byte(t.text), &t.text); err != nil {
			return 0, lexical("no key in quotes: " + err.Error())
		}
	}
	return n + 1, nil
}

// closing returns where the variable ends that a quoted text is; 0 if it does not end.
func closing(text string) int {
	depth := 0
	for i := range len(text) {
		switch text[i : i+1] {
		case Begin:
			depth++
		case End:
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return 0
}
