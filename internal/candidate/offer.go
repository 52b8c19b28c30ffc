package candidate

import (
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/audit/queue"
	"github.com/usher-dev/usher/internal/jsontree"
	"github.com/usher-dev/usher/internal/rule"
)

const (
	// overhead is counted for a request besides its objects.
	overhead = 4 << 10
	// largest is the largest request that is evaluated: decoding takes decoding times its size.
	largest  = 2 << 20
	decoding = 16
)

// A waiting is a request that was answered.
type waiting struct {
	queue.Entry

	request *usher.Request
	// at is when it was answered.
	at time.Time
	// turn names the namespace in whose turn it is evaluated.
	turn string
	// only is the verdict that the answer can have besides no opinion; empty for every one.
	only usher.Verdict
	// denials are those of other policies than the ones that candidates affect, among others.
	denials []usher.Finding
	denied  bool
	// concerned are the candidates of a lane that may have something to say about it, of those that there were.
	// past are what the answer shows of their policies in force; nil if it shows nothing.
	concerned []*compared
	past      []past
	among     *set
	bytes     int64
	release   func()
	of        *turn
}

// candidates are those of a lane that may have something to say about the request, of those that there are now.
func (w *waiting) candidates(s *set, l *lane) []*compared {
	if w.among == s {
		return w.concerned
	}
	w.past = nil
	return s.concerning(w.request, l)
}

// A past is what the answer to a request shows of the policies in force that a candidate affects.
type past int

const (
	unknown past = iota
	// silent: they have decided, and had nothing to say. absent: none of them is for the request.
	silent
	absent
)

// pastOf is that of a decision by all policies in force.
func (c *compared) pastOf(d *usher.Decision) past {
	switch {
	case c.elsewhere || says(d, c.affected):
		return unknown
	case c.ran(d):
		return silent
	}
	return absent
}

// An Offer has the candidates evaluated for a request that was decided, unless they are busy. The caller does not wait
// for that.
type Offer func(*usher.Request, *usher.Decision)

// offer is an [Offer] of decisions by the policies in force with which a set is compared.
func (e *Evaluator) offer(r *usher.Request, d *usher.Decision, by *set) {
	s := e.current.Load()
	if len(s.all) == 0 || r.DryRun || r.Phase != usher.Mutate && r.Phase != usher.Validate || calledToo(r) {
		return
	}
	var w *waiting
	for _, l := range []*lane{e.cluster, e.tenants} {
		concerned := s.concerning(r, l)
		if len(concerned) == 0 {
			continue
		}
		if w == nil {
			w = waitingOf(r, d)
		}
		if w == nil {
			skipped(concerned)
			continue
		}
		own := *w
		own.concerned, own.among = concerned, s
		if s == by && r.Phase == usher.Validate && d.Verdict == usher.Allow && w.request.Entry == r.Entry {
			own.past = make([]past, len(concerned))
			for i, c := range concerned {
				own.past[i] = c.pastOf(d)
			}
		}
		e.wait(s, l, &own)
	}
}

// wait has a request wait in a lane, or skips it, or others that have more than their part.
func (e *Evaluator) wait(s *set, l *lane, w *waiting) {
	if w.bytes > largest {
		skipped(w.candidates(s, l))
		return
	}
	dropped, ok := l.add(w)
	if !ok {
		dropped = append(dropped, w)
	}
	for _, w := range dropped {
		skipped(w.candidates(s, l))
	}
}

// calledToo reports whether API servers call another entry for the request, or none that is for objects.
func calledToo(r *usher.Request) bool {
	at, _ := rule.ParseEntry(r.Entry)
	return at.Part == rule.Reinvoked || at.Part == rule.Existing || at.Part == rule.Deletions
}

// waitingOf returns a copy of a request, with the bytes of its objects; nil if these are too many. Objects
// that were decoded are not kept.
func waitingOf(r *usher.Request, d *usher.Decision) *waiting {
	w := &waiting{at: time.Now(), turn: r.Namespace, denied: d.Verdict == usher.Deny, bytes: overhead}
	copied := *r
	copied.Entry = entryOf(r)
	for _, object := range []**usher.Object{&copied.Object, &copied.OldObject, &copied.Options} {
		raw, err := (*object).Raw()
		if err != nil {
			return nil
		}
		if w.bytes += int64(len(raw)); raw != nil {
			*object, _ = jsontree.Undecoded(*object, raw).(*usher.Object)
		}
	}
	if w.bytes > largest {
		return nil
	}
	w.request = &copied
	for i := range d.Findings {
		if f := &d.Findings[i]; w.denied && f.Denies() {
			w.denials = append(w.denials, usher.Finding{Policy: f.Policy, Rule: f.Rule, Outcome: usher.Rejected})
		}
	}
	return w
}

// entryOf returns the entry by whose rules candidates decide: what API servers call for a phase in place of
// its entry has all rules.
func entryOf(r *usher.Request) string {
	at, ok := rule.ParseEntry(r.Entry)
	if ok && at.Versions == "" && at.Part != rule.Metadata && at.Part != rule.Beside {
		at.Part = rule.Objects
	}
	if !ok {
		return r.Entry
	}
	return at.String()
}
