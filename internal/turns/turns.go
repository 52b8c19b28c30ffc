// Package turns has namespaces take turns: as many things as somebody may write in one namespace do not
// push out, or delay, those of others.
package turns

import (
	"cmp"
	"slices"
	"strings"
)

// OfUser returns in whose turn a user is with requests that may name any namespace. ServiceAccounts are in that
// of their namespace, since some users can create any number.
func OfUser(name string) string {
	if account, ok := strings.CutPrefix(name, "system:serviceaccount:"); ok {
		name, _, _ = strings.Cut(account, ":")
	}
	return name
}

// Of returns items in an order in which namespaces take turns, each with its items in the order that they
// have. It keeps at most so many of a namespace; of the empty one, which is the cluster, it keeps all.
func Of[T any](all []T, most int, namespace func(*T) string) []T {
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
