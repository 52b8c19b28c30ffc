package index

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/rule"
)

// fewRules is how many rules a kind may have for what they want to be worth decoding
// before it is known whether they match.
const fewRules = 8

// A likelyKey is a phase and a kind, whose names are empty for rules without selectors.
type likelyKey struct {
	phase      usher.Phase
	apiVersion string
	kind       string
}

// Looks returns the paths to all that Matching looks at in objects of a kind, and to what
// the rules want that are likely to match.
func (ix *Index) Looks(phase usher.Phase, kind schema.GroupVersionKind) *usher.Paths {
	if looks := ix.likely[likelyKey{phase, kind.GroupVersion().String(), kind.Kind}]; looks != nil {
		return looks
	}
	return ix.looks
}

// look finds out what is looked at.
func (ix *Index) look() {
	ix.looks = rule.TargetPaths()
	wants := map[likelyKey]*kindWants{}
	for i := range ix.rules {
		r := &ix.rules[i]
		for j := range r.Match.Selectors {
			sel := &r.Match.Selectors[j]
			for _, field := range sel.Fields {
				ix.looks.Add(field.Path...)
			}
			key := likelyKey{r.Phase, sel.APIVersion, sel.Kind}
			if wants[key] == nil {
				wants[key] = &kindWants{}
			}
			wants[key].add(r)
		}
	}
	ix.likely = make(map[likelyKey]*usher.Paths, len(wants))
	for key, w := range wants {
		if w.rules > fewRules || w.paths.Within(ix.looks) {
			continue
		}
		looks := ix.looks.Clone()
		looks.Merge(&w.paths)
		ix.likely[key] = looks
	}
}

// kindWants is what the rules for a kind want of objects.
type kindWants struct {
	rules int
	paths usher.Paths
}

// add adds what a rule wants, unless that is everything: few objects may match.
func (w *kindWants) add(r *rule.Rule) {
	if w.rules++; w.rules > fewRules {
		return
	}
	for i := range r.Steps {
		if selective, ok := r.Steps[i].Program.(rule.Selective); ok {
			if object, _ := selective.Wants(); !object.Whole() {
				w.paths.Merge(object)
			}
		}
	}
}
