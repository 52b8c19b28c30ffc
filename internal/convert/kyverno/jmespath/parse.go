package jmespath

import (
	"fmt"
	"strconv"
	"strings"
)

type parser struct {
	tokens []token
	next   int
	depth  int
}

func (p *parser) kind() tokenKind { return p.tokens[p.next].kind }

func (p *parser) take() token {
	t := p.tokens[p.next]
	if t.kind != end {
		p.next++
	}
	return t
}

func (p *parser) expect(kind tokenKind) error {
	if p.kind() != kind {
		return p.unexpected()
	}
	p.take()
	return nil
}

func (p *parser) unexpected() error {
	t := p.tokens[p.next]
	if t.kind == end {
		return &SyntaxError{What: "the expression is incomplete", Offset: t.offset}
	}
	return &SyntaxError{What: "unexpected " + strconv.Quote(t.text), Offset: t.offset}
}

// expression parses an expression whose operators bind more than power.
func (p *parser) expression(power int) (*Node, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, &SyntaxError{What: fmt.Sprintf("more than %d expressions in one another", maxDepth), Offset: p.tokens[p.next].offset}
	}
	defer func() { p.depth-- }()
	left, err := p.first()
	for n := 0; err == nil && power < p.kind().power(); n++ {
		if n > maxDepth {
			return nil, &SyntaxError{What: fmt.Sprintf("more than %d operators after one another", maxDepth), Offset: p.tokens[p.next].offset}
		}
		left, err = p.then(left)
	}
	return left, err
}

// first parses what an expression begins with.
func (p *parser) first() (*Node, error) {
	t := p.take()
	switch t.kind {
	case literal:
		return p.literal(t)
	case name, quotedName:
		if strings.HasPrefix(t.text, Begin) {
			return p.inner(Key, t.text)
		}
		if t.kind == quotedName && p.kind() == openParen {
			return nil, p.unexpected()
		}
		return &Node{Op: Field, Text: t.text}, nil
	case at:
		return &Node{Op: Current}, nil
	case star:
		if p.kind() == closeBracket {
			return &Node{Op: ProjectValues, Args: []*Node{{Op: Current}, {Op: Current}}}, nil
		}
		return p.projected(ProjectValues, &Node{Op: Current}, star.power())
	case filter:
		return p.filtered(&Node{Op: Current})
	case flatten:
		return p.projected(Project, &Node{Op: Flatten, Args: []*Node{{Op: Current}}}, flatten.power())
	case openBracket:
		return p.bracketed()
	case openBrace:
		return p.object()
	case ampersand:
		return p.unary(Reference, ampersand)
	case not:
		return p.unary(Not, not)
	case openParen:
		inner, err := p.expression(0)
		if err != nil {
			return nil, err
		}
		return inner, p.expect(closeParen)
	default:
		p.next = max(0, p.next-1)
		if t.kind == end {
			p.next = len(p.tokens) - 1
		}
		return nil, p.unexpected()
	}
}

// bracketed parses what follows a bracket at the beginning of an expression.
func (p *parser) bracketed() (*Node, error) {
	switch {
	case p.kind() == number || p.kind() == colon:
		return p.indexed(&Node{Op: Current})
	case p.kind() == star && p.tokens[p.next+1].kind == closeBracket:
		p.next += 2
		return p.projected(Project, &Node{Op: Current}, star.power())
	}
	return p.list()
}

// literal parses a constant, or a variable in its place.
func (p *parser) literal(t token) (*Node, error) {
	text, ok := t.value.(string)
	switch {
	case !ok || !strings.HasPrefix(text, Begin):
		return &Node{Op: Literal, Value: t.value}, nil
	case t.text[0] == '`':
		return p.inner(Outer, text)
	}
	return p.inner(Text, text)
}

// inner parses a variable in quotes.
func (p *parser) inner(op Op, text string) (*Node, error) {
	inside, ok := strings.CutSuffix(strings.TrimPrefix(text, Begin), End)
	if !ok {
		return nil, &SyntaxError{What: "a variable in quotes has no end"}
	}
	n, err := Parse(inside)
	return &Node{Op: op, Args: []*Node{n}}, err
}

func (p *parser) unary(op Op, kind tokenKind) (*Node, error) {
	inner, err := p.expression(kind.power())
	return &Node{Op: op, Args: []*Node{inner}}, err
}

// then parses an operator after an expression, with what follows it.
func (p *parser) then(left *Node) (*Node, error) {
	t := p.take()
	switch t.kind {
	case dot:
		if p.kind() == star {
			p.take()
			return p.projected(ProjectValues, left, dot.power())
		}
		right, err := p.afterDot(dot.power())
		return &Node{Op: Sub, Args: []*Node{left, right}}, err
	case pipe, or, and, compare:
		right, err := p.expression(t.kind.power())
		op := map[tokenKind]Op{pipe: Pipe, or: Or, and: And, compare: Compare}[t.kind]
		node := &Node{Op: op, Args: []*Node{left, right}}
		if op == Compare {
			node.Text = t.text
		}
		return node, err
	case openParen:
		if left.Op != Field {
			return nil, &SyntaxError{What: "there is no function to call", Offset: t.offset}
		}
		return p.call(left.Text)
	case filter:
		return p.filtered(left)
	case flatten:
		return p.projected(Project, &Node{Op: Flatten, Args: []*Node{left}}, flatten.power())
	case openBracket:
		if p.kind() == number || p.kind() == colon {
			return p.indexed(left)
		}
		if err := p.expect(star); err != nil {
			return nil, err
		}
		if err := p.expect(closeBracket); err != nil {
			return nil, err
		}
		return p.projected(Project, left, star.power())
	default:
		p.next--
		return nil, p.unexpected()
	}
}

func (p *parser) call(function string) (*Node, error) {
	node := &Node{Op: Call, Text: function}
	for p.kind() != closeParen {
		if len(node.Args) > 0 {
			if err := p.expect(comma); err != nil {
				return nil, err
			}
		}
		arg, err := p.expression(0)
		if err != nil {
			return nil, err
		}
		node.Args = append(node.Args, arg)
	}
	return node, p.expect(closeParen)
}

func (p *parser) indexed(left *Node) (*Node, error) {
	var parts [3]*int
	at, colons := 0, 0
	for p.kind() != closeBracket {
		t := p.take()
		switch {
		case t.kind == colon && colons < 2:
			colons++
			at++
		case t.kind == number && parts[at] == nil:
			n, err := strconv.Atoi(t.text)
			if err != nil {
				return nil, &SyntaxError{What: t.text + " is no index", Offset: t.offset}
			}
			parts[at] = &n
		default:
			p.next = max(0, p.next-1)
			return nil, p.unexpected()
		}
	}
	p.take()
	if colons == 0 {
		return &Node{Op: Sub, Args: []*Node{left, {Op: Index, Value: *parts[0]}}}, nil
	}
	return p.projected(Project, &Node{Op: Sub, Args: []*Node{left, {Op: Slice, Value: parts}}}, star.power())
}

func (p *parser) filtered(left *Node) (*Node, error) {
	condition, err := p.expression(0)
	if err != nil {
		return nil, err
	}
	if err := p.expect(closeBracket); err != nil {
		return nil, err
	}
	right := &Node{Op: Current}
	if p.kind() != flatten {
		right, err = p.projection(filter.power())
	}
	return &Node{Op: Filter, Args: []*Node{left, right, condition}}, err
}

func (p *parser) projected(op Op, left *Node, power int) (*Node, error) {
	right, err := p.projection(power)
	return &Node{Op: op, Args: []*Node{left, right}}, err
}

// projection parses what is applied to each element.
func (p *parser) projection(power int) (*Node, error) {
	switch kind := p.kind(); {
	case kind.power() < 10:
		return &Node{Op: Current}, nil
	case kind == openBracket || kind == filter:
		return p.expression(power)
	case kind == dot:
		p.take()
		return p.afterDot(power)
	}
	return nil, p.unexpected()
}

func (p *parser) afterDot(power int) (*Node, error) {
	switch p.kind() {
	case name, quotedName, star:
		return p.expression(power)
	case openBracket:
		p.take()
		return p.list()
	case openBrace:
		p.take()
		return p.object()
	default:
		return nil, p.unexpected()
	}
}

func (p *parser) list() (*Node, error) {
	node := &Node{Op: List}
	for {
		item, err := p.expression(0)
		if err != nil {
			return nil, err
		}
		node.Args = append(node.Args, item)
		if p.kind() == closeBracket {
			p.take()
			return node, nil
		}
		if err := p.expect(comma); err != nil {
			return nil, err
		}
	}
}

func (p *parser) object() (*Node, error) {
	node := &Node{Op: Map}
	for {
		key := p.take()
		if key.kind != name && key.kind != quotedName {
			p.next = max(0, p.next-1)
			return nil, p.unexpected()
		}
		if err := p.expect(colon); err != nil {
			return nil, err
		}
		value, err := p.expression(0)
		if err != nil {
			return nil, err
		}
		node.Keys = append(node.Keys, key.text)
		node.Args = append(node.Args, value)
		if p.kind() == closeBrace {
			p.take()
			return node, nil
		}
		if err := p.expect(comma); err != nil {
			return nil, err
		}
	}
}
