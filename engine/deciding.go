package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/rule"
)

// A deciding is one request on its way to a decision.
type deciding struct {
	engine  *Engine
	request *usher.Request
	// tree is the object as the rules so far have left it, old the other one of an
	// update, decoded for the first rule that matches.
	tree  map[string]any
	old   map[string]any
	known fact.Known

	matched  []*rule.Rule
	decision usher.Decision
}

// match returns the rules of a pass that are for the object as it is now. The error is
// that of an old object that cannot be decoded.
func (d *deciding) match(pass int) ([]*rule.Rule, error) {
	s := rule.SubjectOf(d.request, d.tree)
	d.matched = d.engine.matcher.Matching(d.matched[:0], d.request.Phase, pass, &s)
	if len(d.matched) == 0 || d.old != nil || d.request.Object == nil {
		return d.matched, nil
	}
	old, err := d.request.OldObject.Tree()
	if err != nil {
		return nil, fmt.Errorf("old object: %w", err)
	}
	d.old = old
	return d.matched, nil
}

// run runs a rule and returns what came of it, with its finding. The error is that of
// ctx, if that ended before the rule did.
func (d *deciding) run(ctx context.Context, r *rule.Rule) (result, usher.Finding, error) {
	start := time.Now()
	res, err := attemptRule(ctx, d, r, start)
	finding := usher.Finding{Policy: r.Policy, Rule: r.Name, Outcome: usher.Passed, Took: time.Since(start)}
	switch {
	case err != nil:
		finding.Outcome, finding.Err, finding.Ignored = usher.Failed, err, d.ignores()
		if ctx.Err() != nil {
			return res, finding, fmt.Errorf("decide request: %s: %w", place(r.Policy, r.Name), context.Cause(ctx))
		}
	case res.rejected:
		finding.Outcome, finding.Message = usher.Rejected, res.message
	case len(res.patch) > 0 && !d.discards():
		finding.Outcome, finding.Patch = usher.Changed, res.patch
	}
	return res, finding, nil
}

// ignores reports whether the request goes on when a rule has failed.
func (d *deciding) ignores() bool {
	return d.engine.options.FailurePolicy == Ignore || d.discards()
}

// discards reports whether changes come to nothing: an object about to go is not changed.
func (d *deciding) discards() bool {
	return d.request.Phase == usher.Mutate && d.request.Operation == usher.Delete
}

// record keeps a finding and the warnings that came with it. A finding of a built-in rule
// is of interest only when the rule made a difference.
func (d *deciding) record(f usher.Finding, warnings []string) {
	if f.Outcome != usher.Passed || !builtIn(f.Policy) {
		if d.decision.Findings == nil {
			d.decision.Findings = make([]usher.Finding, 0, len(d.matched))
		}
		d.decision.Findings = append(d.decision.Findings, f)
	}
	for _, w := range warnings {
		if !slices.Contains(d.decision.Warnings, w) {
			d.decision.Warnings = append(d.decision.Warnings, w)
		}
	}
}

func builtIn(p usher.PolicyRef) bool { return p == usher.PolicyRef{} }

// place names a rule for messages.
func place(policy usher.PolicyRef, rule string) string {
	if builtIn(policy) {
		return rule
	}
	return policy.String() + " " + rule
}

// failure is the message for whoever made a request that is denied because a rule failed.
func failure(f *usher.Finding) string {
	return fmt.Sprintf("%v (%s)", f.Err, place(f.Policy, f.Rule))
}
