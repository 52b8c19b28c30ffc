package rule

import (
	"context"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
)

// A Program is the body of a rule. It does no I/O: when it lacks a fact it returns
// [*fact.Missing] and is run again with the fact known. It is safe for concurrent use,
// keeps nothing of its input, and gives up when ctx is done.
type Program interface {
	Run(ctx context.Context, in *Input) (Outcome, error)
	// String describes the program in one stable line.
	String() string
}

// A Selective is a [Program] that says what it looks at, so that the rest need not be
// decoded.
type Selective interface {
	Program
	// ReadPaths returns the paths to all that Run looks at in Input.Object and in
	// Input.OldObject; nil is nothing. What lies elsewhere may be missing there. Run does not look into the objects of Input.Request.
	ReadPaths() (object, old *usher.Paths)
}

// A SlowPath is a program that runs in a way that takes much longer than others do. Programs that may
// be slow implement it.
type SlowPath interface {
	Program
	// SlowPath says why, such as "it has a definition (3:1)"; "" means that it is not slow.
	SlowPath() string
}

// An Input is what a program sees. Everything in it is shared: do not change it.
type Input struct {
	Request *usher.Request
	// Object is the object as the rules before have left it, and on Delete the object
	// that is about to go. Trees are as usher.Object.Tree describes.
	Object map[string]any
	// OldObject is nil unless the request carries both an object and an old one.
	OldObject map[string]any
	Facts     *fact.Known
}

// An Outcome is what a program says. The zero Outcome has no objection and changes
// nothing.
type Outcome struct {
	// Verdict is Deny to reject the request; Message then is the reason, possibly empty.
	Verdict usher.Verdict
	Message string
	// Note is the reason of a rejection that has no Message, because kinitiras gives none:
	// clients are told, and the message of the decision stays empty.
	Note string
	// Patch changes the object; it is applied as one, in order.
	Patch    usher.Patch
	Warnings []string
}
