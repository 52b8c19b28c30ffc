package rule

import "k8s.io/apimachinery/pkg/runtime/schema"

// Element is the step of a path that leads to the elements of a list.
const Element = "[]"

// A Use is a value that a program reads, or a place that it changes: what can be compared with the
// schema of the objects that it gets.
type Use struct {
	// Of says whose value it is.
	Of Holder
	// Kind is the kind of another object; empty for every other holder.
	Kind schema.GroupVersionKind
	// Paths are what the path can mean, the likeliest first. Steps are keys of maps, and [Element].
	Paths [][]string
	// Field has the path in the policy, relative to the rule; "" where it is part of a program.
	Field string
	// Compared are the constants that the value is compared with; Only says that nothing else is done
	// with it.
	Compared []Comparison
	Only     bool
	// Indexed says that the path leads to one element of a list, by its index.
	Indexed bool
	// Told says that the value can be in what others read: a message, or an object that is changed.
	Told bool
}

// A Holder has a value that a program reads.
type Holder int

// The holders of values: the object of a request as it is and was, its owner, another object.
const (
	CurrentObject Holder = iota
	OldObject
	OwnerObject
	OtherObject
)

// A Comparison compares a value with a constant.
type Comparison struct {
	// Op is ==, !=, <, <=, >, >=, =~ or !~; or one of the names of package strings: HasPrefix,
	// HasSuffix or Contains.
	Op string
	// With is a string, a bool, an int64 or a float64.
	With any
}

// A Traced is a [Program] that says which values it reads, for its author. It may say too little.
type Traced interface {
	Program
	Uses() []Use
}
