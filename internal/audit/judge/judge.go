// Package judge judges objects that exist by the policies in force: a stored object becomes a
// request, an engine decides it, and its findings become results.
//
// An object is judged as if an unknown user created it as it is stored, and for rules that are only
// for updates as if it were updated without a change. What cannot be known without a request is
// skipped, with the reason. The user is none of those whom policies exclude or exempt.
package judge

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/overrun"
	"github.com/usher-dev/usher/internal/rule"
)

// Options say how objects are judged. The zero Options works.
type Options struct {
	// Facts resolves what rules need besides objects; nil resolves nothing.
	Facts fact.Resolver
	// Engine are the options of engines.
	Engine engine.Options
	// HTTP has rules judged that ask services over HTTP, once for each object.
	HTTP bool
	// Unsent, unless nil, returns why API servers do not send a request to webhooks, by its resource and namespace; "" if
	// they may. The failures and warnings of other policies than those that API servers enforce are then skipped.
	Unsent func(*usher.Request) string
	// Versions has each policy judge the objects of a resource in one of its versions.
	Versions Versions
}

// A Judge judges objects by policies. It is safe for concurrent use.
type Judge struct {
	options  Options
	facts    fact.Resolver
	rules    []rule.Rule
	policies map[usher.PolicyRef]*policy
	// mutations are the rules that may change the pods of workloads before other rules see them.
	mutations []rule.Rule

	mu    sync.Mutex
	plans map[result.Kind]*Plan
}

// A policy is what results repeat of a policy.
type policy struct {
	category string
	severity usher.Severity
	// parts identify what the policy is compiled from, and what else has an influence on its results.
	parts []any
}

// New returns a Judge for the rules of policies, in order of evaluation. They must not change.
func New(rules []rule.Rule, o Options) *Judge {
	if o.Engine.Overruns == nil {
		o.Engine.Overruns = overrun.New(overrun.Options{})
	}
	j := &Judge{options: o, facts: resolver{o.Facts, o.HTTP}, policies: map[usher.PolicyRef]*policy{}, plans: map[result.Kind]*Plan{}}
	for i := range rules {
		r := &rules[i]
		if r.Policy == (usher.PolicyRef{}) || r.Inspects {
			continue
		}
		j.rules = append(j.rules, *r)
		if j.policies[r.Policy] == nil {
			j.policies[r.Policy] = describe(r.Description)
		}
	}
	j.mutations = j.podMutations()
	j.addInfluences()
	return j
}

// describe takes over what results repeat of a policy.
func describe(d *rule.Description) *policy {
	if d == nil {
		return &policy{}
	}
	return &policy{category: d.Category, severity: d.Severity, parts: slices.Clone(d.Parts)}
}

// addInfluences adds what else has an influence on the results of a policy: its exemptions, and what
// changes the pods of workloads before it sees them.
func (j *Judge) addInfluences() {
	var mutations []any
	for _, r := range j.mutations {
		mutations = append(mutations, j.policies[r.Policy].parts...)
	}
	for i := range j.rules {
		r := &j.rules[i]
		p := j.policies[r.Policy]
		for k := range r.Exemptions {
			p.parts = append(p.parts, r.Exemptions[k].Exemption)
		}
		if r.Pod != nil {
			p.parts = append(p.parts, mutations...)
		}
	}
}

// podMutations returns the rules that may change the pods of workloads before other rules see them.
func (j *Judge) podMutations() []rule.Rule {
	creation := rule.PodCreation(usher.Mutate)
	creation.Namespace = someNamespace
	var all []rule.Rule
	for i := range j.rules {
		if r := &j.rules[i]; r.Phase == usher.Mutate && mayMatch(&r.Match, &creation) {
			all = append(all, *r)
		}
	}
	return all
}

// Update returns a Judge for the rules of policies with the options of j, and the policies about whose results
// the two may differ, sorted: those that changed, came, or are gone.
func (j *Judge) Update(rules []rule.Rule) (*Judge, []usher.PolicyRef) {
	next := New(rules, j.options)
	var changed []usher.PolicyRef
	for ref, p := range next.policies {
		if before := j.policies[ref]; before == nil || !slices.Equal(before.parts, p.parts) || before.category != p.category || before.severity != p.severity {
			changed = append(changed, ref)
		}
	}
	for ref := range j.policies {
		if next.policies[ref] == nil {
			changed = append(changed, ref)
		}
	}
	slices.SortFunc(changed, compareRefs)
	return next, changed
}

func compareRefs(a, b usher.PolicyRef) int {
	return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// Plan returns how objects of a kind are judged; nil if no rule judges them in this version.
func (j *Judge) Plan(k result.Kind) *Plan {
	j.mu.Lock()
	defer j.mu.Unlock()
	p, known := j.plans[k]
	if !known {
		p = j.plan(k, nil)
		j.plans[k] = p
	}
	return p
}

// Expiring returns when the first exemption after a time expires, and the policies that then have to
// be judged again; the zero time if none does.
func (j *Judge) Expiring(after time.Time) (time.Time, []usher.PolicyRef) {
	var first time.Time
	var policies []usher.PolicyRef
	for i := range j.rules {
		r := &j.rules[i]
		for k := range r.Exemptions {
			at := r.Exemptions[k].Expires
			switch {
			case !at.After(after) || !first.IsZero() && at.After(first):
				continue
			case first.IsZero() || at.Before(first):
				first, policies = at, nil
			}
			if !slices.Contains(policies, r.Policy) {
				policies = append(policies, r.Policy)
			}
		}
	}
	return first, policies
}

// An Unjudged is a rule that no object can be judged by.
type Unjudged struct {
	Policy usher.PolicyRef `json:"policy"`
	Rule   string          `json:"rule"`
	Reason string          `json:"reason"`
}

// Unjudged returns the rules by which no objects can be judged, whatever their kind, in order of
// evaluation. Objects of the kinds that other rules judge have results that say so.
func (j *Judge) Unjudged() []Unjudged {
	var all []Unjudged
	for i := range j.rules {
		r := &j.rules[i]
		if why := j.never(r); why != "" {
			all = append(all, Unjudged{Policy: r.Policy, Rule: r.Name, Reason: why})
		}
	}
	return all
}
