package authz

import (
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
)

// A Requirement is one clause that a policy needs in the selector of a request.
type Requirement struct {
	Key string
	// Operator is In, NotIn, Exists or DoesNotExist.
	Operator string
	Values   []Template
}

// The operators of requirements.
const (
	In           = "In"
	NotIn        = "NotIn"
	Exists       = "Exists"
	DoesNotExist = "DoesNotExist"
)

// Implied reports whether all objects that the selector of a request selects meet every requirement
// of wanted. What cannot be shown is not implied: a requirement with an unknown operator or without
// values requires nothing, and a template without a value is never met.
func Implied(wanted []Requirement, selector []usher.Requirement, q *Query) bool {
	for i := range wanted {
		if !wanted[i].implied(selector, q) {
			return false
		}
	}
	return true
}

func (w *Requirement) implied(selector []usher.Requirement, q *Query) bool {
	for i := range w.Values {
		if !w.Values[i].resolves(q) {
			return false
		}
	}
	d := demandOf(w.Key, selector)
	if d.nothing() {
		return true
	}
	switch w.Operator {
	case Exists:
		return d.exists
	case DoesNotExist:
		return d.absent
	case In:
		return d.in != nil && d.all(func(value string) bool { return w.has(value, q) })
	case NotIn:
		return d.absent || d.in != nil && d.all(func(value string) bool { return !w.has(value, q) }) || w.excludedBy(&d, q)
	}
	return false
}

func (w *Requirement) has(value string, q *Query) bool {
	for i := range w.Values {
		if equal, ok := w.Values[i].equals(value, q); ok && equal {
			return true
		}
	}
	return false
}

// excludedBy reports whether each of the values is one that the selector excludes.
func (w *Requirement) excludedBy(d *demand, q *Query) bool {
	for i := range w.Values {
		if !d.excludes(func(value string) bool {
			equal, _ := w.Values[i].equals(value, q)
			return equal
		}) {
			return false
		}
	}
	return true
}

// A demand is what the requirements of a selector on one key come to.
type demand struct {
	key      string
	selector []usher.Requirement
	// exists and absent may both be true: then nothing is selected.
	exists, absent bool
	// in are the values of the first In; nil if there is none.
	in []string
}

func demandOf(key string, selector []usher.Requirement) demand {
	d := demand{key: key, selector: selector}
	for i := range selector {
		r := &selector[i]
		if r.Key != key || !wellFormed(r) {
			continue
		}
		switch r.Operator {
		case In:
			d.exists = true
			if d.in == nil {
				d.in = r.Values
			}
		case Exists:
			d.exists = true
		case DoesNotExist:
			d.absent = true
		}
	}
	return d
}

// wellFormed reports whether a requirement demands anything.
func wellFormed(r *usher.Requirement) bool {
	switch r.Operator {
	case In, NotIn:
		return len(r.Values) > 0
	case Exists, DoesNotExist:
		return len(r.Values) == 0
	}
	return false
}

// nothing reports whether no object can meet the demand.
func (d *demand) nothing() bool {
	return d.exists && d.absent || d.in != nil && d.all(func(string) bool { return false })
}

// all reports whether ok is true of each value that all of the requirements leave.
func (d *demand) all(ok func(string) bool) bool {
	for _, value := range d.in {
		if d.leaves(value) && !ok(value) {
			return false
		}
	}
	return true
}

func (d *demand) leaves(value string) bool {
	for i := range d.selector {
		r := &d.selector[i]
		if r.Key != d.key || !wellFormed(r) {
			continue
		}
		if r.Operator == In && !slices.Contains(r.Values, value) || r.Operator == NotIn && slices.Contains(r.Values, value) {
			return false
		}
	}
	return true
}

// excludes reports whether a NotIn names a wanted value.
func (d *demand) excludes(wanted func(string) bool) bool {
	for i := range d.selector {
		r := &d.selector[i]
		if r.Key == d.key && r.Operator == NotIn && slices.ContainsFunc(r.Values, wanted) {
			return true
		}
	}
	return false
}

// String is the requirement as a selector spells it.
func (w Requirement) String() string {
	switch w.Operator {
	case Exists:
		return w.Key
	case DoesNotExist:
		return "!" + w.Key
	case In:
		if len(w.Values) == 1 {
			return w.Key + "=" + w.Values[0].String()
		}
	case NotIn:
		if len(w.Values) == 1 {
			return w.Key + "!=" + w.Values[0].String()
		}
	}
	return w.Key + " " + strings.ToLower(w.Operator) + " (" + join(w.Values) + ")"
}
