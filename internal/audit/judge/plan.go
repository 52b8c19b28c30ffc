package judge

import (
	"context"
	"slices"
	"sync"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/rule"
)

// A Plan is how objects of one kind are judged: the rules that are for them, the engines that run these,
// and the paths that they read. It is safe for concurrent use.
type Plan struct {
	judge    *Judge
	kind     result.Kind
	policies []usher.PolicyRef
	paths    usher.Paths
	// factual are the policies whose rules may use facts, by index.
	factual []bool
	// stages run the rules, and unjudged are those that are skipped.
	stages   []stage
	unjudged map[ruleKey]bool

	mu    sync.Mutex
	parts map[string]*Plan
}

// A ruleKey identifies a rule of a policy.
type ruleKey struct {
	policy usher.PolicyRef
	rule   string
}

// A stage is one decision about each object.
type stage struct {
	phase     usher.Phase
	operation usher.Operation
	rules     []rule.Rule
	engine    *engine.Engine
}

// maxParts is how many plans for some of the policies are kept.
const maxParts = 8

// plan returns the plan for a kind, of some of the policies, or of all if there are none; nil if no
// rule judges objects of the kind.
func (j *Judge) plan(k result.Kind, some []usher.PolicyRef) *Plan {
	p := &Plan{judge: j, kind: k, unjudged: map[ruleKey]bool{}, parts: map[string]*Plan{}}
	cluster, namespaced := newStages(), newStages()
	judged := false
	var elsewhere map[usher.PolicyRef]bool
	if some == nil {
		elsewhere = j.elsewhere(k)
	}
	for i := range j.rules {
		r := j.rules[i]
		if some != nil && !slices.Contains(some, r.Policy) || elsewhere[r.Policy] {
			continue
		}
		a := j.approach(&r, k)
		if !a.judged() && a.unjudged == "" {
			continue
		}
		p.add(&r)
		stages := cluster
		if r.Policy.Namespace != "" {
			stages = namespaced
		}
		if a.unjudged != "" {
			p.unjudged[ruleKey{r.Policy, r.Name}] = true
			stages.created.rules = append(stages.created.rules, unjudged(r, a.unjudged))
			p.readMatch(&r)
			continue
		}
		judged = true
		p.read(&r)
		stages.add(r, a)
	}
	if !judged && some == nil {
		return nil
	}
	for _, s := range slices.Concat(cluster.all(), namespaced.all()) {
		if len(s.rules) == 0 {
			continue
		}
		p.readPods(s)
		s.engine = engine.New(index.New(s.rules), j.facts, j.options.Engine)
		p.stages = append(p.stages, *s)
	}
	return p
}

// stages are those of the policies of the cluster, or those of the policies of namespaces. Those of
// the cluster come first: slow policies of a namespace do not keep them from judging its objects.
type stages struct {
	created, updated *stage
	mutations        []*stage
}

func newStages() *stages {
	return &stages{
		created: &stage{phase: usher.Validate, operation: usher.Create},
		updated: &stage{phase: usher.Validate, operation: usher.Update},
	}
}

func (s *stages) all() []*stage { return append([]*stage{s.created, s.updated}, s.mutations...) }

// add adds a rule.
func (s *stages) add(r rule.Rule, a approach) {
	// All rules of a policy have results, also after one has denied the object.
	r.Independent = true
	if r.Phase == usher.Mutate {
		s.mutation(&r, a)
		return
	}
	if a.create {
		s.created.rules = append(s.created.rules, r)
	}
	if a.update {
		s.updated.rules = append(s.updated.rules, r)
	}
}

// add adds the policy of a rule.
func (p *Plan) add(r *rule.Rule) {
	if len(p.policies) == 0 || !slices.Contains(p.policies, r.Policy) {
		p.policies, p.factual = append(p.policies, r.Policy), append(p.factual, false)
	}
}

// mutation adds a rule that changes objects. Each policy changes the object that is stored: its
// results do not depend on others.
func (s *stages) mutation(r *rule.Rule, a approach) {
	for _, operation := range []struct {
		name usher.Operation
		is   bool
	}{{usher.Create, a.create}, {usher.Update, a.update}} {
		if !operation.is {
			continue
		}
		i := slices.IndexFunc(s.mutations, func(other *stage) bool {
			return other.operation == operation.name && other.rules[0].Policy == r.Policy
		})
		if i < 0 {
			i, s.mutations = len(s.mutations), append(s.mutations, &stage{phase: usher.Mutate, operation: operation.name})
		}
		s.mutations[i].rules = append(s.mutations[i].rules, *r)
	}
}

// unjudged returns a rule that skips all objects that r is for, and tells why.
func unjudged(r rule.Rule, why string) rule.Rule {
	return rule.Rule{
		Policy: r.Policy, Name: r.Name, Phase: usher.Validate, Independent: true, Match: ofAnyOperation(&r.Match),
		Steps: []rule.Step{{Program: skip(why)}},
	}
}

// A skip is a program that skips all objects. It is the reason.
type skip string

// Run implements [rule.Program].
func (s skip) Run(context.Context, *rule.Input) (rule.Outcome, error) {
	return rule.Outcome{Skipped: string(s)}, nil
}

// ReadPaths implements [rule.Selective].
func (skip) ReadPaths() (object, old *usher.Paths) { return nil, nil }

// String implements [rule.Program].
func (s skip) String() string { return "skip: " + string(s) }

// Policies returns the policies with rules for objects of the kind, in order of
// evaluation. It is shared: do not change it.
func (p *Plan) Policies() []usher.PolicyRef { return p.policies }

// Paths returns what the rules read in objects of the kind, and what decides whether they are for
// an object. Judging the values at these paths gives the same as judging the whole object. They are
// shared: do not change them.
func (p *Plan) Paths() *usher.Paths { return &p.paths }

// MetadataOnly reports whether the metadata of objects suffices.
func (p *Plan) MetadataOnly() bool {
	metadata := &usher.Paths{}
	for _, field := range []string{"apiVersion", "kind", "metadata"} {
		metadata.Add(field)
	}
	return p.paths.Within(metadata)
}

// part returns the plan for some of the policies.
func (p *Plan) part(some []usher.PolicyRef) *Plan {
	key := make([]byte, 0, 64*len(some))
	for i := range some {
		key = append(append(key, some[i].String()...), 0)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.parts[string(key)]; known != nil {
		return known
	}
	if len(p.parts) == maxParts {
		clear(p.parts)
	}
	part := p.judge.plan(p.kind, some)
	p.parts[string(key)] = part
	return part
}
