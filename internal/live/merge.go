package live

import (
	"cmp"
	"slices"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/source"
)

// merged is the newest set of a source, with the policies of older ones that are still in force.
type merged struct {
	policies []api.Policy
	problems []rule.Problem
}

// merge returns set with the policies of last whose files set could not read, which may be being
// edited. last may be nil.
func merge(last *merged, set source.Set) *merged {
	m := &merged{policies: set.Policies}
	// kept are the files that set could not read, and whether policies of last stay in force for them.
	kept := map[string]bool{}
	for _, u := range set.Unreadable {
		kept[u.Position.File] = false
	}
	if last != nil && len(kept) > 0 {
		m.keep(last.policies, kept)
	}
	for _, u := range set.Unreadable {
		do := "correct it; until then what cannot be read is not in force"
		if kept[u.Position.File] {
			do = "correct it; until then the policies that it held before stay in force"
		}
		m.problems = append(m.problems, rule.Problem{
			Severity: rule.Error, File: u.Position.File, Line: u.Position.Line, What: u.Err.Error(), Do: cmp.Or(u.Do, do),
		})
	}
	return m
}

// keep adds those of older policies that are missing and whose file is in kept, where it notes that.
func (m *merged) keep(older []api.Policy, kept map[string]bool) {
	present := make(map[usher.PolicyRef]bool, len(m.policies))
	for _, policy := range m.policies {
		present[compile.Ref(policy.Object)] = true
	}
	m.policies = slices.Clone(m.policies)
	for _, policy := range older {
		file := policy.Position("").File
		if _, unreadable := kept[file]; unreadable && file != "" && !present[compile.Ref(policy.Object)] {
			m.policies = append(m.policies, policy)
			kept[file] = true
		}
	}
}
