package impact

import (
	"context"
	"fmt"
	"slices"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/impact/diff"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// A Question is a request as authorizers decide it.
type Question struct {
	Request *usher.Request
	// Others is what the other authorizers of the API server say: Allow if one of them allows the request, Deny
	// if none does, and NoOpinion if that is not known.
	Others usher.Verdict
	// Generated means that nobody has asked: what others say may be anything, and each answer of Usher counts.
	Generated bool
}

// othersDecide is why it is not known whether a request is allowed.
const othersDecide = "RBAC decides, and the log does not say how"

// ask has both sides decide a question.
func (c *Comparison) ask(ctx context.Context, q *Question) (differences []Difference, concerned bool, err error) {
	query := authz.QueryOf(q.Request, nil)
	if !slices.ContainsFunc(c.access, func(r *authz.Rule) bool { return r.Matches(&query) }) {
		return nil, false, nil
	}
	was, err := c.was.Authorizer.Decide(ctx, q.Request)
	if err != nil {
		return nil, true, fmt.Errorf("authorize by the old policies: %w", err)
	}
	is, err := c.is.Authorizer.Decide(ctx, q.Request)
	if err != nil {
		return nil, true, fmt.Errorf("authorize by the new policies: %w", err)
	}
	for _, d := range diff.Between(diff.Of(&was), diff.Of(&is)) {
		if d.Kind == diff.Failing {
			differences = append(differences, Difference{d, q.Request})
		}
	}
	before, now := q.answer(&was), q.answer(&is)
	d := Difference{decisive(&was, &is), q.Request}
	switch {
	case was.Verdict == is.Verdict:
		return differences, true, nil
	case q.Generated && (is.Verdict == usher.Deny || was.Verdict == usher.Allow):
		d.Kind = diff.Denied
	case q.Generated:
		d.Kind = diff.Allowed
	case before == usher.NoOpinion || now == usher.NoOpinion:
		d.Kind, d.Message = diff.Unknown, othersDecide
	case before == now:
		return differences, true, nil
	case now == usher.Deny:
		d.Kind = diff.Denied
	default:
		d.Kind = diff.Allowed
	}
	return append(differences, d), true, nil
}

// answer is what the API server does after a decision of Usher; NoOpinion if that is not known.
func (q *Question) answer(d *usher.Decision) usher.Verdict {
	if d.Verdict == usher.NoOpinion {
		return q.Others
	}
	return d.Verdict
}

// decisive returns the policy because of which two verdicts differ, and what it says: one that decides now, or else
// one that did before.
func decisive(was, is *usher.Decision) diff.Difference {
	for _, side := range []struct {
		decision *usher.Decision
		prefix   string
	}{{is, ""}, {was, "no longer: "}} {
		outcome := map[usher.Verdict]usher.Outcome{usher.Allow: usher.Passed, usher.Deny: usher.Rejected}[side.decision.Verdict]
		for i := range side.decision.Findings {
			if f := &side.decision.Findings[i]; f.Outcome == outcome {
				return diff.Difference{Policy: f.Policy, Message: side.prefix + side.decision.Message}
			}
		}
	}
	return diff.Difference{Message: is.Message}
}
