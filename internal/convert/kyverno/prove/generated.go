package prove

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/convert/kyverno/interpret"
	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
	"github.com/usher-dev/usher/internal/convert/proof"
	"github.com/usher-dev/usher/internal/policytest"
	"github.com/usher-dev/usher/internal/stall"
)

// mostDifferent is how many requests are reported that a policy and what it became answer differently.
const mostDifferent = 3

// Generated compares a policy with what it became, on requests that are made of what it mentions. Those that both
// answer alike are one row, and the first ones that they answer differently a row each.
func Generated(ctx context.Context, i *convert.Import, exceptions []convert.Foreign, o Options) []proof.Row {
	row := func(r proof.Row, name string) proof.Row {
		r.File, r.Name, r.Policy, r.Object = i.Of.File, name, i.Of.Ref(), i.Of.Object
		return r
	}
	policy, wrong := syntax.Decode(i.Of.Object)
	if len(wrong) > 0 || len(i.To) == 0 {
		return nil
	}
	if !slices.ContainsFunc(policy.Spec.Rules, func(r syntax.Rule) bool { return r.Validate != nil }) {
		return []proof.Row{row(unjudged("what it makes of objects is judged by tests alone"), "generated requests")}
	}
	twin, err := interpreterOf(i.Of, exceptions)
	if err != nil {
		return nil
	}
	stall.Of(ctx).At(i.Of.Ref().String())
	c := comparer{of: i, o: o, setups: map[string]*policytest.Setup{}}
	defer c.close()
	var different []proof.Row
	same, denied, unread := 0, 0, ""
	for n, r := range Requests(policy, o.Kinds) {
		if ctx.Err() != nil || len(different) == mostDifferent {
			break
		}
		answers, err := twin.Answers(r)
		if err != nil {
			unread = err.Error()
			continue
		}
		allowed := true
		for name, status := range answers {
			if slices.ContainsFunc(i.Without, func(missing string) bool { return slices.Contains(versions(missing), name) }) {
				continue
			}
			allowed = allowed && status != interpret.Fail && (status != interpret.Error || ignores(policy))
		}
		settled := c.compare(ctx, r, allowed)
		if settled.Outcome == proof.Holds {
			same++
			if !allowed {
				denied++
			}
			continue
		}
		settled.Why = fmt.Sprintf("%s; Kyverno answers %v", settled.Why, answers)
		different = append(different, row(settled, fmt.Sprintf("generated request %d", n+1)))
	}
	switch {
	case len(different) > 0:
		return different
	case same == 0 && unread != "":
		return []proof.Row{row(unjudged("%s", unread), "generated requests")}
	case denied == 0:
		return []proof.Row{row(unjudged("none of %d requests is denied", same), "generated requests")}
	}
	return []proof.Row{row(proof.Row{Outcome: proof.Holds}, fmt.Sprintf("%d generated requests, of which %d are denied", same, denied))}
}

// ignores reports whether a policy allows what it has an error for.
func ignores(p *syntax.Policy) bool {
	of := p.Spec.FailurePolicy
	if w := p.Spec.WebhookConfiguration; w != nil && w.FailurePolicy != "" {
		of = w.FailurePolicy
	}
	return of == "Ignore"
}

// A comparer runs requests on what a policy became.
type comparer struct {
	of *convert.Import
	o  Options
	// setups are by the objects that exist.
	setups map[string]*policytest.Setup
}

func (c *comparer) close() {
	for _, s := range c.setups {
		s.Close()
	}
}

// compare runs a request.
func (c *comparer) compare(ctx context.Context, r *interpret.Request, allowed bool) proof.Row {
	of, err := caseOf(c.of, r, c.o)
	if err != nil {
		return unjudged("%v", err)
	}
	of.Name = "a generated request about " + c.of.Of.Ref().Name
	of.Expect = &policytest.Expect{Allowed: &allowed}
	existing, err := json.Marshal(of.Objects)
	if err != nil {
		return unjudged("%v", err)
	}
	setup := c.setups[string(existing)]
	if setup == nil {
		if setup, err = of.Setup(ctx); err != nil {
			return unjudged("%v", err)
		}
		c.setups[string(existing)] = setup
	}
	request, err := of.Request.For(usher.Validate)
	if err != nil {
		return unjudged("%v", err)
	}
	decision, err := setup.Decider.Decide(ctx, request)
	if err != nil {
		return unjudged("%v", err)
	}
	is := decision.Verdict != usher.Deny
	return proof.Of(of, is == allowed, fmt.Sprintf("allowed is %t: %s", is, decision.Message))
}
