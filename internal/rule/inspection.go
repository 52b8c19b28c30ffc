package rule

import (
	"context"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
)

// An Inspection is of the objects that exist in a namespace, which a program asks for when a request
// changes the namespace. The engine judges each object as if it were created, and then warns. Nothing
// is denied, and the request waits for two seconds at most.
type Inspection struct {
	// Namespace is the namespace as the request leaves it, and Name its name.
	Namespace map[string]any
	Name      string
	// Creation is a request that creates such an object, without the object.
	Creation usher.Request
	// Objects is the fact that the objects are: its value is a [*fact.Sampled].
	Objects *fact.Object
	// Program denies the objects that are told of; it skips those that do not count.
	Program Program
	// FailurePolicy says what an object counts as if the program fails: with Fail, as denied.
	FailurePolicy usher.FailurePolicy
	// Tell returns the warnings.
	Tell func(ctx context.Context, of *Inspected) []string
}

// Inspected is what an [Inspection] has found.
type Inspected struct {
	// Err is why the objects are not known.
	Err error
	// Checked is how many of all objects have been judged.
	Checked, Total int
	// Violations are the messages of the objects that are denied.
	Violations []Violation
	// First is the input of an object that is denied.
	First *Input
}

// A Violation is a message of denied objects.
type Violation struct {
	Message string
	// Name is the first of the names of the objects, and Count their number.
	Name  string
	Count int
}
