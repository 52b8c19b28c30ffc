package compile

import (
	"fmt"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/compile/admissionregistration"
	"github.com/usher-dev/usher/internal/rule"
)

// link returns the rules of admission policies, one for each binding.
func link(cs []Compiled) []rule.Rule {
	var policies []*admissionregistration.Policy
	var bindings []*admissionregistration.Binding
	for i := range cs {
		if cs[i].Admission != nil {
			policies = append(policies, cs[i].Admission)
		}
		if cs[i].Binding != nil {
			bindings = append(bindings, cs[i].Binding)
		}
	}
	return admissionregistration.Link(policies, bindings)
}

// links returns the admission policies that a binding names, and those that there are.
func links(cs []Compiled) (bound map[usher.PolicyRef]bool, known map[usher.PolicyRef]*admissionregistration.Policy) {
	bound, known = map[usher.PolicyRef]bool{}, map[usher.PolicyRef]*admissionregistration.Policy{}
	for i := range cs {
		if cs[i].Binding != nil {
			bound[cs[i].Binding.Policy()] = true
		}
		if cs[i].Admission != nil {
			known[cs[i].Admission.Ref()] = cs[i].Admission
		}
	}
	return bound, known
}

// Idle returns the admission policies without binding, and the bindings without policy: they do nothing.
func Idle(cs []Compiled) map[usher.PolicyRef]bool {
	bound, known := links(cs)
	idle := map[usher.PolicyRef]bool{}
	for i := range cs {
		c := &cs[i]
		if c.Admission != nil && !bound[c.Admission.Ref()] || c.Binding != nil && known[c.Binding.Policy()] == nil {
			idle[c.Ref] = true
		}
	}
	return idle
}

// Unbound returns a warning for every admission policy without binding, for every binding without
// policy, and for every one with params that its policy has not.
func Unbound(cs []Compiled) []rule.Problem {
	bound, known := links(cs)
	var problems []rule.Problem
	for i := range cs {
		c := &cs[i]
		p := rule.Problem{Severity: rule.Warning}
		switch {
		case c.Admission != nil && !bound[c.Admission.Ref()]:
			p.Field, p.What = "metadata.name", "no binding puts the policy into force: it does nothing"
			p.Do = fmt.Sprintf("add a %sBinding with policyName: %s", c.Ref.Kind, c.Ref.Name)
		case c.Binding != nil && c.Binding.Policy().Name != "" && known[c.Binding.Policy()] == nil:
			p.Field, p.What = "spec.policyName", fmt.Sprintf("there is no %s: the binding does nothing", c.Binding.Policy())
			p.Do = "add the policy, or correct the name"
		case c.Binding != nil && c.Binding.Policy().Name != "" && c.Binding.HasParams() && !known[c.Binding.Policy()].HasParams():
			p.Field, p.What = "spec.paramRef", fmt.Sprintf("the policy %s has no paramKind: the binding has no params", c.Binding.Policy().Name)
			p.Do = "set spec.paramKind of the policy, or remove spec.paramRef"
		default:
			continue
		}
		problems = append(problems, c.Place(p))
	}
	return problems
}

// A Need is a fact that a policy needs for all requests: the params of a binding, or data.
type Need struct {
	// Ref names it.
	Ref    fact.Ref
	absent func(value any, err error) (rule.Problem, bool)
	of     *Compiled
}

// NeedsOf returns what all policies need, except what depends on the request.
func NeedsOf(cs []Compiled) []Need {
	policies := map[usher.PolicyRef]*admissionregistration.Policy{}
	for i := range cs {
		if cs[i].Admission != nil {
			policies[cs[i].Admission.Ref()] = cs[i].Admission
		}
	}
	var all []Need
	for i := range cs {
		c := &cs[i]
		if c.Object != nil {
			c.Object.Needs(func(ref fact.Ref, absent func(any, error) (rule.Problem, bool)) {
				all = append(all, Need{Ref: ref, absent: absent, of: c})
			})
		}
		if c.Binding == nil || policies[c.Binding.Policy()] == nil {
			continue
		}
		policy := policies[c.Binding.Policy()]
		if ref, ok := c.Binding.Params(policy); ok {
			absent := func(value any, err error) (rule.Problem, bool) { return c.Binding.Absent(policy, value, err) }
			all = append(all, Need{Ref: ref, absent: absent, of: c})
		}
	}
	return all
}

// Problem returns what is wrong if value or err is what the fact resolves to; false if nothing is.
func (n *Need) Problem(value any, err error) (rule.Problem, bool) {
	problem, absent := n.absent(value, err)
	if !absent {
		return rule.Problem{}, false
	}
	return n.of.Place(problem), true
}
