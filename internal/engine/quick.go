package engine

import (
	"context"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

// briefAtOnce is how many brief rules run before somebody looks at the time again.
const briefAtOnce = 16

// quick runs a rule whose one program is brief, and reports whether it has nothing to do with the request: then its
// finding is kept. Any other rule runs as if nothing had happened, once more if it is brief.
func (d *evaluation) quick(ctx context.Context, r *rule.Rule) bool {
	if !d.brief && !r.Brief() || len(r.Steps) != 1 || d.each != nil || d.again || d.work != nil || d.attempt.repeats() {
		return false
	}
	if d.since++; d.since >= briefAtOnce {
		d.since = 0
		if d.ended(ctx) {
			return false
		}
	}
	if d.now.IsZero() {
		d.now = time.Now()
	}
	out, err := d.runBrief(ctx, r)
	if err != nil || !out.Harmless() {
		return false
	}
	d.attempt.ran(&r.Steps[0], &out, nil)
	took := time.Since(d.now)
	d.now = d.now.Add(took)
	if builtIn(r.Policy) && out.Skipped == "" {
		return true
	}
	f := d.another(d.rules)
	f.Policy, f.Rule, f.Outcome, f.Took = r.Policy, r.Name, usher.Passed, took
	f.Confidential = d.factsOf(r).Disclosed()
	if d.workload != nil {
		f.PodOf = d.workload.String()
	}
	if out.Skipped != "" {
		f.Outcome, f.Message, f.Condition = usher.Skipped, out.Skipped, out.Condition
	}
	return true
}

// runBrief runs the one program of a rule.
func (d *evaluation) runBrief(ctx context.Context, r *rule.Rule) (out rule.Outcome, err error) {
	if d.input == nil {
		d.input = &rule.Input{}
	}
	share := d.share(r)
	*d.input = rule.Input{
		Request: d.request, Object: d.tree, Unchanged: len(d.applied) == 0 && d.less == nil, Matched: d.began, OldObject: d.old,
		Workload: d.workload, Facts: d.factsOf(r), Allowance: share.Allowance, Memo: d.memo, Exempt: d.less,
	}
	defer share.Turn.End()
	defer catch(&err)
	return r.Steps[0].Program.Run(ctx, d.input)
}
