package draft

import "strings"

const (
	// deepest is the depth below which values are taken as text.
	deepest = 100
	// mostNodes limits the values of a tree: what follows is not read.
	mostNodes = 200_000
)

// A parser reads one document. It stands at an offset of a line.
type parser struct {
	text     string
	at, line int
	end      int
	depth    int
	nodes    *int
}

// column returns that of the next character.
func (p *parser) column() int { return p.at - p.line }

// skip goes to the next character that is neither blank nor in a comment. It returns false at the end.
func (p *parser) skip() bool {
	if *p.nodes > mostNodes {
		p.at = p.end
	}
	for p.at < p.end {
		switch c := p.text[p.at]; {
		case c == '\n':
			p.at++
			p.line = p.at
		case isBlank(c):
			p.at++
		case c == '#' && p.before():
			p.at = min(lineEnd(p.text, p.at), p.end)
		default:
			return true
		}
	}
	return false
}

// before reports whether the next character begins a word.
func (p *parser) before() bool { return p.at == 0 || isBlank(p.text[p.at-1]) || p.text[p.at-1] == '\n' }

// blanks goes to the next character of the line that is no blank. It returns false at the end of the line, or at a
// comment.
func (p *parser) blanks() bool {
	for p.at < p.end && isBlank(p.text[p.at]) {
		p.at++
	}
	return p.at < p.end && p.text[p.at] != '\n' && (p.text[p.at] != '#' || !p.before())
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }

// block reads the value that is next, if it is indented by more than a column. In a map, a list may be at the
// column of its key.
func (p *parser) block(parent *Node, indent int, inMap bool) *Node {
	*p.nodes++
	n := &Node{Parent: parent, From: p.at, To: p.at}
	from, line := p.at, p.line
	if !p.skip() || p.column() < indent || p.column() == indent && (!inMap || !p.isItem()) {
		p.at, p.line = from, line
		return n
	}
	p.properties()
	n.From, n.To = p.at, p.at
	if p.depth++; p.depth > deepest {
		p.scalar(n, indent)
	} else {
		p.value(n, indent)
	}
	p.depth--
	return n
}

// value reads what is next.
func (p *parser) value(n *Node, indent int) {
	switch {
	case p.at >= p.end:
	case p.isItem():
		p.list(n)
	case p.isKey() || p.isPartial():
		p.mapping(n)
	default:
		p.scalar(n, indent)
	}
}

// properties skips anchors and tags.
func (p *parser) properties() {
	for p.at < p.end && (p.text[p.at] == '&' || p.text[p.at] == '!') {
		for p.at < p.end && !isBlank(p.text[p.at]) && p.text[p.at] != '\n' {
			p.at++
		}
		if !p.blanks() {
			p.skip()
		}
	}
}

// isItem reports whether an item of a list is next.
func (p *parser) isItem() bool {
	return p.at < p.end && p.text[p.at] == '-' && (p.at+1 >= p.end || isBlank(p.text[p.at+1]) || p.text[p.at+1] == '\n')
}

// isKey reports whether a key with its colon is next.
func (p *parser) isKey() bool {
	_, _, ok := p.key()
	return ok
}

// key returns the key that is next, and where its colon is.
func (p *parser) key() (key string, colon int, ok bool) {
	line := p.text[p.at:min(lineEnd(p.text, p.at), p.end)]
	if line == "" {
		return "", 0, false
	}
	if line[0] == '"' || line[0] == '\'' {
		end := closing(line)
		if end < 0 {
			return "", 0, false
		}
		after := strings.TrimLeft(line[end+1:], " \t")
		return line[1:end], p.at + len(line) - len(after), strings.HasPrefix(after, ":")
	}
	if strings.IndexByte("{}[],#|>@`%", line[0]) >= 0 {
		return "", 0, false
	}
	for i := range len(line) {
		switch {
		case line[i] == ':' && (i+1 == len(line) || isBlank(line[i+1])):
			return strings.TrimRight(line[:i], " \t"), p.at + i, i > 0
		case line[i] == '#' && i > 0 && isBlank(line[i-1]):
			return "", 0, false
		}
	}
	return "", 0, false
}

// closing returns where the quotation mark is that ends what the one at the beginning of a text begins; -1 if there
// is none.
func closing(text string) int { return Quoted(text[1:], text[0]) }

// Quoted returns where the rest of a text in quotation marks ends, after the last one; -1 if that is not there.
func Quoted(rest string, quote byte) int {
	for i := 0; i < len(rest); i++ {
		switch {
		case quote == '"' && rest[i] == '\\':
			i++
		case rest[i] != quote:
		case quote == '\'' && i+1 < len(rest) && rest[i+1] == quote:
			i++
		default:
			return i + 1
		}
	}
	return -1
}

// isPartial reports whether the next line is a key without a colon: one with a colon follows at the same column.
func (p *parser) isPartial() bool {
	if strings.IndexByte("{[\"'|>", p.text[p.at]) >= 0 {
		return false
	}
	ahead := *p
	ahead.at = min(lineEnd(p.text, p.at), p.end)
	return ahead.skip() && ahead.column() == p.column() && ahead.isKey()
}

func (p *parser) list(n *Node) {
	n.Kind, n.Column = List, p.column()
	for p.skip() && p.column() == n.Column && p.isItem() {
		p.at++
		n.To = p.at
		item := p.block(n, n.Column, false)
		n.Children, n.To = append(n.Children, item), max(n.To, item.To)
		p.strays(n)
	}
}

func (p *parser) mapping(n *Node) {
	n.Kind, n.Column = Map, p.column()
	for p.skip() && p.column() == n.Column && !p.isItem() {
		n.Children = append(n.Children, p.member(n))
		n.To = p.at
		p.strays(n)
	}
}

// strays skips lines that are indented by more than what they follow allows.
func (p *parser) strays(n *Node) {
	for from := p.at; p.skip() && p.column() > n.Column && (p.line >= from || p.at > from); {
		p.at = min(lineEnd(p.text, p.at), p.end)
	}
}

// member reads a key with its value.
func (p *parser) member(parent *Node) *Node {
	*p.nodes++
	key, colon, ok := p.key()
	n := &Node{Parent: parent, Key: key, KeyFrom: p.at, KeyTo: p.at + len(key)}
	if !ok {
		end := min(lineEnd(p.text, p.at), p.end)
		n.Key = strings.TrimRight(p.text[p.at:end], " \t\r")
		n.KeyTo, n.Partial = p.at+len(n.Key), true
		p.at, n.From, n.To = end, end, end
		return n
	}
	if c := p.text[p.at]; c == '"' || c == '\'' {
		n.KeyTo = p.at + len(key) + 2
	}
	p.at = colon + 1
	if p.blanks() {
		p.properties()
	}
	if p.at < p.end && p.at > colon && p.blanks() {
		n.From, n.To = p.at, p.at
		if p.column() > parent.Column && p.line <= colon {
			p.scalar(n, parent.Column)
			return n
		}
	}
	value := p.block(parent, parent.Column, true)
	value.Key, value.KeyFrom, value.KeyTo = n.Key, n.KeyFrom, n.KeyTo
	if value.Kind == Nothing {
		value.From, value.To = p.at, p.at
	}
	return value
}
