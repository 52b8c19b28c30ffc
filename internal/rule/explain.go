package rule

// An Explainer is a [Program] that can tell what its outcome depends on.
type Explainer interface {
	Program
	// Explain returns what the program reads in an input, and its condition. The error may be
	// *fact.Missing.
	Explain(in *Input) (Reading, error)
}

// A Reading is what a program read.
type Reading struct {
	// Condition is what the program decides by, in one line, and Holds whether it is so;
	// a program that has no condition has only values.
	Condition string `json:"condition,omitempty"`
	Holds     bool   `json:"holds,omitempty"`
	// Values are the values that it read.
	Values []Value `json:"values,omitempty"`
	// Expressions are those that it evaluated, in order. Each follows the variables that it reads.
	Expressions []Expression `json:"expressions,omitempty"`
}

// A Value is what a program found at one path.
type Value struct {
	Name string `json:"name"`
	// Value is as usher.Object.Tree describes; nil if Absent.
	Value  any  `json:"value"`
	Absent bool `json:"absent,omitempty"`
}

// An Expression is an expression of a policy, or a part of one, with its value.
type Expression struct {
	// Field is the path of the field that has the expression; empty for a part. Name is that of the
	// variable, condition or annotation.
	Field string `json:"field,omitempty"`
	Name  string `json:"name,omitempty"`
	// Params is the object of params that the expression was evaluated with, such as
	// "ConfigMap shop/limits".
	Params string `json:"params,omitempty"`
	// Text is the expression in one line.
	Text string `json:"text"`
	// Value is as usher.Object.Tree describes; nil if Absent, Unevaluated, or if there is an Error.
	Value any `json:"value"`
	// Absent says that the value is an optional without value.
	Absent bool   `json:"absent,omitempty"`
	Error  string `json:"error,omitempty"`
	// Unevaluated says that the result did not depend on the expression.
	Unevaluated bool `json:"unevaluated,omitempty"`
	// Parts are the parts in the order in which they are written: all of them, if the expression
	// failed or denied the request, and otherwise what it read. Literals are not among them.
	Parts []Expression `json:"parts,omitempty"`
}
