package openreports

import (
	"cmp"
	"maps"
	"slices"
)

// shares divides limit among namespaces with so many results each: those that have few may report
// all of them, and the others the same number, so that no namespace can have the results of another
// omitted. It depends on nothing else, and changes little when the demands change little.
func shares(demands map[string]int, limit int) map[string]int {
	names := slices.SortedFunc(maps.Keys(demands), func(a, b string) int {
		return cmp.Or(cmp.Compare(demands[a], demands[b]), cmp.Compare(a, b))
	})
	given := make(map[string]int, len(demands))
	for len(names) > 0 {
		fair := limit / len(names)
		if demands[names[0]] > fair {
			break
		}
		given[names[0]] = demands[names[0]]
		limit -= demands[names[0]]
		names = names[1:]
	}
	if len(names) == 0 {
		return given
	}
	slices.Sort(names)
	fair, rest := limit/len(names), limit%len(names)
	for i, name := range names {
		given[name] = fair
		if i < rest {
			given[name]++
		}
	}
	return given
}
