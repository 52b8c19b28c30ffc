package engine

import (
	"context"
	"net/http"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
)

// validate runs the rules in order. The first rejection of a policy, or its first failure that is
// not ignored, ends that policy; the others continue, so that the user sees all reasons at once.
func (d *evaluation) validate(ctx context.Context, passes []int) (usher.Decision, error) {
	var problems problems
	for _, pass := range passes {
		matched, err := d.match(pass)
		if err != nil {
			return undecodable(ctx, d.request, err)
		}
		for _, r := range matched {
			if problems.endedBy(r.Policy) {
				continue
			}
			res, finding, err := d.run(ctx, r)
			if err != nil {
				return usher.Decision{}, err
			}
			d.record(finding, res.warnings)
			switch {
			case finding.Outcome == usher.Rejected:
				problems.add(r.Policy, 0, res.message)
			case finding.Outcome == usher.Failed && !finding.Ignored:
				problems.add(r.Policy, http.StatusInternalServerError, failure(&finding))
			}
		}
	}
	if len(problems.policies) > 0 {
		return d.deny(problems.code, strings.Join(problems.messages, "; ")), nil
	}
	return d.allow(nil), nil
}

// problems are the objections to one request. The code is that of the first.
type problems struct {
	code     int32
	messages []string
	policies []usher.PolicyRef
}

func (p *problems) add(policy usher.PolicyRef, code int32, message string) {
	if len(p.policies) == 0 {
		p.code = code
	}
	p.policies = append(p.policies, policy)
	if message != "" {
		p.messages = append(p.messages, message)
	}
}

// endedBy reports whether policy has objected. Built-in rules have no policy in common.
func (p *problems) endedBy(policy usher.PolicyRef) bool {
	return !builtIn(policy) && slices.Contains(p.policies, policy)
}
