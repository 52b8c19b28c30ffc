package compare

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/impact"
	"github.com/usher-dev/usher/internal/impact/diff"
	"github.com/usher-dev/usher/internal/rule"
)

// mostLabelled is how many namespaces, by their labels, a request is compared in whose namespace is not known.
const mostLabelled = 64

// A labelled has the namespaces, by their labels, that policies that differ can tell apart.
type labelled struct {
	sets []labels.Set
	// policies read nothing else of the namespace of a request.
	policies []usher.PolicyRef
}

// labelledBy returns the namespaces that the policies can tell apart, none if these are too many.
func labelledBy(refs []usher.PolicyRef, all []compile.Compiled) labelled {
	var selectors []labels.Selector
	more := map[usher.PolicyRef]bool{}
	for i := range all {
		c := &all[i]
		of := c.Ref
		if c.Binding != nil {
			of = c.Binding.Policy()
		}
		if c.Exemption == nil && !slices.Contains(refs, of) {
			continue
		}
		some, only := compile.NamespaceSelectors(c)
		selectors, more[of] = append(selectors, some...), more[of] || !only
	}
	sets, few := rule.DistinctLabels(selectors, mostLabelled)
	if !few {
		return labelled{}
	}
	// What is said of a namespace has as few labels as possible.
	slices.SortFunc(sets, func(a, b labels.Set) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), -cmp.Compare(a.String(), b.String()))
	})
	return labelled{sets, slices.DeleteFunc(slices.Clone(refs), func(ref usher.PolicyRef) bool { return more[ref] })}
}

// sure returns the policies whose differences are the same in every namespace, if that of the request is all that is
// missing. Of others it says what the worst difference is, and with which labels of the namespace.
func (c *comparing) sure(ctx context.Context, w *worker, i *item, differences []impact.Difference, missing []string) (sure []usher.PolicyRef, labelled map[usher.PolicyRef]string, err error) {
	if i.Request == nil || len(missing) != 1 || missing[0] != "v1 Namespace "+i.Request.Namespace {
		return nil, nil, nil
	}
	sure, labelled = slices.Clone(c.labels.policies), map[usher.PolicyRef]string{}
	worst := map[usher.PolicyRef]int{}
	for _, set := range c.labels.sets {
		w.scene.store.Label(set)
		others, err := policies.Within(ctx, c.timeout, "compare "+i.From, func(ctx context.Context) ([]impact.Difference, error) {
			others, _, err := w.Compare(ctx, i.Subject)
			return others, err
		})
		if err != nil {
			return nil, nil, err
		}
		sure = slices.DeleteFunc(sure, func(ref usher.PolicyRef) bool { return !slices.Equal(of(ref, differences), of(ref, others)) })
		for _, ref := range c.labels.policies {
			all := of(ref, others)
			if len(all) == 0 {
				continue
			}
			at := slices.Index(diff.Kinds(), all[0].Kind)
			if before, known := worst[ref]; !known || at < before {
				worst[ref], labelled[ref] = at, fmt.Sprintf("; %s: %s: %s", assumed(set), titles[all[0].Kind], all[0].Message)
			}
		}
	}
	w.scene.store.TakeMissing()
	return sure, labelled, nil
}

// assumed describes the labels of a namespace.
func assumed(set labels.Set) string {
	named, other := labels.Set{}, 0
	for key, value := range set {
		if named[key] = value; value == rule.OtherValue {
			named[key] = "..."
			other++
		}
	}
	switch {
	case len(set) == 0:
		return "if it has none of the labels that policies select by"
	case other == len(set):
		return "if it has other values of " + named.String()
	}
	return "if it is labeled " + named.String()
}

// of returns the differences of a policy.
func of(ref usher.PolicyRef, all []impact.Difference) []impact.Difference {
	return slices.DeleteFunc(slices.Clone(all), func(d impact.Difference) bool { return d.Policy != ref })
}
