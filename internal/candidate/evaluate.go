package candidate

import (
	"context"
	"slices"
	"sync"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/deadline"
	"github.com/usher-dev/usher/internal/impact/diff"
	"github.com/usher-dev/usher/internal/rule"
)

// reserve is how long before its deadline a decision has failed for lack of time.
const reserve = 50 * time.Millisecond

// Run evaluates candidates until ctx is done.
func (e *Evaluator) Run(ctx context.Context) {
	ctx = compile.InBackground(ctx)
	var running sync.WaitGroup
	for _, l := range []*lane{e.cluster, e.tenants} {
		running.Go(func() { l.run(ctx, e.in(l)) })
	}
	running.Wait()
}

// Drain evaluates candidates for all requests that wait, in place of Run and without its limits of processor time.
func (e *Evaluator) Drain(ctx context.Context) {
	for _, l := range []*lane{e.cluster, e.tenants} {
		for ok := true; ok; {
			_, ok = l.step(ctx, e.in(l))
		}
	}
}

func (e *Evaluator) in(l *lane) func(context.Context, *waiting) {
	return func(ctx context.Context, w *waiting) { e.evaluate(ctx, l, w) }
}

// evaluate has each candidate of a lane evaluated for a request.
func (e *Evaluator) evaluate(ctx context.Context, l *lane, w *waiting) {
	s := e.current.Load()
	concerned := w.candidates(s, l)
	if len(concerned) == 0 {
		return
	}
	if l.stuck(w.request.User.Name, w.request.Namespace) != "" {
		skipped(concerned)
		return
	}
	// One that is slow is not always before the same others.
	l.rounds++
	first := l.rounds % len(concerned)
	until := &deadline.Context{Context: ctx, At: time.Now().Add(l.timeout)}
	defer until.Release()
	ctx = until
	if w.request.Phase == usher.Authorize {
		e.authorize(ctx, l, w, s, concerned)
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
	for i := range concerned {
		i = (first + i) % len(concerned)
		known := unknown
		if w.past != nil {
			known = w.past[i]
		}
		if !inTime(ctx) || !e.evaluateOne(ctx, concerned[i], w, known) {
			skipped(concerned[i : i+1])
		}
	}
}

// decided returns a decision; false if it takes too long.
func decided(ctx context.Context, by usher.Decider, r *usher.Request) (usher.Decision, bool) {
	d, err := by.Decide(ctx, r)
	return d, err == nil && inTime(ctx)
}

// inTime reports whether nothing has failed because the time is over, which is that of candidates, not of
// policies in force.
func inTime(ctx context.Context) bool {
	if at, limited := ctx.Deadline(); limited && time.Until(at) <= reserve {
		return false
	}
	return ctx.Err() == nil
}

// evaluateOne counts how the decisions of one candidate differ, of which the one of the policies in force may be known. It
// is false if that took too long. Both are made now if one says something: since the answer, facts may have changed, also by
// the request.
func (e *Evaluator) evaluateOne(ctx context.Context, c *compared, w *waiting, known past) bool {
	is, ok := decided(ctx, c.is, w.request)
	if !ok {
		return false
	}
	was := usher.Decision{Verdict: usher.Allow}
	if known == unknown || says(&is, nil) {
		if was, ok = decided(ctx, c.was, w.request); !ok {
			return false
		}
	}
	if known != silent && !c.ran(&was) && !c.ran(&is) {
		return true
	}
	if !says(&was, nil) && !says(&is, nil) {
		c.count(func(n *rule.CandidateCounts) { n.Seen++ })
		return true
	}
	others := c.others(w)
	differences := diff.Between(diff.Of(&others, &was), diff.Of(&others, &is))
	differs := func(kind string) bool {
		return slices.ContainsFunc(differences, func(d diff.Difference) bool {
			// The user is warned of it.
			return string(d.Kind) == kind || d.Kind == diff.PodsDenied && kind == string(diff.Warned)
		})
	}
	if others.Verdict == usher.Deny {
		is.Verdict = usher.Deny
	}
	e.counts(c, w, &is, differs)
	return true
}

// says reports whether a decision, or what it says of some policies, has anything in which another may differ.
func says(d *usher.Decision, of map[usher.PolicyRef]bool) bool {
	return d.Verdict == usher.Deny || len(d.Patch) > 0 || slices.ContainsFunc(d.Findings, func(f usher.Finding) bool {
		return (of == nil || of[f.Policy]) && (f.Outcome != usher.Passed && f.Outcome != usher.Skipped || len(f.Checks) > 0 || f.Failure() != nil)
	})
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
	e.differs.Lock()
	defer e.differs.Unlock()
	e.options.Differs(&rule.CandidateDifference{Candidate: c.of.Ref, Request: w.request, At: w.at, Decision: said, Kinds: kinds})
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
