package compile

import (
	"fmt"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/compile/admissionregistration"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/rule"
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

// Unbound returns a warning for every admission policy without binding, for every binding without
// policy, and for every one with params that its policy has not.
func Unbound(cs []Compiled) []rule.Problem {
	bound, known := map[usher.PolicyRef]bool{}, map[usher.PolicyRef]*admissionregistration.Policy{}
	for i := range cs {
		if cs[i].Binding != nil {
			bound[cs[i].Binding.Policy()] = true
		}
		if cs[i].Admission != nil {
			known[cs[i].Admission.Ref()] = cs[i].Admission
		}
	}
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

// Params are the params of a binding of an admission policy, which should exist.
type Params struct {
	// Ref names them.
	Ref     fact.Ref
	policy  *admissionregistration.Policy
	binding *Compiled
}

// ParamsOf returns the params of all bindings, except those that depend on the request.
func ParamsOf(cs []Compiled) []Params {
	policies := map[usher.PolicyRef]*admissionregistration.Policy{}
	for i := range cs {
		if cs[i].Admission != nil {
			policies[cs[i].Admission.Ref()] = cs[i].Admission
		}
	}
	var all []Params
	for i := range cs {
		if cs[i].Binding == nil || policies[cs[i].Binding.Policy()] == nil {
			continue
		}
		policy := policies[cs[i].Binding.Policy()]
		if ref, ok := cs[i].Binding.Params(policy); ok {
			all = append(all, Params{Ref: ref, policy: policy, binding: &cs[i]})
		}
	}
	return all
}

// Problem returns what is wrong with the params if value or err is what they resolve to; false if
// nothing is.
func (p *Params) Problem(value any, err error) (rule.Problem, bool) {
	problem, absent := p.binding.Binding.Absent(p.policy, value, err)
	if !absent {
		return rule.Problem{}, false
	}
	return p.binding.Place(problem), true
}
