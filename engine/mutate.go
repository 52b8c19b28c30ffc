package engine

import (
	"context"
	"net/http"

	usher "github.com/usher-dev/usher"
)

// mutate runs the rules pass by pass. The rules of one pass are matched together, on the result of
// the passes before, and then run in order, each on the result of the one before. A rejection, or a
// failure that is not ignored, ends the run without a patch.
//
// On Delete a patch has no effect: no rule is reported as changing anything, and no failure or
// timeout blocks the deletion.
func (d *evaluation) mutate(ctx context.Context, passes []int) (usher.Decision, error) {
	for _, pass := range passes {
		matched, err := d.match(pass)
		if err != nil {
			return undecodable(ctx, d.request, err)
		}
		for _, r := range matched {
			res, finding, err := d.run(ctx, r)
			if err != nil && !d.discards() {
				return usher.Decision{}, err
			}
			d.record(finding, &res)
			switch {
			case err != nil:
				return d.allow(nil), nil
			case finding.Outcome == usher.Rejected:
				return d.deny(status{code: res.code, reason: res.reason}, res.message), nil
			case finding.Outcome == usher.Failed && !finding.Ignored:
				return d.deny(status{code: http.StatusInternalServerError}, failure(&finding)), nil
			}
		}
	}
	if d.discards() || len(d.applied) == 0 {
		return d.allow(nil), nil
	}
	return d.allow(d.applied), nil
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
