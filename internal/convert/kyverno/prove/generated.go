package prove

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

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
	policy, wrong := syntax.Decode(i.Of.Object)
	if len(wrong) > 0 || len(i.To) == 0 {
		return nil
	}
	twin, err := interpreterOf(i.Of, exceptions)
	if err != nil {
		return nil
	}
	stall.Of(ctx).At(i.Of.Ref().String())
	c := comparer{of: i, o: o, policy: policy, twin: twin, setups: map[string]*policytest.Setup{}}
	defer c.close()
	requests := Requests(policy, o.Kinds)
	var rows []proof.Row
	if slices.ContainsFunc(policy.Spec.Rules, func(r syntax.Rule) bool { return r.Validate != nil }) {
		rows = append(rows, c.rows(ctx, requests, c.answer, "denied")...)
	}
	if slices.ContainsFunc(policy.Spec.Rules, func(r syntax.Rule) bool { return r.Mutate != nil }) {
		rows = append(rows, c.rows(ctx, requests, c.change, "changed")...)
	}
	return rows
}

// A comparer compares a policy with what it became.
type comparer struct {
	of     *convert.Import
	o      Options
	policy *syntax.Policy
	twin   *interpret.Policy
	// setups are by the phase and the objects that exist.
	setups map[string]*policytest.Setup
}

func (c *comparer) close() {
	for _, s := range c.setups {
		s.Close()
	}
}

// rows compares requests. One says whether a request has an effect, and whether both say so; its error is why it cannot
// be compared.
func (c *comparer) rows(ctx context.Context, requests []*interpret.Request, one func(context.Context, *interpret.Request) (bool, proof.Row, error), effect string) []proof.Row {
	row := func(r proof.Row, name string) proof.Row {
		r.File, r.Name, r.Policy, r.Object = c.of.Of.File, name, c.of.Of.Ref(), c.of.Of.Object
		return r
	}
	var different []proof.Row
	same, affected, unread := 0, 0, ""
	for n, r := range requests {
		if ctx.Err() != nil || len(different) == mostDifferent {
			break
		}
		has, settled, err := one(ctx, r)
		switch {
		case err != nil:
			unread = err.Error()
		case settled.Outcome == proof.Holds:
			same++
			if has {
				affected++
			}
		default:
			different = append(different, row(settled, fmt.Sprintf("generated request %d", n+1)))
		}
	}
	switch {
	case len(different) > 0:
		return different
	case same == 0 && unread != "":
		return []proof.Row{row(unjudged("%s", unread), "generated requests")}
	case len(requests) == 0:
		return []proof.Row{row(unjudged("nothing is proved: no requests are generated about %s; name files with the CustomResourceDefinitions of custom resources, or write a test for it", kindsOf(c.policy)), "generated requests")}
	case affected == 0:
		return []proof.Row{row(unjudged("nothing is proved: none of %d requests is %s", same, effect), "generated requests")}
	}
	return []proof.Row{row(proof.Row{Outcome: proof.Holds}, fmt.Sprintf("%d generated requests, of which %d are %s", same, affected, effect))}
}

// blocksOf returns all that a match says.
func blocksOf(m *syntax.Match) []syntax.Block {
	return slices.Concat([]syntax.Block{m.Block}, m.Any, m.All)
}

// kindsOf returns the kinds that the rules of a policy name.
func kindsOf(p *syntax.Policy) string {
	var all []string
	for i := range p.Spec.Rules {
		for _, b := range blocksOf(&p.Spec.Rules[i].Match) {
			all = append(all, b.Resources.Kinds...)
		}
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", ")
}

// answer compares whether a request is denied.
func (c *comparer) answer(ctx context.Context, r *interpret.Request) (bool, proof.Row, error) {
	answers, err := c.twin.Answers(r)
	if err != nil {
		return false, proof.Row{}, err
	}
	allowed := true
	for name, status := range answers {
		if c.missing(name) {
			continue
		}
		allowed = allowed && status != interpret.Fail && (status != interpret.Error || ignores(c.policy))
	}
	of, decision, err := c.decide(ctx, r, usher.Validate)
	if err != nil {
		return !allowed, unjudged("%v", err), nil
	}
	of.Expect = &policytest.Expect{Allowed: &allowed}
	is := decision.Verdict != usher.Deny
	return !allowed, proof.Of(of, is == allowed, fmt.Sprintf("allowed is %t: %s; Kyverno answers %v", is, decision.Message, answers)), nil
}

// missing reports whether a rule was not converted.
func (c *comparer) missing(rule string) bool {
	return slices.ContainsFunc(c.of.Without, func(missing string) bool { return slices.Contains(versions(missing), rule) })
}

// ignores reports whether a policy allows what it has an error for.
func ignores(p *syntax.Policy) bool {
	of := p.Spec.FailurePolicy
	if w := p.Spec.WebhookConfiguration; w != nil && w.FailurePolicy != "" {
		of = w.FailurePolicy
	}
	return of == "Ignore"
}

// decide runs a request on what the policy became.
func (c *comparer) decide(ctx context.Context, r *interpret.Request, phase usher.Phase) (*policytest.Case, usher.Decision, error) {
	of, err := caseOf(c.of, r, c.o)
	if err != nil {
		return nil, usher.Decision{}, err
	}
	of.Name, of.Phase = "a generated request about "+c.of.Of.Ref().Name, phase
	if phase == usher.Mutate {
		of.ValidationActions = nil
	}
	existing, err := json.Marshal(of.Objects)
	if err != nil {
		return nil, usher.Decision{}, fmt.Errorf("write the objects: %w", err)
	}
	key := string(phase) + string(existing)
	setup := c.setups[key]
	if setup == nil {
		if setup, err = of.Setup(ctx); err != nil {
			return nil, usher.Decision{}, fmt.Errorf("prepare a request: %w", err)
		}
		c.setups[key] = setup
	}
	request, err := of.Request.For(phase)
	if err != nil {
		return nil, usher.Decision{}, fmt.Errorf("make a request: %w", err)
	}
	decision, err := setup.Decider.Decide(ctx, request)
	if err != nil {
		return nil, usher.Decision{}, fmt.Errorf("decide a request: %w", err)
	}
	return of, decision, nil
}
