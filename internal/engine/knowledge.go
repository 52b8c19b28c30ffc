package engine

import (
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/rule"
)

// A knowledge is the facts that the rules of a request are given.
type knowledge struct {
	// known are the facts that rules share: own, or those of the evaluation of the workload. Rules that
	// are bound to a namespace have facts of their own, so that none sees what another may read.
	known   *fact.Known
	own     fact.Known
	bound   *fact.Known
	boundTo *rule.Rule
}

// factsOf returns the facts that a rule is given.
func (k *knowledge) factsOf(r *rule.Rule) *fact.Known {
	if r.Facts == nil || r.Facts.Namespace == "" {
		return k.known
	}
	if k.boundTo != r {
		k.bound, k.boundTo = &fact.Known{}, r
	}
	return k.bound
}
