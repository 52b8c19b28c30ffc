package engine

import (
	"context"
	"net/http"
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
	for _, pass := range passes {
		matched, err := d.match(pass)
		if err != nil {
			return undecodable(ctx, d.request, err)
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
		d.record(finding, &res)
		if r.Reinvoked && finding.Outcome != usher.Skipped {
			again = append(again, r)
		}
		if ended := d.end(&res, &finding, err); ended != nil {
			return ended, nil, nil
		}
	}
	return nil, again, nil
}

// end returns the decision if a rule has ended the run, or nil.
func (d *evaluation) end(res *result, finding *usher.Finding, err error) *usher.Decision {
	switch {
	case err != nil:
		return new(d.allow(nil))
	case finding.Outcome == usher.Rejected:
		return new(d.deny(status{code: res.code, reason: res.reason}, res.message))
	case finding.Outcome == usher.Failed && !finding.Ignored:
		return new(d.deny(status{code: http.StatusInternalServerError}, failure(finding)))
	}
	return nil
}

// remember keeps the object as rules that name resources were matched on it: an editor would change
// it.
func (d *evaluation) remember(matched []*rule.Rule) {
	d.began = nil
	if slices.ContainsFunc(matched, func(r *rule.Rule) bool { return len(r.Match.Resources) > 0 }) {
		d.began, d.editor = d.tree, nil
	}
}

func orNone(d *usher.Decision) *usher.Decision {
	if d == nil {
		return &usher.Decision{}
	}
	return d
}

func (d *evaluation) allow(patch usher.Patch) usher.Decision {
	d.decision.Verdict, d.decision.Patch = usher.Allow, patch
	d.audit()
	return d.decision
}

// A status is what a denial says to programs.
type status struct {
	code   int32
	reason string
}

func (d *evaluation) deny(s status, message string) usher.Decision {
	d.decision.Verdict, d.decision.Code, d.decision.Reason, d.decision.Message = usher.Deny, s.code, s.reason, message
	d.audit()
	return d.decision
}
