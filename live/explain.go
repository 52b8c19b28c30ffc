package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/explain"
	"github.com/usher-dev/usher/internal/explain/authz"
	"github.com/usher-dev/usher/internal/explain/text"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/rule"
)

// Explain explains what Decide has decided about a request. Of one of admission it tells for each rule whether it
// matched and by which clause, what its expressions read and what their values were, and what it said and changed. The
// result is JSON, as in the phases of usher explain -o json. Values of objects that hold credentials, such as Secrets,
// are withheld.
//
// Of a request to authorize it tells which rules match, with their outcomes and conditions, which nearly match, and what
// would pass instead: rules, nearMatches and passes as in usher authz can-i -o json. Passes are flags of kubectl: one for
// metadata.name is Name of the request, too. What other authorizers such as RBAC say is not in it.
//
// The decision must be about this request: one that has findings of rules of the other phase is an error, and so is one
// with another verdict, or other outcomes of rules, than the policies in force now have. After admission.Decide of door/admission, the
// requests of both decisions are in its result. No request is an error.
//
// It decides the request again, and evaluates the expressions, which takes several times as long as to decide, by the policies that are in
// force now, and resolves the facts that they need once more.
func (l *Live) Explain(ctx context.Context, r *usher.Request, d usher.Decision) ([]byte, error) {
	told, err := l.explain(ctx, r, d)
	if err != nil {
		return nil, fmt.Errorf("explain decision: %w", err)
	}
	encoded, err := json.Marshal(told)
	if err != nil {
		return nil, fmt.Errorf("encode explanation: %w", err)
	}
	return encoded, nil
}

// ExplainText is [Live.Explain] for people: it returns the lines that usher explain prints for a phase, or those that
// usher authz can-i --explain prints for the policies, without colors. Characters that control terminals are escaped.
func (l *Live) ExplainText(ctx context.Context, r *usher.Request, d usher.Decision) (string, error) {
	told, err := l.explain(ctx, r, d)
	if err != nil {
		return "", fmt.Errorf("explain decision: %w", err)
	}
	var b strings.Builder
	told.print(&b)
	return printable.Lines(b.String()), nil
}

// An explanation is one of admission or one of authorization.
type explanation interface{ print(b *strings.Builder) }

type admission struct{ explain.Explanation }

func (a *admission) print(b *strings.Builder) {
	text.Phase(b, &a.Explanation, len(a.Rules), printable.Palette{})
}

type authorization struct{ authz.Explanation }

func (a *authorization) print(b *strings.Builder) { a.Print(b, printable.Palette{}) }

func (l *Live) explain(ctx context.Context, r *usher.Request, d usher.Decision) (explanation, error) {
	if r == nil {
		return nil, errors.New("there is no request: was the object denied before this phase?")
	}
	if err := complete(r); err != nil {
		return nil, err
	}
	if r.Phase == usher.Authorize {
		return l.explainAccess(ctx, r, d)
	}
	if err := inPhase(l.current.RulesAt(""), r.Phase, d.Findings); err != nil {
		return nil, err
	}
	now, err := l.current.Decide(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := same(now, d); err != nil && ctx.Err() == nil {
		return nil, err
	}
	told, err := explain.Of(ctx, l.current.RulesAt(r.Entry), r, d, explain.Options{Facts: l.facts})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx) // Some of the values are missing.
	}
	return &admission{told}, err
}

// same returns an error if a decision differs from that of the policies in force now.
func same(now, d usher.Decision) error {
	says, said := outcomes(now), outcomes(d)
	for i := range max(len(says), len(said)) {
		switch {
		case i >= len(says):
			return fmt.Errorf("the decision has %s, the policies in force now do not: %s", said[i], otherwise)
		case i >= len(said):
			return fmt.Errorf("the policies in force now have %s, the decision does not: %s", says[i], otherwise)
		case says[i] != said[i]:
			return fmt.Errorf("the policies in force now say %s, the decision %s: %s", says[i], said[i], otherwise)
		}
	}
	return nil
}

const otherwise = "it is of another request, or they, or what they read, have changed"

// outcomes are the verdict of a decision, and the outcome of each rule, in evaluation order.
func outcomes(d usher.Decision) []string {
	all := []string{authz.Verdict(d.Verdict)}
	for i := range d.Findings {
		f := &d.Findings[i]
		all = append(all, fmt.Sprintf("%s of %s of %s", f.Outcome, f.Rule, f.Policy))
	}
	return all
}

// explainAccess explains what the policies in force decide about a request to authorize.
func (l *Live) explainAccess(ctx context.Context, r *usher.Request, d usher.Decision) (explanation, error) {
	policies := l.current.Access()
	if policies == nil {
		return nil, ErrNotLoaded
	}
	x, err := policies.Explain(ctx, r)
	if err != nil {
		return nil, err
	}
	if x.Decision.Verdict != d.Verdict {
		return nil, fmt.Errorf("the policies in force now say %s, the decision %s: it is of another request, or they have changed",
			authz.Verdict(x.Decision.Verdict), authz.Verdict(d.Verdict))
	}
	return &authorization{authz.Of(r, x)}, nil
}

// inPhase returns an error if a finding is of a rule that only decides in the other phase.
func inPhase(rules []rule.Rule, phase usher.Phase, findings []usher.Finding) error {
	for i := range findings {
		f := &findings[i]
		of := func(r rule.Rule) bool { return !f.Written && r.Policy == f.Policy && r.Name == f.Rule }
		other := slices.IndexFunc(rules, of)
		if other >= 0 && !slices.ContainsFunc(rules, func(r rule.Rule) bool { return of(r) && r.Phase == phase }) {
			return fmt.Errorf("%s of %s decides in the phase %s: the request is of the phase %s", f.Rule, f.Policy, rules[other].Phase, phase)
		}
	}
	return nil
}
