package rule

import (
	"maps"

	"k8s.io/apimachinery/pkg/labels"
)

// OtherValue is the value of a label that no object has, and no selector names.
const OtherValue = "\x00"

// DistinctLabels returns the labels that selectors can tell apart: each label that they read is absent, has one of the
// values that they name, or another one, which no object has. The first ones are none. It is false if there are more
// than most.
func DistinctLabels(selectors []labels.Selector, most int) ([]labels.Set, bool) {
	values := map[string]map[string]bool{}
	for _, selector := range selectors {
		requirements, _ := selector.Requirements()
		for _, r := range requirements {
			if values[r.Key()] == nil {
				values[r.Key()] = map[string]bool{OtherValue: true}
			}
			for value := range r.Values() {
				values[r.Key()][value] = true
			}
		}
	}
	sets := []labels.Set{{}}
	for key, named := range values {
		for _, without := range sets {
			for value := range named {
				with := maps.Clone(without)
				with[key] = value
				sets = append(sets, with)
			}
			if len(sets) > most {
				return nil, false
			}
		}
	}
	return sets, true
}
