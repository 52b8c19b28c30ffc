// Package jmespath parses JMESPath as Kyverno writes it: the grammar of jmespath.org, in which a function may follow
// a dot.
//
// Parse is for texts of others: expressions that are too long or too deep are errors.
package jmespath

import "fmt"

// An Op says what a node does.
type Op int

// Operations of nodes. The comment says what Text, Value and Args are.
const (
	// Current is @, and what a projection without a right side applies to each element.
	Current Op = iota
	// Field selects a key of a map: Text.
	Field
	// Literal is a constant: Value, as JSON is decoded, numbers as float64.
	Literal
	// Index selects an element of a list: Value is an int, which counts from the end if it is negative.
	Index
	// Slice selects elements of a list: Value is a [3]*int with start, stop and step.
	Slice
	// Sub evaluates Args[1] on the value of Args[0]. An error of Args[0] is its own.
	Sub
	// Pipe evaluates Args[1] on the value of Args[0], which is null if a key is missing.
	Pipe
	// Project evaluates Args[1] on each element of the list Args[0].
	Project
	// ProjectValues evaluates Args[1] on each value of the map Args[0].
	ProjectValues
	// Filter evaluates Args[1] on each element of the list Args[0] for which Args[2] holds.
	Filter
	// Flatten makes one list of the lists in the list Args[0].
	Flatten
	// Or, And and Not have the operands Args.
	Or
	And
	Not
	// Compare compares Args by the operator Text: ==, !=, <, <=, > or >=.
	Compare
	// Call calls the function Text with Args.
	Call
	// Reference is an expression as an argument: &Args[0].
	Reference
	// List makes a list of Args.
	List
	// Map makes a map of Args, under Keys.
	Map
	// Text is the text of the value that Args[0] has where the whole expression is evaluated, whatever is projected:
	// a variable in quotes. A missing key in it is an error.
	Text
	// Key selects the key of a map that is such a text: Args[0].
	Key
	// Outer is the value that Args[0] has there: a variable in backquotes, whose value is JSON.
	Outer
)

// A Node is an expression.
type Node struct {
	Op    Op
	Text  string
	Value any
	Args  []*Node
	Keys  []string
}

// Bounds of expressions.
const (
	maxLength = 10_000
	maxDepth  = 100
)

// A SyntaxError says what is wrong, and where.
type SyntaxError struct {
	What string
	// Offset is in bytes.
	Offset int
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("%s at character %d", e.What, e.Offset+1) }

// Begin and End replace the braces of a variable that is all of a quoted text.
const (
	Begin = "\x01"
	End   = "\x02"
)

// Parse parses an expression.
func Parse(text string) (*Node, error) {
	if len(text) > maxLength {
		return nil, &SyntaxError{What: fmt.Sprintf("the expression is longer than %d bytes", maxLength)}
	}
	tokens, err := tokenize(text)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens}
	node, err := p.expression(0)
	if err != nil {
		return nil, err
	}
	if p.kind() != end {
		return nil, p.unexpected()
	}
	return node, nil
}

// Walk calls a function with a node and all below it.
func (n *Node) Walk(visit func(*Node)) {
	visit(n)
	for _, arg := range n.Args {
		arg.Walk(visit)
	}
}

// Path returns the fields of an expression that selects nothing but these, such as a.b.c; nil for others.
func (n *Node) Path() []string {
	switch n.Op {
	case Field:
		return []string{n.Text}
	case Sub:
		left, right := n.Args[0].Path(), n.Args[1].Path()
		if left != nil && right != nil {
			return append(left, right...)
		}
	default:
	}
	return nil
}
