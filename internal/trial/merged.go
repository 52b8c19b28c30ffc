package trial

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/json"

	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/rule"
)

// mergedLists warns of merge patches that have lists of objects which are something by themselves, such as containers:
// those of the object are gone. Elements without a required field, such as tolerations, are values that may be replaced.
func mergedLists(set *kind.Set, c *compile.Compiled, m *rule.ResourceMatch) []rule.Problem {
	spec := c.ObjectSpec()
	if spec == nil {
		return nil
	}
	var problems []rule.Problem
	for i := range spec.Mutations {
		var merged map[string]any
		if patch := spec.Mutations[i].MergePatch; patch == nil || json.Unmarshal(patch.Raw, &merged) != nil {
			continue
		}
		targets, _ := targetsOf(set, m)
		for _, p := range listsIn(merged, nil) {
			for _, target := range targets {
				list := set.Follow(set.Schema(target.Kind), p).At
				if list == nil || list.Kind() != kind.List {
					continue
				}
				if element := set.Resolve(list.Items); element != nil && len(element.Required) > 0 {
					problems = append(problems, rule.Problem{
						Severity: rule.Warning, Field: fmt.Sprintf("spec.mutations[%d].mergePatch", i),
						What: fmt.Sprintf("merge patches replace lists: a %s keeps nothing of its %s", target.Kind.Kind, p.expression()),
						Do:   "use applyConfiguration, which merges elements by their keys, or jsonPatch",
					})
					break
				}
			}
		}
	}
	return problems
}

// listsIn returns the paths of the lists of objects in a value, without those in lists.
func listsIn(value any, at path) []path {
	switch v := value.(type) {
	case map[string]any:
		var all []path
		for _, name := range slices.Sorted(maps.Keys(v)) {
			all = append(all, listsIn(v[name], append(slices.Clip(at), name))...)
		}
		return all
	case []any:
		if slices.ContainsFunc(v, func(element any) bool { _, ok := element.(map[string]any); return ok }) {
			return []path{at}
		}
	}
	return nil
}
