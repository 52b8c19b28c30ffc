package compile

import (
	"context"
	"slices"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/compile/object"
	"github.com/usher-dev/usher/internal/rule"
)

// RefusesAll returns the field that refuses every request with an operation that an object policy, or a policy of
// kinitiras, selects, of all users; false if there is none.
func (c *Compiled) RefusesAll(ctx context.Context, operation usher.Operation) (field string, ok bool) {
	switch {
	case c.Object != nil:
		return object.RefusesAll(ctx, c.Object, operation)
	case c.Typed() != nil:
		return "", false
	}
	for i := range c.Rules {
		r := &c.Rules[i]
		named := len(r.Match.Operations) == 0 || slices.Contains(r.Match.Operations, operation)
		if r.Phase == usher.Validate && named && isUnlimited(r.Match.Selectors) && slices.ContainsFunc(r.Steps, func(s rule.Step) bool { return alwaysDenies(ctx, s.Program, operation) }) {
			return r.Name, true
		}
	}
	return "", false
}

// isUnlimited reports whether selectors select all objects of some kind.
func isUnlimited(selectors []rule.Selector) bool {
	return len(selectors) == 0 || slices.ContainsFunc(selectors, func(s rule.Selector) bool {
		return s.Never == "" && s.Namespace == "" && s.Name == "" && len(s.Fields) == 0 && (s.Labels == nil || s.Labels.Empty())
	})
}

// alwaysDenies reports whether a program reads nothing of requests, and denies one.
func alwaysDenies(ctx context.Context, p rule.Program, operation usher.Operation) bool {
	selective, ok := p.(rule.Selective)
	if !ok || rule.DependenciesOf(p, operation) != 0 {
		return false
	}
	if now, old := selective.ReadPaths(); !now.Within(&usher.Paths{}) || !old.Within(&usher.Paths{}) {
		return false
	}
	outcome, err := p.Run(ctx, &rule.Input{Request: &usher.Request{Phase: usher.Validate, Operation: operation}, Object: map[string]any{}, Facts: &fact.Known{}})
	return err == nil && outcome.Verdict == usher.Deny
}
