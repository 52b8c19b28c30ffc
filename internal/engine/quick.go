package engine

import (
	"context"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

// briefAtOnce is how many brief rules run before somebody looks at the time again.
const briefAtOnce = 16

// A quick finds out what rules say that have nothing to say.
type quick struct{ *evaluation }

// passes reports whether a rule has nothing to say, if that can be known soon. Then its finding is kept. Any other rule
// runs as if nothing had happened, once more if it is brief.
func (d quick) passes(ctx context.Context, r *rule.Rule) bool {
	if len(r.Steps) != 1 || r.Pod != nil || r.Inspects || d.each != nil || d.work != nil || d.attempt.repeats() {
		return false
	}
	glancer, _ := r.Steps[0].Program.(rule.Glancer)
	if glancer == nil && !d.brief && !brief(r.Steps[0].Program) {
		return false
	}
	if d.late(ctx) {
		return false
	}
	if d.now.IsZero() {
		d.now = time.Now()
	}
	out, known := d.glance(ctx, r, glancer)
	if !known {
		return false
	}
	d.attempt.ran(&r.Steps[0], &out, nil)
	took := time.Since(d.now)
	d.now = d.now.Add(took)
	if builtIn(r.Policy) && out.Skipped == "" {
		return true
	}
	f := d.another()
	f.Policy, f.Rule, f.Outcome, f.Took = r.Policy, r.Name, usher.Passed, took
	f.Confidential = d.factsOf(r).Disclosed()
	if out.Skipped != "" {
		f.Outcome, f.Message, f.Condition = usher.Skipped, out.Skipped, out.Condition
	}
	return true
}

// late reports whether the time for a brief rule is over, as far as somebody has looked: before few of them.
func (d quick) late(ctx context.Context) bool {
	if d.since++; d.since < briefAtOnce && !d.attempt.careful {
		return false
	}
	if d.ended(ctx) {
		return true
	}
	d.since = 0
	return false
}

// glance returns what the one program of a rule says, if that is known soon and harmless. The program is a glancer, or
// brief.
func (d quick) glance(ctx context.Context, r *rule.Rule, glancer rule.Glancer) (out rule.Outcome, known bool) {
	var err error
	defer func() { known = known && err == nil }()
	defer catch(&err)
	in := d.inputOf(r)
	if r.Policy.Namespace != "" {
		share := d.share(r)
		in.Allowance = share.Allowance
		defer share.Turn.End()
	}
	if glancer != nil {
		return glancer.Glance(ctx, in)
	}
	out, err = r.Steps[0].Program.Run(ctx, in)
	return out, out.Harmless()
}

// inputOf returns the input of a rule of a pass that validates, which is that of all of them one after the other.
func (d quick) inputOf(r *rule.Rule) *rule.Input {
	in := d.input
	if in == nil {
		in = &rule.Input{Request: d.request, Unchanged: len(d.applied) == 0, Matched: d.began, OldObject: d.old, Memo: d.memo}
		d.input = in
	}
	in.Object, in.Facts, in.Allowance = d.tree, d.factsOf(r), nil
	return in
}
