package compile

import (
	"fmt"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/compile/admissionregistration"
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

// Unbound returns a warning for every admission policy without binding, and for every binding
// without policy.
func Unbound(cs []Compiled) []rule.Problem {
	bound, known := map[usher.PolicyRef]bool{}, map[usher.PolicyRef]bool{}
	for i := range cs {
		if cs[i].Binding != nil {
			bound[cs[i].Binding.Policy()] = true
		}
		if cs[i].Admission != nil {
			known[cs[i].Admission.Ref()] = true
		}
	}
	var problems []rule.Problem
	for i := range cs {
		c := &cs[i]
		p := rule.Problem{Policy: c.Ref, Severity: rule.Warning}
		switch {
		case c.Admission != nil && !bound[c.Admission.Ref()]:
			p.Field, p.What = "metadata.name", "no binding puts the policy into force: it does nothing"
			p.Do = fmt.Sprintf("add a %sBinding with policyName: %s", c.Ref.Kind, c.Ref.Name)
		case c.Binding != nil && c.Binding.Policy().Name != "" && !known[c.Binding.Policy()]:
			p.Field, p.What = "spec.policyName", fmt.Sprintf("there is no %s: the binding does nothing", c.Binding.Policy())
			p.Do = "add the policy, or correct the name"
		default:
			continue
		}
		position := c.Policy.Position(p.Field)
		p.File, p.Line = position.File, position.Line
		problems = append(problems, p)
	}
	return problems
}
