package live

import (
	"cmp"

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
