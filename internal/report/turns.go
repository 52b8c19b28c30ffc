package report

import (
	"cmp"
	"slices"

	"github.com/usher-dev/usher/internal/rule"
)

// inTurns returns items in an order in which namespaces take turns, each with its items in their order: as many
// as somebody may write in one namespace do not push out those of others. At most so many of a namespace are
// returned; the empty one, which is the cluster, has any number.
func inTurns[T any](all []T, most int, namespace func(*T) string) []T {
	type placed struct{ index, turn int }
	turns := map[string]int{}
	order := make([]placed, 0, len(all))
	for i := range all {
		of := namespace(&all[i])
		if turn := turns[of]; of == "" || turn < most {
			order = append(order, placed{i, turn})
		}
		turns[of]++
	}
	slices.SortStableFunc(order, func(a, b placed) int { return cmp.Compare(a.turn, b.turn) })
	sorted := make([]T, len(order))
	for i, p := range order {
		sorted[i] = all[p.index]
	}
	return sorted
}

// mostPublished returns the failures that a replica publishes. Without too many of them that is all.
func (v *view) mostPublished(failures []rule.Failure) []rule.Failure {
	if len(failures) <= mostFailures {
		return failures
	}
	namespaces := make(map[string]string, len(v.Policies))
	for i := range v.Policies {
		namespaces[string(v.Policies[i].UID)] = v.Policies[i].Policy.Namespace
	}
	return inTurns(failures, mostFailures, func(f *rule.Failure) string { return namespaces[string(f.UID)] })[:mostFailures]
}
