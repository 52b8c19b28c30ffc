package cue

import (
	"slices"
	"strconv"

	"github.com/usher-dev/usher/internal/rule"
)

// A need is what is read of a value. The zero need reads only its presence and type.
type need struct {
	// whole reads everything.
	whole bool
	// each reads this of every field or element.
	each *need
	// fields and elements read this of some, besides what each reads.
	fields   map[string]*need
	elements map[int]*need
	// compared are constants that the value is compared with; only says that it is read for nothing
	// else.
	compared []rule.Comparison
	only     bool
	// told says that it can be in a message.
	told bool
}

// mostCompared is how many comparisons of one value are told.
const mostCompared = 50

// deepest is how deep needs and inputs may nest.
const deepest = 1000

// field returns the need of one field, nil if it is not read.
func (n *need) field(name string) *need {
	own := n.fields[name]
	if own == nil || n.each == nil {
		if own == nil {
			return n.each
		}
		return own
	}
	both := &need{}
	both.add(own)
	both.add(n.each)
	return both
}

// add adds the reads of other to n.
func (n *need) add(other *need) {
	if other == nil || n == other {
		return
	}
	if n.whole || other.whole {
		compared := n.compared
		if more := mostCompared - len(compared); more > 0 {
			compared = slices.Concat(compared, other.compared[:min(more, len(other.compared))])
		}
		*n = need{whole: true, compared: compared, only: n.compares() && other.compares(), told: n.told || other.told}
		return
	}
	if other.each != nil {
		if n.each == nil {
			n.each = &need{}
		}
		n.each.add(other.each)
	}
	for name, sub := range other.fields {
		n.at(name).add(sub)
	}
	for i, sub := range other.elements {
		n.element(i).add(sub)
	}
}

// compares reports whether the value is read for comparisons, or not at all.
func (n *need) compares() bool {
	return n.only || !n.whole && n.each == nil && len(n.fields) == 0 && len(n.elements) == 0
}

// size returns how many parts n has.
func (n *need) size() int {
	if n == nil {
		return 0
	}
	size := 1 + n.each.size()
	for _, sub := range n.fields {
		size += sub.size()
	}
	for _, sub := range n.elements {
		size += sub.size()
	}
	return size
}

// at returns the need of one field alone, made if necessary.
func (n *need) at(name string) *need {
	if n.fields == nil {
		n.fields = map[string]*need{}
	}
	if n.fields[name] == nil {
		n.fields[name] = &need{}
	}
	return n.fields[name]
}

func (n *need) element(i int) *need {
	if n.elements == nil {
		n.elements = map[int]*need{}
	}
	if n.elements[i] == nil {
		n.elements[i] = &need{}
	}
	return n.elements[i]
}

// listReads lists what needs read, one path each.
func listReads(reads map[string]*need) []string {
	var paths []string
	for name, n := range reads {
		paths = n.appendPaths(paths, name)
	}
	slices.Sort(paths)
	return paths
}

func (n *need) appendPaths(paths []string, path string) []string {
	if n.whole {
		return append(paths, path+".*")
	}
	if n.each == nil && len(n.fields) == 0 && len(n.elements) == 0 {
		return append(paths, path)
	}
	if n.each != nil {
		paths = n.each.appendPaths(paths, path+"[]")
	}
	for name, sub := range n.fields {
		paths = sub.appendPaths(paths, path+selector(name))
	}
	for i, sub := range n.elements {
		paths = sub.appendPaths(paths, path+"["+strconv.Itoa(i)+"]")
	}
	return paths
}

func selector(name string) string {
	for i, r := range name {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return "[" + strconv.Quote(name) + "]"
		}
	}
	return "." + name
}

// step returns the need of what s leads to, made if necessary.
func (n *need) step(s step) *need {
	switch {
	case n.whole:
		return n
	case s.isName:
		return n.at(s.name)
	case s.isIndex:
		return n.element(s.index)
	}
	if n.each == nil {
		n.each = &need{}
	}
	return n.each
}
