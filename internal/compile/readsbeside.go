package compile

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/usher-dev/usher/internal/rule"
)

// ReadsBeside returns something that a policy reads beside requests, as its author calls it; empty if it reads nothing
// else. A program that does not have it cannot decide by the policy.
func (c *Compiled) ReadsBeside() string {
	if typed := c.Typed(); typed != nil {
		switch {
		case !typed.Params().Empty():
			return "params"
		case len(typed.Data()) > 0:
			return "data." + typed.Data()[0].Name
		}
		for _, e := range typed.Expressions() {
			for _, variable := range []string{"namespaceObject", "authorizer"} {
				if strings.Contains(e.Text, variable) {
					return variable
				}
			}
		}
	}
	if s := c.ObjectSpec(); s != nil && len(s.Data) > 0 {
		return "data." + s.Data[0].Name
	}
	if slices.ContainsFunc(c.matches(), func(m *admissionv1.MatchResources) bool {
		return m != nil && m.NamespaceSelector != nil && len(m.NamespaceSelector.MatchLabels)+len(m.NamespaceSelector.MatchExpressions) > 0
	}) {
		return "the labels of namespaces"
	}
	return c.traced()
}

// traced returns which other objects the rules read.
func (c *Compiled) traced() string {
	for i := range c.Rules {
		for _, step := range c.Rules[i].Steps {
			if traced, ok := step.Program.(rule.Traced); ok {
				for _, use := range traced.Uses() {
					switch use.Of {
					case rule.OwnerObject:
						return "owners of objects"
					case rule.OtherObject:
						return "other objects"
					case rule.CurrentObject, rule.OldObject:
					}
				}
			}
		}
	}
	return ""
}

// matches returns what a policy and its bindings are for; some may be nil.
func (c *Compiled) matches() []*admissionv1.MatchResources {
	switch p := c.Policy.Object.(type) {
	case *admissionv1.ValidatingAdmissionPolicy:
		return []*admissionv1.MatchResources{p.Spec.MatchConstraints}
	case *admissionv1.MutatingAdmissionPolicy:
		return []*admissionv1.MatchResources{p.Spec.MatchConstraints}
	case *admissionv1.ValidatingAdmissionPolicyBinding:
		return []*admissionv1.MatchResources{p.Spec.MatchResources}
	case *admissionv1.MutatingAdmissionPolicyBinding:
		return []*admissionv1.MatchResources{p.Spec.MatchResources}
	}
	s := c.ObjectSpec()
	if s == nil {
		return nil
	}
	all := []*admissionv1.MatchResources{&s.MatchConstraints}
	for i := range s.Bindings {
		all = append(all, s.Bindings[i].MatchResources)
	}
	return all
}
