package jsonscan

import (
	"bytes"

	"github.com/usher-dev/usher/internal/jsontree"
)

// A cursor is a place in JSON, and the brackets around it.
type cursor struct {
	data []byte
	at   int
	open []byte
}

func (c *cursor) colon() error {
	if c.peek() != ':' {
		return c.syntax("expected a colon after a key")
	}
	c.at++
	return nil
}

// peek steps over white space and returns the byte that follows.
func (c *cursor) peek() byte {
	if c.at < len(c.data) {
		if next := c.data[c.at]; next > ' ' {
			return next
		}
	}
	return c.peekFar()
}

func (c *cursor) peekFar() byte {
	if c.at = jsontree.Blank(c.data, c.at); c.at < len(c.data) {
		return c.data[c.at]
	}
	return 0
}

func (c *cursor) push(bracket byte) error {
	if len(c.open) == MaxDepth {
		return ErrTooDeep
	}
	c.at++
	c.open = append(c.open, bracket)
	return nil
}

func (c *cursor) pop(bracket byte) error {
	if c.peek() != bracket {
		return c.syntax("expected a comma or the end after a value")
	}
	c.at++
	c.open = c.open[:len(c.open)-1]
	return nil
}

// Null skips null, if that is next.
func (c *cursor) Null() bool {
	if c.peek() != 'n' || !bytes.HasPrefix(c.data[c.at:], []byte("null")) {
		return false
	}
	c.at += len("null")
	return true
}

// want reports whether a value begins with first, and so has the expected type.
func (c *cursor) want(first byte, what string) error {
	if c.peek() != first {
		return c.wrong(what)
	}
	return nil
}

func (c *cursor) syntax(what string) error { return jsontree.Syntax(c.data, c.at, what) }

func (c *cursor) wrong(what string) error {
	got := ""
	switch c.peek() {
	case '{':
		got = "an object"
	case '[':
		got = "an array"
	case '"':
		got = "a string"
	case 't', 'f':
		got = "a boolean"
	case 'n':
		got = "null"
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		got = "a number"
	default:
		return c.syntax("expected a value")
	}
	return &fieldError{what: "is " + got + ": expected " + what}
}

// quoted steps over a string. It is plain if it is all ASCII, without escapes.
func (c *cursor) quoted() (raw []byte, plain bool, err error) {
	start := c.at
	c.at, plain, err = jsontree.Quoted(c.data, start)
	if err != nil {
		return nil, false, err
	}
	return c.data[start:c.at], plain, nil
}
