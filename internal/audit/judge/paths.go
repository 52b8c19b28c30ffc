package judge

import (
	"slices"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

// read adds what a rule reads.
func (p *Plan) read(r *rule.Rule) {
	p.readMatch(r)
	p.readExemptions(r)
	p.depend(r, r.DependsOn(usher.Create)|r.DependsOn(usher.Update))
	if r.Pod != nil {
		return
	}
	for i := range r.Steps {
		s := &r.Steps[i]
		if r.Phase == usher.Mutate && s.Name == "cue" {
			// The paths that a CUE program changes can be computed.
			p.paths.Add()
			continue
		}
		p.readProgram(s.Program)
	}
}

// readProgram adds what a program reads.
func (p *Plan) readProgram(program rule.Program) {
	selective, ok := program.(rule.Selective)
	if !ok {
		p.paths.Add()
		return
	}
	object, _ := selective.ReadPaths()
	p.paths.Merge(object)
}

// readMatch adds what decides whether a rule is for an object.
func (p *Plan) readMatch(r *rule.Rule) {
	m := &r.Match
	if m.Namespace != "" {
		p.readNamespace()
	}
	for i := range m.Resources {
		if m.Resources[i].DependsOn().Any(rule.OnName) {
			p.paths.Add("metadata", "name")
		}
	}
	for i := range m.Selectors {
		s := &m.Selectors[i]
		if s.APIVersion != p.kind.Resource.GroupVersion().String() || s.Kind != p.kind.Kind {
			continue
		}
		if s.Name != "" {
			p.paths.Add("metadata", "name")
		}
		if s.Namespace != "" {
			p.paths.Add("metadata", "namespace")
		}
		if s.Labels != nil {
			p.paths.Add("metadata", "labels")
		}
		for _, field := range s.Fields {
			p.paths.Add(field.Path...)
		}
	}
}

// readNamespace adds the namespace of requests, which is the name of a Namespace.
func (p *Plan) readNamespace() {
	p.paths.Add("metadata", "namespace")
	if isNamespace(p.kind) {
		p.paths.Add("metadata", "name")
	}
}

// depend adds what a rule depends on that requests repeat of objects.
func (p *Plan) depend(r *rule.Rule, on rule.Dependencies) {
	if on.Any(rule.OnName) {
		p.paths.Add("metadata", "name")
	}
	if on.Any(rule.OnNamespace) {
		p.readNamespace()
	}
	if on.Any(rule.OnFacts) {
		for i := range p.policies {
			p.factual[i] = p.factual[i] || p.policies[i] == r.Policy
		}
	}
}

// readExemptions adds what decides whether an object is exempt from a rule.
func (p *Plan) readExemptions(r *rule.Rule) {
	for i := range r.Exemptions {
		x := r.Exemptions[i].Exemption
		if x.Ref.Namespace != "" {
			p.readNamespace()
		}
		for k := range x.Applies {
			applies := &x.Applies[k]
			p.depend(r, applies.DependsOn(usher.Create)|applies.DependsOn(usher.Update))
			for n := range applies.Steps {
				p.readProgram(applies.Steps[n].Program)
			}
		}
		if len(x.Images) > 0 {
			// Containers are in specs.
			p.paths.Add("spec")
			p.paths.Add("template", "spec")
		}
	}
}

// readPods adds what the rules for the pods of workloads read, and the rules that change these pods
// before, which it adds to the stage.
func (p *Plan) readPods(s *stage) {
	if !slices.ContainsFunc(s.rules, func(r rule.Rule) bool { return r.Pod != nil }) {
		return
	}
	mutations := p.judge.mutations
	probe := probeOf(p.kind)
	probe.Operation = usher.Create
	for i := range s.rules {
		r := &s.rules[i]
		if r.Pod == nil {
			continue
		}
		object, _ := r.PodPaths(&probe)
		if len(mutations) > 0 {
			object = rule.WholePodPaths(probe.Kind)
		}
		p.paths.Merge(object)
		for k := range mutations {
			p.depend(r, mutations[k].DependsOn(usher.Create))
		}
	}
	s.rules = append(s.rules, mutations...)
}
