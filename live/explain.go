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
	"github.com/usher-dev/usher/internal/explain/text"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/rule"
)

// Explain explains what Decide has decided about a request of admission: for each rule, whether it matched and by
// which clause, what its expressions read and what their values were, and what it said and changed. The result is
// JSON, as in the phases of usher explain -o json. Values of objects that hold credentials, such as Secrets, are
// withheld.
//
// The decision must be about this request: one that has findings of rules of the other phase is an error. After
// admission.Decide of door/admission, the requests of both decisions are in its result. No request is an error.
//
// It evaluates the expressions again, which takes several times as long as to decide, by the policies that are in
// force now, and resolves the facts that they need once more.
func (l *Live) Explain(ctx context.Context, r *usher.Request, d usher.Decision) ([]byte, error) {
	told, err := l.explain(ctx, r, d)
	if err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(told)
	if err != nil {
		return nil, fmt.Errorf("encode explanation: %w", err)
	}
	return encoded, nil
}

// ExplainText is [Live.Explain] for people: it returns the lines that usher explain prints for a phase, without colors.
// Characters that control terminals are escaped.
func (l *Live) ExplainText(ctx context.Context, r *usher.Request, d usher.Decision) (string, error) {
	told, err := l.explain(ctx, r, d)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	text.Phase(&b, &told, len(told.Rules), printable.Palette{})
	return printable.Lines(b.String()), nil
}

func (l *Live) explain(ctx context.Context, r *usher.Request, d usher.Decision) (explain.Explanation, error) {
	if r == nil {
		return explain.Explanation{}, errors.New("explain decision: there is no request: was the object denied before this phase?")
	}
	if r.Phase == usher.Authorize {
		return explain.Explanation{}, errors.New("explain decision: expected one about a request of admission")
	}
	if err := complete(r); err != nil {
		return explain.Explanation{}, fmt.Errorf("explain decision: %w", err)
	}
	if err := inPhase(l.current.RulesAt(""), r.Phase, d.Findings); err != nil {
		return explain.Explanation{}, fmt.Errorf("explain decision: %w", err)
	}
	told, err := explain.Of(ctx, l.current.RulesAt(r.Entry), r, d, explain.Options{Facts: l.facts})
	if err != nil {
		return explain.Explanation{}, fmt.Errorf("explain decision: %w", err)
	}
	return told, nil
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
