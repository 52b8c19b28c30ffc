package draft

import "strings"

// scalar reads what is next and is no map or list in block style: text, or something in brackets. It ends before the
// next line that is not indented by more than a column.
func (p *parser) scalar(n *Node, indent int) {
	n.Kind, n.From = Scalar, p.at
	switch c := p.text[p.at]; c {
	case '|', '>':
		p.literal(n, indent)
	case '{', '[':
		p.flow(n, indent)
		p.at = max(p.at, n.To)
	case '"', '\'':
		p.quoted(n, indent)
	default:
		p.plain(n, indent)
	}
	n.text = p.text
}

// literal reads a block scalar.
func (p *parser) literal(n *Node, indent int) {
	n.style = p.text[p.at]
	p.at = min(lineEnd(p.text, p.at), p.end)
	n.To = p.at
	for p.at < p.end {
		from := p.at + 1
		to := min(lineEnd(p.text, min(from, p.end)), p.end)
		if from > to {
			break
		}
		line := p.text[from:to]
		if content := strings.TrimLeft(line, " "); strings.TrimSpace(content) != "" && len(line)-len(content) <= indent {
			break
		}
		p.at, p.line = to, from
		n.To = to
	}
}

// quoted reads a text in quotation marks. One that does not end is a line.
func (p *parser) quoted(n *Node, indent int) {
	n.style = p.text[p.at]
	to := limit(p, indent)
	end := closing(p.text[p.at:to])
	if end < 0 {
		p.at = min(lineEnd(p.text, p.at), to)
		n.To = p.at
		return
	}
	p.advance(p.at + end + 1)
	n.To = p.at
	if (n.Parent == nil || !n.Parent.Flow) && p.blanks() {
		// YAML takes the beginning for the whole, and reports an error.
		p.at = min(lineEnd(p.text, p.at), p.end)
		n.To = p.at
	}
}

// advance goes to an offset ahead.
func (p *parser) advance(to int) {
	if i := strings.LastIndexByte(p.text[p.at:to], '\n'); i >= 0 {
		p.line = p.at + i + 1
	}
	p.at = to
}

// limit returns where the next line begins that is not indented by more than a column.
func limit(p *parser, indent int) int {
	if indent < 0 {
		return p.end
	}
	at := lineEnd(p.text, p.at)
	for at < p.end {
		begin := at + 1
		at = lineEnd(p.text, min(begin, len(p.text)))
		if begin > at {
			break
		}
		line := p.text[begin:at]
		if content := strings.TrimLeft(line, " \t\r"); content != "" && len(line)-len(content) <= indent {
			// A bracket may be at the column of its key.
			if strings.IndexByte("]}", content[0]) < 0 || len(line)-len(content) < indent {
				return min(begin-1, p.end)
			}
		}
	}
	return p.end
}

// plain reads text without quotation marks, which may go on in lines that are indented.
func (p *parser) plain(n *Node, indent int) {
	for {
		end := min(lineEnd(p.text, p.at), p.end)
		line := p.text[p.at:end]
		comment := false
		if i := strings.Index(line, " #"); i >= 0 {
			line, comment = line[:i], true
		}
		n.To = p.at + len(strings.TrimRight(line, " \t\r"))
		p.at = end
		ahead := *p
		if comment || !ahead.skip() || ahead.column() <= indent || strings.HasPrefix(strings.TrimLeft(ahead.text[p.at:min(ahead.at+1, p.end)], " \t\r\n"), "#") {
			return
		}
		if ahead.isKey() && !strings.Contains(line, ": ") {
			// A key below a text is a mistake of indentation.
			return
		}
		*p = ahead
	}
}

// flow reads a map or a list in brackets. What is not closed ends where the text has other indentation.
func (p *parser) flow(n *Node, indent int) {
	limited := *p
	limited.end = limit(p, indent)
	limited.brackets(n)
	end := p.end
	*p = limited
	p.end = end
}

// brackets reads a map or a list in brackets up to the end of the text.
func (p *parser) brackets(n *Node) {
	n.Kind, n.Flow, n.From = List, true, p.at
	last := byte(']')
	if p.text[p.at] == '{' {
		n.Kind, last = Map, '}'
	}
	p.depth++
	defer func() { p.depth-- }()
	p.at++
	for p.skip() {
		switch c := p.text[p.at]; {
		case c == last:
			p.at++
			n.To = p.at
			return
		case c == ']' || c == '}':
			// One of a collection around this one, or one too many.
			n.To = p.at
			if p.depth == 1 {
				p.at++
			}
			return
		case c == ',':
			p.at++
		default:
			n.Children = append(n.Children, p.entry(n))
		}
		n.To = p.at
	}
	n.To = p.at
}

// entry reads a member of a map or an item of a list in brackets.
func (p *parser) entry(parent *Node) *Node {
	*p.nodes++
	n := &Node{Parent: parent, From: p.at, To: p.at}
	if parent.Kind == List {
		p.inner(n)
		return n
	}
	p.inner(n)
	n.Key, n.KeyFrom, n.KeyTo = n.Value(), n.From, n.To
	*n = Node{Parent: parent, Key: n.Key, KeyFrom: n.From, KeyTo: n.To, From: n.To, To: n.To, Partial: true}
	if p.skip() && p.text[p.at] == ':' {
		p.at++
		n.Partial, n.From, n.To = false, p.at, p.at
		if p.skip() && strings.IndexByte(",]}", p.text[p.at]) < 0 {
			p.inner(n)
		} else {
			n.To = p.at
		}
	}
	return n
}

// inner reads a value in brackets.
func (p *parser) inner(n *Node) {
	p.properties()
	if n.Kind, n.From, n.To, n.text = Scalar, p.at, p.at, p.text; p.at >= p.end {
		return
	}
	switch c := p.text[p.at]; {
	case (c == '{' || c == '[') && p.depth < deepest:
		p.brackets(n)
	case c == '"' || c == '\'':
		p.quoted(n, -1)
	default:
		p.word(n)
	}
}

// word reads text in brackets without quotation marks.
func (p *parser) word(n *Node) {
	for begin := p.at; p.at < p.end; p.at++ {
		c := p.text[p.at]
		next := byte(' ')
		if p.at+1 < p.end {
			next = p.text[p.at+1]
		}
		switch {
		case p.at > begin && (c == ',' || c == '}' || c == ']' || c == '{' || c == '['):
			return
		case c == ':' && (isBlank(next) || next == '\n' || strings.IndexByte(",[]{}", next) >= 0):
			if p.at == begin {
				p.at++
			}
			return
		case c == '#' && p.before():
			return
		case c == '\n':
			p.line = p.at + 1
		case !isBlank(c):
			n.To = p.at + 1
		}
	}
}
