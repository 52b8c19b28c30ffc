package live

import (
	"cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/compile"
	"github.com/usher-dev/usher/rule"
	"github.com/usher-dev/usher/source"
)

// merged is the newest set of a source, with what is still in force of older ones.
type merged struct {
	policies []api.Policy
	problems []rule.Problem
}

// merge is set, with the policies of last that lie in files which set could not read:
// somebody is in the middle of editing those. last may be nil.
func merge(last *merged, set source.Set) *merged {
	m := &merged{policies: set.Policies}
	unreadable := map[string]bool{}
	for _, u := range set.Unreadable {
		unreadable[u.Position.File] = true
		m.problems = append(m.problems, rule.Problem{
			Severity: rule.Error, File: u.Position.File, Line: u.Position.Line,
			What: u.Err.Error(),
			Do:   cmp.Or(u.Do, "correct it; until then the policies that it held before stay in force"),
		})
	}
	if last == nil || len(unreadable) == 0 {
		return m
	}
	present := make(map[usher.PolicyRef]bool, len(set.Policies))
	for _, policy := range set.Policies {
		present[compile.Ref(policy.Object)] = true
	}
	m.policies = append([]api.Policy(nil), set.Policies...)
	for _, policy := range last.policies {
		if file := policy.Position("").File; file != "" && unreadable[file] && !present[compile.Ref(policy.Object)] {
			m.policies = append(m.policies, policy)
		}
	}
	return m
}
