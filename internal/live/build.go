package live

import (
	"context"
	"maps"
	"slices"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/candidate"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/compile/guard"
	"github.com/usher-dev/usher/internal/engine"
	authzengine "github.com/usher-dev/usher/internal/engine/authz"
	"github.com/usher-dev/usher/internal/index"
	authzindex "github.com/usher-dev/usher/internal/index/authz"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/authz"
)

type built struct {
	snapshot

	changed bool
}

// build compiles what is new among the policies of sets and builds the new state.
func (l *Live) build(sets []*merged) built {
	known := make(map[usher.PolicyRef]*version, len(l.known))
	c := l.choose(sets)
	versions := l.versions(c.refs, c.policies)
	for i, v := range versions {
		known[c.refs[i]] = v
	}
	status := Status{Policies: map[string]int{}, Surplus: c.surplus}
	for _, ref := range c.surplus {
		status.Policies[ref.Kind]++
	}
	policies, problems := c.unused, c.problems
	var enforced, suspended []compile.Compiled
	all := make([]compile.Compiled, len(versions))
	for i, v := range versions {
		all[i] = v.newest
		problems = append(problems, v.newest.Problems...)
		problems = slices.Concat(problems, unevaluated(l, v), compile.Unserved(l.options.Unserved, v.newest))
		status.add(v)
		policies = append(policies, l.tries.state(v))
		switch {
		case v.good != nil:
			enforced = append(enforced, *v.good)
		case v.suspended != "":
			suspended = append(suspended, v.newest)
		}
	}
	status.countKnown(l.elsewhere)
	l.judged = l.options.Engine.Now()
	ineffective := compile.Ineffective(slices.Concat(enforced, suspended), l.elsewhere, l.judged)
	problems = slices.Concat(problems, compile.Twice(enforced, l.elsewhere), compile.Unbound(all), l.params.found(), unanswered(l.options.Facts, enforced), ineffective)
	rule.SortProblems(problems)
	status.Problems = problems
	last := l.current.Load().status
	changed := last.Generation == 0 || !maps.Equal(l.known, known) || !sameProblems(last.Problems, problems) || !maps.Equal(last.Known, status.Known) ||
		!slices.EqualFunc(l.unused, c.unused, sameObject) || !sameOnes(l.current.Load().elsewhere, l.elsewhere)
	l.known, l.unused = known, c.unused
	l.settler.expect(versions)
	l.tries.expect(versions)
	if !changed {
		return built{}
	}
	l.params.expect(compile.NeedsOf(enforced))
	offer := updateCandidates(l, enforced)
	next := l.enforce(enforced, suspended, policies, status, offer)
	next.exemptions = exemptionStates(versions, ineffective)
	next.enforced, next.elsewhere = enforced, l.elsewhere
	l.uses.expect(next.exemptions)
	return built{snapshot: next, changed: true}
}

// A choice has the policies of all sources that are used, and the states of the others.
type choice struct {
	refs     []usher.PolicyRef
	policies []api.Policy
	// unused are the policies that are not used; surplus are those of them above the quota.
	unused   []rule.State
	surplus  []usher.PolicyRef
	problems []rule.Problem
}

// choose omits policies whose name occurs in an earlier source, and those above the quota.
func (l *Live) choose(sets []*merged) *choice {
	c := &choice{}
	first := make(map[usher.PolicyRef]int, len(l.known))
	for _, set := range sets {
		c.problems = append(c.problems, set.problems...)
		for _, policy := range set.policies {
			ref := compile.Ref(policy.Object)
			if i, twice := first[ref]; twice {
				c.leaveOut(ref, policy, duplicate(ref, policy, c.policies[i]))
				continue
			}
			first[ref] = len(c.policies)
			c.refs, c.policies = append(c.refs, ref), append(c.policies, policy)
		}
	}
	var surplus map[int]rule.Problem
	var stored usage
	surplus, stored, l.lengths = l.options.Quota.apply(c.refs, c.policies, l.lengths)
	l.tally.update(stored)
	if len(surplus) == 0 {
		return c
	}
	refs, policies := c.refs, c.policies
	c.refs, c.policies = nil, nil
	for i, policy := range policies {
		problem, ok := surplus[i]
		if !ok {
			c.refs, c.policies = append(c.refs, refs[i]), append(c.policies, policy)
			continue
		}
		c.leaveOut(refs[i], policy, problem)
		c.unused[len(c.unused)-1].Surplus = true
		c.surplus = append(c.surplus, refs[i])
	}
	return c
}

func (c *choice) leaveOut(ref usher.PolicyRef, policy api.Policy, problem rule.Problem) {
	c.problems = append(c.problems, problem)
	c.unused = append(c.unused, unusedPolicy(ref, policy, problem))
}

// enforce creates engines for compiled policies: one for writes, one for requests to authorize.
func (l *Live) enforce(enforced, suspended []compile.Compiled, policies []rule.State, status Status, offer candidate.Offer) snapshot {
	rules, accessRules := compile.Order(enforced), compile.Access(enforced)
	status.Rules = written(rules) + len(accessRules)
	next := snapshot{rules: rules, coverage: rule.Cover(rules), policies: policies, status: status, access: authzengine.New(authzindex.New(accessRules), l.options.Access)}
	if l.candidates != nil {
		next.coverage.Candidates = l.candidates.Coverage()
	}
	l.index = index.Update(l.index, rules)
	guarded := l.options.guard(l.tally)
	guarded.Trial = l.options.tryExemption(enforced, suspended, l.elsewhere)
	writes := guard.Wrap(engine.New(l.index, l.options.Facts, l.options.Engine), guarded)
	next.entries = engine.NewEntries(rules, next.coverage.Entries(), writes, func(some []rule.Rule) usher.Decider {
		return engine.New(index.New(some), l.options.Facts, l.options.Engine)
	})
	next.decider = usher.DeciderFunc(func(ctx context.Context, r *usher.Request) (usher.Decision, error) {
		if r.Phase == usher.Authorize {
			return next.access.Decide(ctx, r)
		}
		d, err := next.entries.Decide(ctx, r)
		l.uses.count(r, &d)
		if err == nil {
			offer(r, &d)
		}
		return d, err
	})
	return next
}

// guard returns the options for checking written policies: protected users stay protected, without
// other exceptions.
func (o Options) guard(quota *tally) guard.Options {
	access, compiling := o.Access, o.Compile
	access.KillSwitch, compiling.Depth = nil, compile.Trying
	return guard.Options{
		Compile: compiling, May: o.May, Proofs: o.Proofs, Places: o.Places,
		Check: quota.check, Admit: quota.admit,
		Judge: func(rules []*authz.Rule) usher.Decider {
			return authzengine.New(authzindex.New(rules), access)
		},
		Trial: o.Trial, Existing: o.Existing, Facts: o.Facts, Unserved: o.Unserved, KeepSpecs: o.KeepSpecs, LongestExemption: o.LongestExemption,
	}
}
