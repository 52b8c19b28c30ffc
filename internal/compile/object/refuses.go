package object

import (
	"context"
	"fmt"
	"slices"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

// RefusesAll returns the field of a validation that refuses every request with an operation that resourceRules of the
// policy select, by anyone. Without any it is false, and also if something else selects requests: labels, names,
// users, conditions, or a binding.
func RefusesAll(ctx context.Context, o *Policy, operation usher.Operation) (field string, ok bool) {
	selects := len(o.subjects)+len(o.excluded) > 0 || o.match.Selects() || !slices.ContainsFunc(o.match.Resources.Rules, func(r rule.ResourceRule) bool { return actsOnAllNames(r, o.kinds) })
	refuses := slices.ContainsFunc(o.bindings, func(b binding) bool { return b.actions&deny != 0 && b.match == nil && b.params == nil })
	if o.validate == nil || selects || !refuses {
		return "", false
	}
	i, ok := o.validate.RefusesAll(ctx, operation)
	return fmt.Sprintf("spec.validations[%d].expression", i), ok
}

// actsOnAllNames reports whether a rule is for objects of all names, of a resource that is not excluded.
func actsOnAllNames(r rule.ResourceRule, excluded *rule.Excluded) bool {
	return len(r.Names) == 0 && slices.ContainsFunc(r.Groups, func(group string) bool {
		return slices.ContainsFunc(r.Resources, func(resource string) bool { return !excluded.HasResource(group, resource) })
	})
}
