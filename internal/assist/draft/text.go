package draft

import (
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Text is the text that a scalar has, and where each part of it is written.
type Text struct {
	String string

	// spans are the parts, in order: each is text that is written as it is, or one character that is not.
	spans []span
	end   int
}

// A span begins at an offset of the text, and at one of what is written.
type span struct {
	text, source int
	// verbatim says that the characters that follow are written as they are.
	verbatim bool
}

// Source returns where the character at an offset of the text is written.
func (t *Text) Source(offset int) int {
	i := sort.Search(len(t.spans), func(i int) bool { return t.spans[i].text > offset }) - 1
	switch {
	case offset >= len(t.String) || i < 0:
		return t.end
	case t.spans[i].verbatim:
		return t.spans[i].source + offset - t.spans[i].text
	}
	return t.spans[i].source
}

// Offset returns the offset of the text of what is written at a place.
func (t *Text) Offset(source int) int {
	i := sort.Search(len(t.spans), func(i int) bool { return t.spans[i].source > source }) - 1
	if i < 0 {
		return 0
	}
	next := len(t.String)
	if i+1 < len(t.spans) {
		next = t.spans[i+1].text
	}
	if !t.spans[i].verbatim {
		return min(t.spans[i].text, next)
	}
	return min(t.spans[i].text+source-t.spans[i].source, next)
}

// A builder makes a text.
type builder struct {
	text  strings.Builder
	spans []span
}

func (b *builder) verbatim(text string, source int) {
	if text != "" {
		b.spans = append(b.spans, span{b.text.Len(), source, true})
		b.text.WriteString(text)
	}
}

func (b *builder) instead(text string, source int) {
	b.spans = append(b.spans, span{b.text.Len(), source, false})
	b.text.WriteString(text)
}

// Text returns the text of a scalar, as YAML reads it.
func (n *Node) Text() *Text {
	b := &builder{}
	end := n.To
	switch {
	case n.Kind != Scalar:
	case n.style == '|' || n.style == '>':
		end = n.literal(b)
	case n.style == '"' || n.style == '\'':
		from, to := n.From+1, n.To
		if i := closing(n.text[n.From:n.To]); i > 0 {
			to = n.From + i
		}
		end = to
		n.folded(b, from, to)
	default:
		n.folded(b, n.From, n.To)
	}
	return &Text{String: b.text.String(), spans: b.spans, end: end}
}

// folded reads text whose line breaks are blanks: plain, or in quotation marks.
func (n *Node) folded(b *builder, from, to int) {
	for first := true; ; first = false {
		end := lineEnd(n.text[:to], from)
		line := n.text[from:end]
		if !first {
			trimmed := strings.TrimLeft(line, " \t")
			from += len(line) - len(trimmed)
			line = trimmed
		}
		if end < to {
			line = strings.TrimRight(line, " \t\r")
		}
		n.escapes(b, line, from)
		if end >= to {
			return
		}
		broken, breaks := end, 0
		for from = end + 1; from <= to; from = end + 1 {
			if end = lineEnd(n.text[:to], from); strings.TrimSpace(n.text[from:end]) != "" || end >= to {
				break
			}
			breaks++
		}
		if n.style == '"' && strings.HasSuffix(line, `\`) {
			// The line break is escaped.
			continue
		}
		if breaks == 0 {
			b.instead(" ", broken)
		}
		for range breaks {
			b.instead("\n", broken)
		}
	}
}

// escapes reads part of a line, in which quotation marks may have been escaped.
func (n *Node) escapes(b *builder, line string, source int) {
	for line != "" {
		i := -1
		switch n.style {
		case '\'':
			i = strings.Index(line, "''")
		case '"':
			i = strings.IndexByte(line, '\\')
		}
		if i < 0 {
			b.verbatim(line, source)
			return
		}
		b.verbatim(line[:i], source)
		line, source = line[i:], source+i
		size := min(2, len(line))
		if n.style == '\'' {
			b.instead("'", source)
		} else if text, length := unescaped(line); length > 0 {
			b.instead(text, source)
			size = length
		}
		line, source = line[size:], source+size
	}
}

// unescaped returns what an escape sequence at the beginning of a text means, and its length; 0 if that is not known.
func unescaped(text string) (string, int) {
	if len(text) < 2 {
		return "", 0
	}
	switch c := text[1]; c {
	case '/', ' ', '"', '\\', '\t':
		return string(rune(c)), 2
	case '0':
		return "\x00", 2
	case 'e':
		return "\x1b", 2
	case '_':
		return "\u00a0", 2
	case 'N':
		return "\u0085", 2
	case 'L':
		return "\u2028", 2
	case 'P':
		return "\u2029", 2
	}
	form := text[:min(len(text), 10)]
	r, _, rest, err := strconv.UnquoteChar(form, '"')
	if err != nil {
		return "", 0
	}
	return string(r), len(form) - len(rest)
}

// literal reads a block scalar, and returns where it ends.
func (n *Node) literal(b *builder) int {
	first := lineEnd(n.text[:n.To], n.From)
	header, _, _ := strings.Cut(n.text[n.From:first], " ")
	lines := n.lines(first + 1)
	indent := indentation(lines, header, n.Parent)
	last := len(lines)
	for last > 0 && strings.TrimSpace(lines[last-1].text) == "" && len(strings.TrimRight(lines[last-1].text, "\r")) <= indent {
		last--
	}
	end := n.To
	for i := range lines[:last] {
		l := &lines[i]
		cut := min(indent, len(l.text)-len(strings.TrimLeft(l.text, " ")))
		l.text, l.source = strings.TrimSuffix(l.text[cut:], "\r"), l.source+cut
		end = l.source + len(l.text)
	}
	if n.style == '>' {
		fold(b, lines[:last])
	} else {
		for i, l := range lines[:last] {
			if i > 0 {
				b.instead("\n", l.source-1)
			}
			b.verbatim(l.text, l.source)
		}
	}
	switch {
	case strings.Contains(header, "-"):
	case strings.Contains(header, "+"):
		for range len(lines) - last + min(1, last) {
			b.instead("\n", end)
		}
	case last > 0:
		b.instead("\n", end)
	}
	return end
}

type line struct {
	text   string
	source int
}

// lines returns the lines of a scalar from an offset on.
func (n *Node) lines(from int) []line {
	var all []line
	for from <= n.To {
		end := lineEnd(n.text[:n.To], from)
		all = append(all, line{n.text[from:end], from})
		from = end + 1
	}
	return all
}

// indentation returns how far the lines of a block scalar are indented.
func indentation(lines []line, header string, parent *Node) int {
	if i := strings.IndexAny(header, "123456789"); i > 0 {
		column := 0
		if parent != nil && !parent.Flow {
			column = parent.Column
		}
		return column + int(header[i]-'0')
	}
	widest := 0
	for _, l := range lines {
		content := strings.TrimLeft(l.text, " ")
		if strings.TrimSpace(content) != "" {
			return len(l.text) - len(content)
		}
		widest = max(widest, len(l.text)-len(content))
	}
	return widest
}

// fold joins the lines of a folded block scalar: those that are indented, and those around empty ones, stay apart.
func fold(b *builder, lines []line) {
	apart := func(text string) bool { return text != "" && (text[0] == ' ' || text[0] == '\t') }
	for i := 0; i < len(lines); {
		b.verbatim(lines[i].text, lines[i].source)
		next := i + 1
		for next < len(lines) && lines[next].text == "" {
			next++
		}
		if next == len(lines) {
			return
		}
		breaks := next - i - 1
		at := lines[i+1].source - 1
		if lines[i].text == "" || apart(lines[i].text) || apart(lines[next].text) {
			breaks++
		}
		if breaks == 0 {
			b.instead(" ", at)
		}
		for range breaks {
			b.instead("\n", at)
		}
		i = next
	}
}

// Line returns where a line begins and ends, without its line break. Lines count from 0; those that there are not are
// the closest.
func (t *Tree) Line(line int) (from, to int) {
	from = t.starts[max(0, min(line, len(t.starts)-1))]
	return from, from + len(strings.TrimSuffix(t.Text[from:lineEnd(t.Text, from)], "\r"))
}

// EndOfLine returns where the line of an offset ends.
func (t *Tree) EndOfLine(offset int) int {
	_, to := t.Line(t.LineOf(offset))
	return to
}

// LineOf returns the line of an offset, counted from 0.
func (t *Tree) LineOf(offset int) int {
	return max(0, sort.SearchInts(t.starts, offset+1)-1)
}

// Column returns the offset of a column of a line, both counted from 1; columns are characters.
func (t *Tree) Column(line, column int) int {
	from, to := t.Line(line - 1)
	for ; column > 1 && from < to; column-- {
		_, size := utf8.DecodeRuneInString(t.Text[from:to])
		from += size
	}
	return from
}
