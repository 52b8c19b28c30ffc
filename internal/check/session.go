package check

import (
	"context"
	"reflect"
	"slices"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/compile/bounded"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/trial"
	"github.com/usher-dev/usher/source"
)

// A Session checks sets that follow one another, such as a file while it is written: what did not change is
// neither compiled nor tried again. It is for one goroutine at a time.
type Session struct {
	compiler bounded.Compiler
	trial    *trial.Trial
	last     map[usher.PolicyRef]*checked
}

// A checked is a policy, and what was found.
type checked struct {
	compiled compile.Compiled
	tried    []rule.Problem
}

// NewSession returns a session that compiles and tries policies with these.
func NewSession(c bounded.Compiler, t *trial.Trial) *Session {
	return &Session{compiler: c, trial: t, last: map[usher.PolicyRef]*checked{}}
}

// Check returns all that is wrong with a set, sorted. The error is that of ctx: what was checked until then
// need not be checked again.
func (s *Session) Check(ctx context.Context, set source.Set) ([]rule.Problem, error) {
	next := map[usher.PolicyRef]*checked{}
	defer func() { s.last = next }()
	var all []compile.Compiled
	var found []rule.Problem
	for _, policy := range set.Policies {
		one, err := s.policy(ctx, policy)
		if err != nil {
			for ref, known := range s.last {
				if next[ref] == nil {
					next[ref] = known
				}
			}
			return nil, err
		}
		next[one.compiled.Ref] = one
		all, found = append(all, one.compiled), append(found, one.tried...)
	}
	return Problems(set, all, found), nil
}

// policy compiles and tries a policy, unless that has been done.
func (s *Session) policy(ctx context.Context, policy api.Policy) (*checked, error) {
	if last := s.last[compile.Ref(policy.Object)]; last != nil && same(last.compiled.Policy, policy) {
		return last.moved(policy), nil
	}
	compiled, err := s.compiler.Policy(ctx, policy)
	if err != nil {
		return nil, err
	}
	one := []compile.Compiled{compiled}
	tried, _, err := Try(ctx, s.compiler.Timeout, one, s.trial)
	return &checked{compiled: one[0], tried: tried}, err
}

// same reports whether two policies differ only in where they are.
func same(a, b api.Policy) bool {
	return slices.Equal(a.Unknown, b.Unknown) && slices.Equal(a.Duplicate, b.Duplicate) && (a.Object == b.Object || reflect.DeepEqual(a.Object, b.Object))
}

// moved returns what was found, with the places where the same policy is now.
func (c *checked) moved(policy api.Policy) *checked {
	m := &checked{compiled: c.compiled, tried: slices.Clone(c.tried)}
	m.compiled.Policy, m.compiled.Problems = policy, slices.Clone(c.compiled.Problems)
	for _, problems := range [][]rule.Problem{m.compiled.Problems, m.tried} {
		for i := range problems {
			problems[i] = m.compiled.Place(problems[i])
		}
		rule.SortProblems(problems)
	}
	return m
}
