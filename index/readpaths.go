package index

import (
	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/rule"
)

// fewRules is the number of rules up to which the values that rules of a kind read are decoded
// before it is known whether the rules match.
const fewRules = 8

// A likelyKey is a phase and a kind, whose names are empty for rules without selectors.
type likelyKey struct {
	phase      usher.Phase
	apiVersion string
	kind       string
}

// A resourceOf is a phase and a resource of any group and version.
type resourceOf struct {
	phase    usher.Phase
	resource string
}

// ReadPaths returns the paths that Matching reads in the object of r, and the paths that rules read
// that are likely to match.
func (ix *Index) ReadPaths(r *usher.Request) *usher.Paths {
	if looks := ix.likely[likelyKey{r.Phase, r.Kind.GroupVersion().String(), r.Kind.Kind}]; looks != nil {
		return looks
	}
	if looks := ix.likelyAt[resourceOf{r.Phase, r.Resource.Resource}]; looks != nil {
		return looks
	}
	return ix.readPaths
}

// findReadPaths computes the read paths.
func (ix *Index) findReadPaths() {
	ix.readPaths = rule.TargetPaths()
	wants, wantsAt := map[likelyKey]*kindReadPaths{}, map[resourceOf]*kindReadPaths{}
	for i := range ix.rules {
		r := &ix.rules[i]
		if len(r.Match.Resources) > 0 {
			addAt(wantsAt, r)
		}
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
	ix.likely, ix.likelyAt = likely(wants, ix.readPaths), likely(wantsAt, ix.readPaths)
}

// likely returns what is read besides readPaths, where that may be worth while.
func likely[K comparable](wants map[K]*kindReadPaths, readPaths *usher.Paths) map[K]*usher.Paths {
	all := make(map[K]*usher.Paths, len(wants))
	for key, w := range wants {
		if w.rules > fewRules || w.paths.Within(readPaths) {
			continue
		}
		looks := readPaths.Clone()
		looks.Merge(&w.paths)
		all[key] = looks
	}
	return all
}

// addAt adds the paths that a rule reads to all resources that it names.
func addAt(wants map[resourceOf]*kindReadPaths, r *rule.Rule) {
	named := map[string]bool{}
	for key := range endpointsOf(&r.Match) {
		named[key.resource] = true
	}
	for resource := range named {
		key := resourceOf{r.Phase, resource}
		if wants[key] == nil {
			wants[key] = &kindReadPaths{}
		}
		wants[key].add(r)
	}
}

// kindReadPaths has the paths that the rules for a kind read in objects.
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
