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
}

// A Value is what a program found at one path.
type Value struct {
	Name string `json:"name"`
	// Value is as usher.Object.Tree describes; nil if Absent.
	Value  any  `json:"value"`
	Absent bool `json:"absent,omitempty"`
}
