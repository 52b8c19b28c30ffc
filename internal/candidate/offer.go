package candidate

import (
	"context"
	"slices"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/audit/queue"
	"github.com/usher-dev/usher/internal/impact/diff"
	"github.com/usher-dev/usher/internal/overrun"
	"github.com/usher-dev/usher/internal/rule"
)

const (
	// mostBytes limits the requests that wait, and mostOfOne those of one namespace, so that others find
	// memory.
	mostBytes = 16 << 20
	mostOfOne = mostBytes / 4
	// overhead is counted for a request besides its objects.
	overhead = 4 << 10
	// largest is the largest request that is evaluated: decoding takes decoding times its size.
	largest  = 2 << 20
	decoding = 16
	// timeout limits the evaluation of one candidate for one request.
	timeout = 2 * time.Second
	// cores is how much processor time evaluations take on average.
	cores = 0.5
)

// A waiting is a request that was answered.
type waiting struct {
	queue.Entry

	request *usher.Request
	// at is when it was answered.
	at time.Time
	// turn is the namespace in whose turn it is evaluated.
	turn string
	// only is the verdict that the answer can have besides no opinion; empty for every one.
	only usher.Verdict
	// denials are those of other policies than the ones that candidates affect, among others.
	denials []usher.Finding
	denied  bool
	bytes   int64
	release func()
}

// Offer has the candidates evaluated for a request that was decided, unless they are busy. The caller does
// not wait for that.
func (e *Evaluator) Offer(r *usher.Request, d *usher.Decision) {
	s := e.current.Load()
	if len(s.all) == 0 || r.DryRun || r.Phase != usher.Mutate && r.Phase != usher.Validate || calledToo(r) {
		return
	}
	concerned := s.concerning(r)
	if len(concerned) == 0 {
		return
	}
	w := waitingOf(r, d)
	if w == nil || !e.take(w) {
		skipped(concerned)
		return
	}
	e.work.Add(w.turn, w.request.User.Name, w, queue.Low)
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
		w.bytes += int64(len(raw))
		*object = usher.RawObject(raw)
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

// take takes memory for a request, and reports whether there is some.
func (e *Evaluator) take(w *waiting) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.bytes+w.bytes > mostBytes || e.by[w.turn]+w.bytes > mostOfOne {
		return false
	}
	if w.release = func() {}; e.options.Hold != nil {
		release, ok := e.options.Hold(w.bytes)
		if !ok {
			return false
		}
		w.release = release
	}
	e.bytes += w.bytes
	e.by[w.turn] += w.bytes
	return true
}

// give returns the memory of a request.
func (e *Evaluator) give(w *waiting) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.bytes -= w.bytes
	if e.by[w.turn] -= w.bytes; e.by[w.turn] <= 0 {
		delete(e.by, w.turn)
	}
	w.release()
}

// Run evaluates candidates until ctx is done.
func (e *Evaluator) Run(ctx context.Context) {
	share := queue.NewLimiter(cores).Share()
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.work.Ready():
		}
		for w, ok := e.work.Next(); ok && ctx.Err() == nil; w, ok = e.work.Next() {
			begin := time.Now()
			e.evaluate(ctx, w)
			e.give(w)
			share.Spend(time.Since(begin))
		}
	}
}

// evaluate has each candidate evaluated for a request.
func (e *Evaluator) evaluate(ctx context.Context, w *waiting) {
	s := e.current.Load()
	concerned := s.concerning(w.request)
	if w.request.Phase == usher.Authorize {
		e.authorize(ctx, w, s, concerned)
		return
	}
	if e.options.Hold != nil {
		release, ok := e.options.Hold(w.bytes * decoding)
		if !ok {
			skipped(concerned)
			return
		}
		defer release()
	}
	for _, c := range concerned {
		if c.overdue(e.overruns.State().Late) || !e.evaluateOne(ctx, c, w) {
			skipped([]*compared{c})
		}
	}
}

// evaluateOne counts how the decisions of one candidate differ. It is false if that took too long.
func (e *Evaluator) evaluateOne(ctx context.Context, c *compared, w *waiting) bool {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	was, err := c.was.Decide(ctx, w.request)
	if err != nil {
		return false
	}
	is, err := c.is.Decide(ctx, w.request)
	if err != nil || ctx.Err() != nil {
		return false
	}
	if !c.ran(&was) && !c.ran(&is) {
		return true
	}
	others := c.others(w)
	differences := diff.Between(diff.Of(&others, &was), diff.Of(&others, &is))
	differs := func(kind string) bool {
		return slices.ContainsFunc(differences, func(d diff.Difference) bool { return string(d.Kind) == kind })
	}
	if others.Verdict == usher.Deny {
		is.Verdict = usher.Deny
	}
	e.counts(c, w, &is, differs)
	return true
}

// counts counts a decision of a candidate, and passes it on if it differs.
func (e *Evaluator) counts(c *compared, w *waiting, is *usher.Decision, differs func(kind string) bool) {
	var kinds []string
	c.count(func(n *rule.CandidateCounts) {
		n.Seen++
		numbers := map[string]*int64{
			"failing": &n.Errors, "denied": &n.NewlyDenied, "changed": &n.Changed, "warned": &n.Warned, "allowed": &n.NewlyAllowed, "noOpinion": &n.NoOpinion,
		}
		for _, kind := range rule.Differences() {
			if differs(kind) {
				kinds = append(kinds, kind)
				*numbers[kind]++
			}
		}
	})
	if len(kinds) == 0 || e.options.Differs == nil {
		return
	}
	said := *is
	said.Findings = slices.DeleteFunc(slices.Clone(is.Findings), func(f usher.Finding) bool { return !c.affected[f.Policy] })
	e.options.Differs(&rule.CandidateDifference{Candidate: c.of.Ref, Request: w.request, At: w.at, Decision: said, Kinds: kinds})
}

// mostLate is how many evaluations may be late at once before none begins.
const mostLate = 4

// overdue reports whether an evaluation of policies that the candidate affects has not ended, or too many others
// have not. One candidate does not stop all.
func (c *compared) overdue(late []overrun.Overrun) bool {
	return len(late) >= mostLate || slices.ContainsFunc(late, func(o overrun.Overrun) bool { return o.Policy == (usher.PolicyRef{}) || c.affected[o.Policy] })
}

// ran reports whether a policy that the candidate affects has decided something: a request that none of them is
// for was not seen.
func (c *compared) ran(d *usher.Decision) bool {
	return slices.ContainsFunc(d.Findings, func(f usher.Finding) bool { return c.affected[f.Policy] && f.Outcome != usher.Skipped })
}

// others returns the decision without the policies that the candidate affects.
func (c *compared) others(w *waiting) usher.Decision {
	var d usher.Decision
	for _, f := range w.denials {
		if !c.affected[f.Policy] {
			d.Findings = append(d.Findings, f)
		}
	}
	if len(d.Findings) > 0 || w.denied && len(w.denials) == 0 {
		d.Verdict = usher.Deny
	}
	return d
}
