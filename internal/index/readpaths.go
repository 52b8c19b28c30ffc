package index

import (
	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/podtemplate"
	"github.com/usher-dev/usher/internal/rule"
)

// The number of rules up to which the values that rules read are decoded before it is known whether
// the rules match: those for a kind may select few of its objects, those for a resource most.
const (
	fewRules  = 8
	fewNaming = 128
)

// A likelyKey is a phase and a kind, whose names are empty for rules without selectors.
type likelyKey struct {
	phase      usher.Phase
	apiVersion string
	kind       string
}

// A resourceOf is a phase, a resource of any group and version, and whether it is updated, in which
// case rules for the pods of workloads read more.
type resourceOf struct {
	phase    usher.Phase
	resource string
	updated  bool
}

// ReadPaths returns the paths that Matching reads in the object of r, and the paths that rules read
// that are likely to match.
func (ix *Index) ReadPaths(r *usher.Request) *usher.Paths {
	if looks := ix.likely[likelyKey{r.Phase, r.Kind.GroupVersion().String(), r.Kind.Kind}]; looks != nil {
		return looks
	}
	if looks := ix.likelyAt[resourceOf{r.Phase, r.Resource.Resource, r.Operation == usher.Update}]; looks != nil {
		return looks
	}
	return ix.readPaths
}

// findReadPaths computes the read paths.
func (ix *Index) findReadPaths() {
	ix.readPaths = rule.TargetPaths()
	creation := rule.PodCreation(usher.Mutate)
	changed := ix.MayMatch(&creation)
	byKind, byResource := map[likelyKey]*kindReadPaths{}, map[resourceOf]*kindReadPaths{}
	for i := range ix.rules {
		r := &ix.rules[i]
		if len(r.Match.Resources) > 0 {
			addAt(byResource, r, changed)
		}
		for j := range r.Match.Selectors {
			sel := &r.Match.Selectors[j]
			for _, field := range sel.Fields {
				ix.readPaths.Add(field.Path...)
			}
			key := likelyKey{r.Phase, sel.APIVersion, sel.Kind}
			if byKind[key] == nil {
				byKind[key] = &kindReadPaths{}
			}
			byKind[key].add(r, fewRules)
		}
	}
	ix.likely, ix.likelyAt = likely(byKind, ix.readPaths, fewRules), likely(byResource, ix.readPaths, fewNaming)
}

// likely returns what is read besides readPaths, where that may be worth while.
func likely[K comparable](of map[K]*kindReadPaths, readPaths *usher.Paths, few int) map[K]*usher.Paths {
	all := make(map[K]*usher.Paths, len(of))
	for key, w := range of {
		if w.rules > few || w.paths.Within(readPaths) {
			continue
		}
		paths := readPaths.Clone()
		paths.Merge(&w.paths)
		all[key] = paths
	}
	return all
}

// addAt adds the paths that a rule reads to all resources that it names. changed says that rules change
// pods before, which may read all of them.
func addAt(byResource map[resourceOf]*kindReadPaths, r *rule.Rule, changed bool) {
	named := map[string]bool{}
	for key := range endpointsOf(&r.Match) {
		named[key.resource] = true
	}
	for resource := range named {
		for _, operation := range []usher.Operation{usher.Create, usher.Update} {
			key := resourceOf{r.Phase, resource, operation == usher.Update}
			if byResource[key] == nil {
				byResource[key] = &kindReadPaths{}
			}
			if r.Pod != nil {
				byResource[key].addPod(r, resource, operation, changed)
				continue
			}
			byResource[key].add(r, fewNaming)
		}
	}
}

// addPod adds the paths that a rule reads in the workloads of a resource whose pods it is for.
func (w *kindReadPaths) addPod(r *rule.Rule, resource string, operation usher.Operation, changed bool) {
	w.rules++
	for _, workload := range podtemplate.Workloads() {
		switch {
		case workload.Resource != resource:
		case changed:
			w.paths.Merge(rule.WholePodPaths(workload.WithVersion("")))
		default:
			r.AddPodPaths(&w.paths, &workload, operation)
		}
	}
}

// kindReadPaths has the paths that the rules for a kind read in objects.
type kindReadPaths struct {
	rules int
	paths usher.Paths
}

// add adds the paths that a rule reads, unless that is everything: few objects may match. Those of
// more than few rules are not used.
func (w *kindReadPaths) add(r *rule.Rule, few int) {
	if w.rules++; w.rules > few {
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
