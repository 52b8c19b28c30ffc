package engine

import (
	"context"
	"net/http"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

// validate runs the rules in order. The first rejection of a policy, or its first failure that is
// not ignored, ends that policy; the others continue, so that the user sees all reasons at once.
func (d *evaluation) validate(ctx context.Context, passes []int) (usher.Decision, error) {
	return d.validateFrom(ctx, passes, 0, &problems{})
}

// validateFrom runs the rules of passes, in the first one from a place. Those before had problems.
func (d *evaluation) validateFrom(ctx context.Context, passes []int, from int, problems *problems) (usher.Decision, error) {
	var inspections []*inspecting
	for i, pass := range passes {
		matched, err := d.match(pass)
		if err != nil {
			return undecodable(ctx, d.request, err)
		}
		before := from
		from = 0
		for j, r := range matched[before:] {
			if !r.Independent && problems.endedBy(r.Policy) || (quick{d}).isNotFor(r) {
				continue
			}
			if (quick{d}).passes(ctx, r) {
				continue
			}
			if !d.brief && d.attempt.leavable(r) {
				// What moves has inspected nothing yet.
				return d.move(ctx, func() (usher.Decision, error) { return d.validateFrom(ctx, passes[i:], before+j, problems) })
			}
			res, finding, err := d.judge(ctx, r)
			if err != nil {
				return usher.Decision{}, err
			}
			if res.inspect != nil {
				inspections = append(inspections, &inspecting{rule: r, res: res, finding: finding})
				continue
			}
			d.record(&finding, &res)
			switch {
			case finding.Outcome == usher.Rejected:
				problems.add(r, status{code: res.code, reason: res.reason}, res.message)
			case finding.Outcome == usher.Failed && !finding.Ignored:
				problems.add(r, status{code: http.StatusInternalServerError}, failure(&finding))
			}
		}
	}
	inspector{d}.inspect(ctx, inspections, len(problems.policies) > 0)
	if len(problems.policies) > 0 {
		return d.deny(problems.status, strings.Join(problems.messages, "; ")), nil
	}
	return d.allow(nil), nil
}

// problems are the objections to one request. The status is that of the first.
type problems struct {
	status   status
	messages []string
	policies []usher.PolicyRef
	// independent says that one of them is of a rule that is [rule.Rule.Independent].
	independent bool
}

func (p *problems) add(r *rule.Rule, s status, message string) {
	if len(p.policies) == 0 {
		p.status = s
	}
	p.policies = append(p.policies, r.Policy)
	told := r.Independent && p.independent
	p.independent = p.independent || r.Independent
	if message != "" && !told {
		p.messages = append(p.messages, message)
	}
}

// endedBy reports whether policy has objected. Built-in rules have no policy in common.
func (p *problems) endedBy(policy usher.PolicyRef) bool {
	return !builtIn(policy) && slices.Contains(p.policies, policy)
}
