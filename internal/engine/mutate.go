package engine

import (
	"context"
	"slices"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

// mutate runs the rules pass by pass. The rules of one pass are matched together, on the result of
// the passes before, and then run in order, each on the result of the one before. A rejection, or a
// failure that is not ignored, ends the run without a patch.
//
// A pass that has changed the object runs its rules that ask for it once more, as API servers do with
// admission policies.
//
// On Delete a patch has no effect: no rule is reported as changing anything, and no failure or
// timeout blocks the deletion.
func (d *evaluation) mutate(ctx context.Context, passes []int) (usher.Decision, error) {
	for i, pass := range passes {
		matched, err := d.match(pass)
		if err != nil {
			return undecodable(ctx, d.request, err)
		}
		if !d.brief && d.attempt.leavable(matched...) {
			return d.move(ctx, func() (usher.Decision, error) { return d.mutate(ctx, passes[i:]) })
		}
		before := len(d.applied)
		ended, again, err := d.round(ctx, matched)
		if ended != nil || err != nil {
			return *orNone(ended), err
		}
		if len(again) == 0 || len(d.applied) == before || d.request.Reinvocation {
			continue
		}
		if matched, err = d.match(pass); err != nil {
			return undecodable(ctx, d.request, err)
		}
		d.again, d.repeated = true, true
		matched = slices.DeleteFunc(matched, func(r *rule.Rule) bool { return !slices.Contains(again, r) })
		if ended, _, err = d.round(ctx, matched); ended != nil || err != nil {
			return *orNone(ended), err
		}
		d.again = false
	}
	if d.discards() || len(d.applied) == 0 {
		return d.allow(nil), nil
	}
	return d.allow(d.applied), nil
}

// round runs rules that were matched together. It returns the decision if there is one, and the
// rules to run again if the object has changed.
func (d *evaluation) round(ctx context.Context, matched []*rule.Rule) (ended *usher.Decision, again []*rule.Rule, err error) {
	d.remember(matched)
	for _, r := range matched {
		res, finding, err := d.run(ctx, r)
		if err != nil && !d.discards() {
			return nil, nil, err
		}
		d.record(&finding, &res)
		if r.Reinvoked && finding.Outcome != usher.Skipped {
			again = append(again, r)
		}
		if ended := d.end(&res, &finding, err); ended != nil {
			return ended, nil, nil
		}
	}
	return nil, again, nil
}

func orNone(d *usher.Decision) *usher.Decision {
	if d == nil {
		return &usher.Decision{}
	}
	return d
}
