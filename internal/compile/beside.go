package compile

import (
	"slices"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/rule"
)

// A Base has the policies in force by what candidates ask for. It is immutable.
type Base struct {
	policies   map[usher.PolicyRef]*Compiled
	bindings   map[usher.PolicyRef][]*Compiled
	kinds      map[string][]*Compiled
	exemptions []*Compiled
	foreign    bool
}

// NewBase returns a Base. With foreign, API servers enforce the admission policies of Kubernetes.
func NewBase(inForce []Compiled, foreign bool) *Base {
	b := &Base{policies: map[usher.PolicyRef]*Compiled{}, bindings: map[usher.PolicyRef][]*Compiled{}, kinds: map[string][]*Compiled{}, foreign: foreign}
	for i := range inForce {
		c := &inForce[i]
		if c.Candidate != nil {
			continue
		}
		b.policies[c.Ref] = c
		b.kinds[c.Ref.Kind] = append(b.kinds[c.Ref.Kind], c)
		if c.Binding != nil {
			b.bindings[c.Binding.Policy()] = append(b.bindings[c.Binding.Policy()], c)
		}
		if c.Exemption != nil {
			b.exemptions = append(b.exemptions, c)
		}
	}
	return b
}

// Beside are the policies that a candidate affects.
type Beside struct {
	// Was are those in force, Is those that would be, each with their bindings, and exemptions from them.
	Was, Is []Compiled
	// Affected are the policies whose decisions may differ.
	Affected map[usher.PolicyRef]bool
}

// With returns the policies that a candidate affects. Those that stay as they are, are left out.
func (b *Base) With(c *Candidate) Beside {
	replaced := map[usher.PolicyRef]bool{}
	if c.Replaces != (usher.PolicyRef{}) {
		replaced[c.Replaces] = true
	}
	for i := range c.Policies {
		replaced[c.Policies[i].Ref] = true
	}
	next := make([]*Compiled, len(c.Policies))
	for i := range c.Policies {
		p := c.Policies[i]
		kind, _ := api.KindOf(p.Policy.Object)
		p.Elsewhere = kind.Foreign && b.foreign
		next[i] = &p
	}
	affected := map[usher.PolicyRef]bool{}
	for ref := range replaced {
		if old := b.policies[ref]; old != nil {
			b.affects(old, next, affected)
		}
	}
	for _, p := range next {
		b.affects(p, next, affected)
	}
	beside := Beside{Affected: affected}
	add := func(p *Compiled) {
		beside.Was = append(beside.Was, *p)
		if !replaced[p.Ref] {
			beside.Is = append(beside.Is, *p)
		}
	}
	for ref := range affected {
		if p := b.policies[ref]; p != nil {
			add(p)
		}
		for _, p := range b.bindings[ref] {
			add(p)
		}
	}
	for _, p := range b.exemptions {
		if exempts(p.Exemption, affected) {
			add(p)
		}
	}
	for _, p := range next {
		beside.Is = append(beside.Is, *p)
	}
	return beside
}

// affects adds the policies whose decisions a policy, a binding or an exemption makes.
func (b *Base) affects(p *Compiled, next []*Compiled, affected map[usher.PolicyRef]bool) {
	switch {
	case p.Binding != nil:
		affected[p.Binding.Policy()] = true
	case p.Exemption != nil:
		for _, ref := range p.Exemption.Policies {
			for _, other := range slices.Concat(b.kinds[ref.Kind], next) {
				if _, ok := p.Exemption.For(other.Ref); ok {
					affected[other.Ref] = true
				}
			}
		}
	default:
		affected[p.Ref] = true
	}
}

func exempts(e *rule.Exemption, affected map[usher.PolicyRef]bool) bool {
	for ref := range affected {
		if _, ok := e.For(ref); ok {
			return true
		}
	}
	return false
}
