package judge

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/audit/result"
)

// Versions are the versions in which the objects of a resource can be read, the preferred one first.
// Resources with one version need not be there.
type Versions map[schema.GroupResource][]result.Kind

// WithVersions returns a Judge with the policies and options of j and other versions.
func (j *Judge) WithVersions(v Versions) *Judge {
	next := &Judge{options: j.options, facts: j.facts, rules: j.rules, policies: j.policies, mutations: j.mutations, plans: map[result.Kind]*Plan{}}
	next.options.Versions = v
	return next
}

// elsewhere returns the policies that judge objects of a kind in another version: each does so in the
// first one in which it judges any. A policy that judges objects in no version is skipped in the first one
// that is read.
func (j *Judge) elsewhere(k result.Kind) map[usher.PolicyRef]bool {
	versions := j.options.Versions[k.Resource.GroupResource()]
	if len(versions) < 2 || !slices.Contains(versions, k) {
		return nil
	}
	homes := map[usher.PolicyRef]result.Kind{}
	settle := func(v result.Kind, here func(approach) bool) {
		for i := range j.rules {
			r := &j.rules[i]
			if _, known := homes[r.Policy]; !known && here(j.approach(r, v)) {
				homes[r.Policy] = v
			}
		}
	}
	for _, v := range versions {
		settle(v, approach.judged)
	}
	read := map[result.Kind]bool{}
	for _, v := range homes {
		read[v] = true
	}
	for _, v := range versions {
		if read[v] {
			settle(v, func(a approach) bool { return a.unjudged != "" })
		}
	}
	all := map[usher.PolicyRef]bool{}
	for ref, v := range homes {
		if v != k {
			all[ref] = true
		}
	}
	return all
}
