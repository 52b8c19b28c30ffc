// Package diff says how the decisions that two sets of policies make about one request differ.
package diff

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
)

// A Kind is how the outcomes of a request differ.
type Kind string

// The kinds of differences, the worst one first.
const (
	// Failing: a rule fails that did not fail before, whether or not that denies the request.
	Failing Kind = "failing"
	// Denied: the request is denied, and was not.
	Denied Kind = "denied"
	// PodsDenied: the pods of a workload would be denied, and would not have been. The workload itself is allowed.
	PodsDenied Kind = "podsDenied"
	// Unknown: the source of the request does not have what a policy reads.
	Unknown Kind = "unknown"
	// Changed: the object that comes out is another one.
	Changed Kind = "changed"
	// Warned: the user is warned of something, and was not.
	Warned Kind = "warned"
	// Audited: a policy reports something that it neither denies nor warns of, and did not.
	Audited Kind = "audited"
	// Reason: the request was denied, and is denied for one more reason.
	Reason Kind = "reason"
	// Allowed: the request was denied, and is not.
	Allowed Kind = "allowed"
	// NoLongerWarned: the user was warned of something, and is not.
	NoLongerWarned Kind = "noLongerWarned"
	// NoLongerAudited: a policy reported something, and neither reports, warns of nor denies it.
	NoLongerAudited Kind = "noLongerAudited"
)

// Kinds returns all kinds, in order.
func Kinds() []Kind {
	return []Kind{Failing, Denied, PodsDenied, Unknown, Changed, Warned, Audited, Reason, Allowed, NoLongerWarned, NoLongerAudited}
}

// A Difference is what one policy makes of a request that it did not make of it before.
type Difference struct {
	Kind Kind
	// Policy is zero if no policy alone makes the difference.
	Policy usher.PolicyRef
	// Message is what the policy says, or why it is unknown.
	Message string
}

// An Effect is what a set of policies makes of a request.
type Effect struct {
	// Object is the object that comes out of all decisions. Effects without one change the object alike if their
	// patches are equal.
	Object map[string]any

	denied bool
	// message is that of the first denial.
	message string
	// said is what each policy says.
	said  map[usher.PolicyRef]*saying
	patch usher.Patch
}

// A saying is what one policy says about a request.
type saying struct {
	denies, fails bool
	message       string
	patch         usher.Patch
	// denials, warnings and audits are what it denies the request for, warns of, and reports; pods is what it would deny
	// the pods of a workload for that it allows.
	denials, warnings, audits, pods []part
}

// A part is what one part of a policy says: at is its name, or its place.
type part struct{ at, message string }

// added returns what is said now and was not: parts are the same if they say the same, or are at the same place, since
// messages may have values, and places change with the parts before them.
func added(now, before []part) []part {
	now, before = slices.Clone(now), slices.Clone(before)
	for _, same := range []func(a, b part) bool{
		func(a, b part) bool { return a == b },
		func(a, b part) bool { return a.message == b.message },
		func(a, b part) bool { return a.at == b.at },
	} {
		now = slices.DeleteFunc(now, func(a part) bool {
			i := slices.IndexFunc(before, func(b part) bool { return same(a, b) })
			if i >= 0 {
				before = slices.Delete(before, i, i+1)
			}
			return i >= 0
		})
	}
	return now
}

// told is the first of some messages, and how many others there are.
func told(parts []part) string {
	var messages []string
	for _, p := range parts {
		if !slices.Contains(messages, p.message) {
			messages = append(messages, p.message)
		}
	}
	switch len(messages) {
	case 0:
		return ""
	case 1:
		return messages[0]
	}
	return fmt.Sprintf("%s, and %d more", messages[0], len(messages)-1)
}

// Of returns the effect of decisions about a request: of one phase, or of several in their order.
func Of(decisions ...*usher.Decision) *Effect {
	e := &Effect{said: map[usher.PolicyRef]*saying{}}
	for _, d := range decisions {
		e.add(d)
	}
	return e
}

// add adds what a phase says.
func (e *Effect) add(d *usher.Decision) {
	if d.Verdict == usher.Deny && !e.denied {
		e.denied, e.message = true, d.Message
	}
	e.patch = append(e.patch, d.Patch...)
	for i := range d.Findings {
		f := &d.Findings[i]
		if f.Outcome == usher.Passed && len(f.Checks)+len(f.Patch) == 0 && f.Message == "" && f.Failure() == nil {
			continue
		}
		says := e.said[f.Policy]
		if says == nil {
			says = &saying{}
			e.said[f.Policy] = says
		}
		says.denies = says.denies || f.Denies()
		if err := f.Failure(); err != nil && f.Outcome != usher.Exempted {
			says.fails = true
			says.message = cmp.Or(says.message, err.Error())
		}
		if f.Outcome != usher.Exempted {
			for i := range f.Checks {
				says.message = cmp.Or(says.message, f.Checks[i].Message)
			}
		}
		says.message = cmp.Or(says.message, f.Message)
		says.addParts(f)
		says.patch = append(says.patch, f.Patch...)
	}
}

// addParts adds the parts of a rule that deny the request, or warn of something. One that denies and does not say which of
// its parts does is a part itself.
func (s *saying) addParts(f *usher.Finding) {
	if f.Outcome == usher.Exempted {
		return
	}
	denials, audits := len(s.denials), len(s.audits)
	for i := range f.Checks {
		c := &f.Checks[i]
		said := part{cmp.Or(c.Validation, c.Name), c.Message}
		if slices.Contains(c.Actions, usher.ActWarn) {
			s.warnings = append(s.warnings, said)
		}
		if slices.Contains(c.Actions, usher.ActAudit) || f.Outcome == usher.WouldDeny {
			s.audits = append(s.audits, said)
		}
		if c.PodsDenied {
			s.pods = append(s.pods, said)
		}
		if f.Denies() && slices.Contains(c.Actions, usher.ActDeny) {
			s.denials = append(s.denials, said)
		}
	}
	if f.Denies() && len(s.denials) == denials {
		s.denials = append(s.denials, part{f.Rule, cmp.Or(f.Message, s.message)})
	}
	if f.Outcome == usher.WouldDeny && len(s.audits) == audits {
		s.audits = append(s.audits, part{f.Rule, cmp.Or(f.Message, s.message)})
	}
}

// Between returns how the effects of two sets of policies on one request differ, in the order of the kinds.
func Between(was, is *Effect) []Difference {
	all := slices.Concat(said(was, is), unsaid(was, is))
	if changed(was, is) {
		all = append(all, changes(was, is)...)
	}
	switch {
	case is.denied && !was.denied && !hasKind(all, Denied):
		all = append(all, Difference{Kind: Denied, Message: is.message})
	case was.denied && !is.denied && !hasKind(all, Allowed):
		all = append(all, Difference{Kind: Allowed, Message: was.message})
	case changed(was, is) && !hasKind(all, Changed):
		all = append(all, Difference{Kind: Changed, Message: "policies change the object in another order"})
	}
	slices.SortFunc(all, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(slices.Index(Kinds(), a.Kind), slices.Index(Kinds(), b.Kind)), cmp.Compare(a.Policy.String(), b.Policy.String()))
	})
	return all
}

// said returns the differences in what policies say.
func said(was, is *Effect) []Difference {
	var all []Difference
	for ref, now := range is.said {
		before := was.said[ref]
		if before == nil {
			before = &saying{}
		}
		if now.fails && !before.fails {
			all = append(all, Difference{Failing, ref, now.message})
		}
		switch {
		case is.denied && !was.denied && now.denies:
			all = append(all, Difference{Denied, ref, cmp.Or(told(now.denials), now.message)})
		case is.denied && was.denied:
			if more := added(now.denials, before.denials); len(more) > 0 {
				all = append(all, Difference{Reason, ref, told(more)})
			}
		case !is.denied:
			if more := added(now.pods, before.pods); len(more) > 0 {
				all = append(all, Difference{PodsDenied, ref, told(more)})
				break
			}
			if more := added(now.warnings, before.warnings); len(more) > 0 {
				all = append(all, Difference{Warned, ref, told(more)})
				break
			}
			if more := added(now.audits, slices.Concat(before.audits, before.warnings, before.denials)); len(more) > 0 {
				all = append(all, Difference{Audited, ref, told(more)})
			}
		}
	}
	return all
}

// unsaid returns the differences in what policies no longer say, of which a request that is denied shows nothing.
func unsaid(was, is *Effect) []Difference {
	if is.denied {
		return nil
	}
	var all []Difference
	for ref, before := range was.said {
		if was.denied {
			if before.denies {
				all = append(all, Difference{Allowed, ref, before.message})
			}
			continue
		}
		now := is.said[ref]
		if now == nil {
			now = &saying{}
		}
		if less := added(before.warnings, now.warnings); len(less) > 0 {
			all = append(all, Difference{NoLongerWarned, ref, told(less)})
		} else if less := added(before.audits, slices.Concat(now.audits, now.warnings)); len(less) > 0 {
			all = append(all, Difference{NoLongerAudited, ref, told(less)})
		}
	}
	return all
}

func hasKind(all []Difference, kind Kind) bool {
	return slices.ContainsFunc(all, func(d Difference) bool { return d.Kind == kind })
}

// changed reports whether another object comes out.
func changed(was, is *Effect) bool {
	switch {
	case was.denied || is.denied:
		return false
	case was.Object == nil && is.Object == nil:
		return !reflect.DeepEqual(was.patch, is.patch)
	}
	return !reflect.DeepEqual(was.Object, is.Object)
}

// changes returns the policies because of which another object comes out.
func changes(was, is *Effect) []Difference {
	var all []Difference
	for _, sides := range [][2]*Effect{{was, is}, {is, was}} {
		for ref, says := range sides[0].said {
			other := sides[1].said[ref]
			if other == nil {
				other = &saying{}
			}
			known := slices.ContainsFunc(all, func(d Difference) bool { return d.Policy == ref })
			if !known && !reflect.DeepEqual(says.patch, other.patch) {
				all = append(all, Difference{Kind: Changed, Policy: ref, Message: paths(is.said[ref])})
			}
		}
	}
	return all
}

// paths says which fields a policy changes.
func paths(says *saying) string {
	if says == nil || len(says.patch) == 0 {
		return "no longer changes the object"
	}
	var all []string
	for _, op := range says.patch {
		if !slices.Contains(all, op.Path) {
			all = append(all, op.Path)
		}
	}
	const most = 5
	if more := len(all) - most; more > 0 {
		all = append(all[:most], fmt.Sprintf("%d more", more))
	}
	return "changes " + strings.Join(all, ", ")
}
