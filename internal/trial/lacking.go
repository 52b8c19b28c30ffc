package trial

import (
	"context"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/rule"
)

// lacking returns the kinds of the objects that a match is for of which the schema is not known or may have
// changed, and stand-ins of resources that do not exist: they may do so soon.
func (t *Trial) lacking(set *kind.Set, m *rule.ResourceMatch) []schema.GroupVersionKind {
	without := kindsFor(set, m, func(of schema.GroupVersionKind) bool { return set.Schema(of) == nil })
	return slices.Concat(without, t.custom(set, m), absent(set, m))
}

// custom returns the kinds of the objects that a match is for whose schemas are not those of Kubernetes itself:
// they may change.
func (t *Trial) custom(set *kind.Set, m *rule.ResourceMatch) []schema.GroupVersionKind {
	return kindsFor(set, m, func(of schema.GroupVersionKind) bool { return set.Schema(of) != nil && !t.recorded().Has(of) })
}

// schemas returns the schemas that may change, of the kinds that a policy is for and those that it reads; typed is nil if
// its expressions have no types.
func (t *Trial) schemas(set *kind.Set, typed compile.Typed, kinds []schema.GroupVersionKind) map[schema.GroupVersionKind]*kind.Schema {
	if typed != nil {
		kinds = slices.Concat(kinds, t.custom(set, typed.Matches()))
	}
	schemas := map[schema.GroupVersionKind]*kind.Schema{}
	for _, of := range kinds {
		if known := set.Schema(of); known != nil && !t.recorded().Has(of) {
			schemas[of] = known
		}
	}
	return schemas
}

// Outdated reports whether the schema of a custom kind has changed since a policy was tried. It reads schemas that have
// changed, and does not wait for API servers longer than ctx.
func (t *Trial) Outdated(ctx context.Context, result *Report) bool {
	if t.options.Kinds == nil || len(result.schemas) == 0 {
		return false
	}
	set := t.options.Kinds(ctx, t.recorded(), slices.Collect(maps.Keys(result.schemas)))
	for of, before := range result.schemas {
		now := set.Schema(of)
		if now != before && !reflect.DeepEqual(now, before) {
			return true
		}
		result.schemas[of] = now
	}
	return false
}

// kindsFor returns the kinds of the objects that a match is for, of those for which is returns true.
func kindsFor(set *kind.Set, m *rule.ResourceMatch, is func(schema.GroupVersionKind) bool) []schema.GroupVersionKind {
	var kinds []schema.GroupVersionKind
	for r := range set.Resources() {
		if target, ok := targetOf(r, m); ok && !slices.Contains(kinds, target.Kind) && len(kinds) < mostTargets && is(target.Kind) {
			kinds = append(kinds, target.Kind)
		}
	}
	return kinds
}

// absent returns a stand-in of the first resource that a match names and that does not exist; nothing if
// there is none.
func absent(set *kind.Set, m *rule.ResourceMatch) []schema.GroupVersionKind {
	for i := range m.Rules {
		for _, pattern := range m.Rules[i].Resources {
			n := named{set: set, rule: &m.Rules[i], pattern: pattern}
			if !n.exists() && len(m.Rules[i].Groups) > 0 && len(m.Rules[i].Versions) > 0 {
				return []schema.GroupVersionKind{{Group: m.Rules[i].Groups[0], Version: m.Rules[i].Versions[0], Kind: pattern}}
			}
		}
	}
	return nil
}
