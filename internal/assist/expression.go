package assist

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// An expression is the part of one up to a cursor, as tokens.
type expression struct {
	text   string
	tokens []token
}

// A token is a part of an expression: a word, a literal, or a character.
type token struct {
	from, to int
	// word says that it is a name or a number, and literal that it is a text.
	word, literal bool
}

const (
	// longest limits the expressions that are read, and mostTokens their tokens.
	longest, mostTokens = 1 << 16, 20_000
	// mostFrames limits the macros around a place, and mostOpen the brackets: beyond, nothing is known of names.
	mostFrames, mostOpen = 8, 64
)

// tokens returns the tokens of an expression. A text that is not closed ends it.
func tokensOf(text string) *expression {
	e := &expression{text: text}
	for at := 0; at < len(text) && len(e.tokens) < mostTokens; {
		r, size := utf8.DecodeRuneInString(text[at:])
		t := token{from: at, to: at + size}
		switch {
		case unicode.IsSpace(r):
			at += size
			continue
		case strings.HasPrefix(text[at:], "//"):
			if at = strings.IndexByte(text[at:], '\n') + at; at < t.from {
				return e
			}
			continue
		case r == '"' || r == '\'':
			t.literal, t.to = true, literalEnd(text, at)
		case isWord(r):
			t.word = true
			for t.to < len(text) {
				r, size := utf8.DecodeRuneInString(text[t.to:])
				if !isWord(r) {
					break
				}
				t.to += size
			}
		}
		e.tokens = append(e.tokens, t)
		at = t.to
	}
	return e
}

func isWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }

// literalEnd returns where a text ends that begins at an offset.
func literalEnd(text string, at int) int {
	quote := text[at : at+1]
	if long := strings.Repeat(quote, 3); strings.HasPrefix(text[at:], long) {
		if end := strings.Index(text[at+3:], long); end >= 0 {
			return at + 3 + end + 3
		}
		return len(text)
	}
	raw := at > 0 && (text[at-1] == 'r' || text[at-1] == 'R')
	for i := at + 1; i < len(text); i++ {
		switch {
		case text[i] == '\\' && !raw:
			i++
		case text[i] == quote[0]:
			return i + 1
		case text[i] == '\n':
			return len(text)
		}
	}
	return len(text)
}

// is reports whether a token is this text; none is, if there is no such token.
func (e *expression) is(i int, text string) bool {
	return i >= 0 && i < len(e.tokens) && e.text[e.tokens[i].from:e.tokens[i].to] == text
}

// word returns the name that a token is; empty if it is none.
func (e *expression) word(i int) string {
	if i < 0 || i >= len(e.tokens) || !e.tokens[i].word {
		return ""
	}
	return e.text[e.tokens[i].from:e.tokens[i].to]
}

// operand returns the token with which the operand begins that ends with a token; one more if there is none.
func (e *expression) operand(last int) int {
	i := last
	for i >= 0 {
		switch {
		case e.is(i, ")") || e.is(i, "]") || e.is(i, "}"):
			open := e.opening(i)
			if open < 0 {
				return last + 1
			}
			before := open - 1
			if called := e.word(before) != "" || e.is(open, "[") && (e.is(before, ")") || e.is(before, "]")); !called {
				return open
			}
			i = before
		case e.tokens[i].word || e.tokens[i].literal:
			switch {
			case e.is(i-1, "."):
				i -= 2
			case e.is(i-1, "?") && e.is(i-2, "."):
				i -= 3
			default:
				return i
			}
		default:
			return last + 1
		}
	}
	return last + 1
}

// opening returns the token that opens what a token closes; -1 if there is none.
func (e *expression) opening(last int) int {
	depth := 0
	for i := last; i >= 0; i-- {
		switch {
		case e.is(i, ")") || e.is(i, "]") || e.is(i, "}"):
			depth++
		case e.is(i, "(") || e.is(i, "[") || e.is(i, "{"):
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// A frame is a macro in whose arguments the end of an expression is.
type frame struct {
	macro, over string
	names       []string
	// value is what the name has, for cel.bind.
	value string
}

// frames returns the macros around the end of an expression, the outermost first.
func (e *expression) frames() []frame {
	var open []int
	for i := range e.tokens {
		switch {
		case e.is(i, "(") || e.is(i, "[") || e.is(i, "{"):
			open = append(open, i)
		case len(open) > 0 && (e.is(i, ")") || e.is(i, "]") || e.is(i, "}")):
			open = open[:len(open)-1]
		}
	}
	var all []frame
	if len(open) > mostOpen {
		return nil
	}
	for _, at := range open {
		if f, ok := e.frame(at); ok {
			all = append(all, f)
		}
	}
	if len(all) > mostFrames {
		return nil
	}
	return all
}

// frame returns the macro whose arguments begin behind a bracket.
func (e *expression) frame(open int) (frame, bool) {
	f := frame{macro: e.word(open - 1)}
	if !e.is(open, "(") || !e.is(open-2, ".") || e.word(open+1) == "" || !e.is(open+2, ",") {
		return f, false
	}
	f.names = []string{e.word(open + 1)}
	first := e.operand(open - 3)
	if first > open-3 {
		return f, false
	}
	f.over = e.text[e.tokens[first].from:e.tokens[open-3].to]
	if f.macro == "bind" && f.over == "cel" {
		end := e.argument(open + 3)
		if end < 0 {
			return f, false
		}
		f.value = e.text[e.tokens[open+3].from:e.tokens[end].from]
		return f, true
	}
	if second := e.word(open + 3); second != "" && e.is(open+4, ",") && f.macro != "map" {
		f.names = append(f.names, second)
	}
	switch f.macro {
	case "all", "exists", "existsOne", "exists_one", "filter", "map", "sortBy", "transformList", "transformMap", "transformMapEntry":
		return f, true
	}
	return f, false
}

// argument returns the comma that ends the argument that begins with a token; -1 if there is none.
func (e *expression) argument(from int) int {
	depth := 0
	for i := from; i < len(e.tokens); i++ {
		switch {
		case e.is(i, "(") || e.is(i, "[") || e.is(i, "{"):
			depth++
		case e.is(i, ")") || e.is(i, "]") || e.is(i, "}"):
			depth--
		case e.is(i, ",") && depth == 0:
			return i
		}
	}
	return -1
}

// within returns an expression whose value is that of text where it is in macros.
func within(frames []frame, text string) string {
	for i := len(frames) - 1; i >= 0; i-- {
		f := &frames[i]
		switch {
		case f.macro == "bind":
			text = "cel.bind(" + f.names[0] + ", " + f.value + ", " + text + ")"
		case len(f.names) == 2:
			text = f.over + ".transformList(" + f.names[0] + ", " + f.names[1] + ", " + text + ")[0]"
		default:
			text = f.over + ".map(" + f.names[0] + ", " + text + ")[0]"
		}
	}
	return text
}

// A cursor is a place in an expression.
type cursor struct {
	// receiver is what comes before the dot; empty if there is none. Name is the word at the cursor, of which
	// prefix is before it, from From to To in the expression.
	receiver, name, prefix string
	from, to               int
	frames                 []frame
	// inText says that the place is in a text.
	inText bool
}

// at returns the place of an offset of an expression.
func at(text string, offset int) cursor {
	offset = max(0, min(offset, len(text)))
	c := cursor{from: offset, to: offset}
	if len(text) > longest {
		c.inText = true
		return c
	}
	whole := tokensOf(text)
	for _, t := range whole.tokens {
		switch {
		case t.literal && t.from < offset && (offset < t.to || t.to == len(text) && literalEnd(text[:t.to]+"\n", t.from) > t.to):
			c.inText = true
			return c
		case t.word && t.from <= offset && offset <= t.to:
			c.from, c.to = t.from, t.to
		}
	}
	c.name, c.prefix = text[c.from:c.to], text[c.from:offset]
	before := tokensOf(text[:c.from])
	c.frames = before.frames()
	last := len(before.tokens) - 1
	switch {
	case before.is(last, "."):
		last--
	case before.is(last, "?") && before.is(last-1, "."):
		last -= 2
	default:
		return c
	}
	if first := before.operand(last); first <= last {
		c.receiver = text[before.tokens[first].from:before.tokens[last].to]
	} else {
		c.receiver = "."
	}
	return c
}
