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

// ReadPaths returns the paths to all that Matching looks at in objects of a kind, and to what
// the rules want that are likely to match.
func (ix *Index) ReadPaths(phase usher.Phase, kind schema.GroupVersionKind) *usher.Paths {
	if looks := ix.likely[likelyKey{phase, kind.GroupVersion().String(), kind.Kind}]; looks != nil {
		return looks
	}
	return ix.readPaths
}

// findReadPaths finds out what is looked at.
func (ix *Index) findReadPaths() {
	ix.readPaths = rule.TargetPaths()
	wants := map[likelyKey]*kindReadPaths{}
	for i := range ix.rules {
		r := &ix.rules[i]
		for j := range r.Match.Selectors {
			sel := &r.Match.Selectors[j]
			for _, field := range sel.Fields {
				ix.readPaths.Add(field.Path...)
			}
			key := likelyKey{r.Phase, sel.APIVersion, sel.Kind}
			if wants[key] == nil {
				wants[key] = &kindReadPaths{}
			}
			wants[key].add(r)
		}
	}
	ix.likely = make(map[likelyKey]*usher.Paths, len(wants))
	for key, w := range wants {
		if w.rules > fewRules || w.paths.Within(ix.readPaths) {
			continue
		}
		looks := ix.readPaths.Clone()
		looks.Merge(&w.paths)
		ix.likely[key] = looks
	}
}

// kindReadPaths is what the rules for a kind want of objects.
type kindReadPaths struct {
	rules int
	paths usher.Paths
}

// add adds the paths that a rule reads, unless that is everything: few objects may match.
func (w *kindReadPaths) add(r *rule.Rule) {
	if w.rules++; w.rules > fewRules {
		return
	}
	for i := range r.Steps {
		if selective, ok := r.Steps[i].Program.(rule.Selective); ok {
			if object, _ := selective.ReadPaths(); !object.Whole() {
				w.paths.Merge(object)
			}
		}
	}
}
