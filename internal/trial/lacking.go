package trial

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

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
			if !n.exists() {
				return []schema.GroupVersionKind{{Group: m.Rules[i].Groups[0], Version: m.Rules[i].Versions[0], Kind: pattern}}
			}
		}
	}
	return nil
}
