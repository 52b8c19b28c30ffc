package compile

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/usher-dev/usher/api"
	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
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
	if slices.ContainsFunc(Matches(c.Policy.Object), func(m *admissionv1.MatchResources) bool {
		return m.NamespaceSelector != nil && len(m.NamespaceSelector.MatchLabels)+len(m.NamespaceSelector.MatchExpressions) > 0
	}) {
		return "the labels of namespaces"
	}
	return c.traced()
}

// NamespaceSelectors returns the selectors of namespaces of a policy, a binding or an exemption. It reports whether
// it reads nothing else of the namespace of a request.
func NamespaceSelectors(c *Compiled) (selectors []labels.Selector, only bool) {
	matches := Matches(c.Policy.Object)
	switch x := c.Policy.Object.(type) {
	case *usherv1alpha1.ClusterPolicyExemption:
		matches = append(matches, x.Spec.MatchConstraints)
	case *usherv1alpha1.PolicyExemption:
		matches = append(matches, x.Spec.MatchConstraints)
	}
	for _, m := range matches {
		if m == nil || m.NamespaceSelector == nil {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(m.NamespaceSelector)
		if err != nil {
			return nil, false
		}
		selectors = append(selectors, selector)
	}
	typed := c.Typed()
	if typed == nil {
		return selectors, c.Binding != nil || c.Exemption != nil
	}
	const namespace = "Namespace"
	return selectors, typed.Params().Kind != namespace &&
		!slices.ContainsFunc(typed.Data(), func(d admission.Data) bool { return d.Kind.Kind == namespace }) &&
		!slices.ContainsFunc(typed.Expressions(), func(e admission.Expression) bool { return strings.Contains(e.Text, "namespaceObject") })
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

// Matches returns what a policy or a binding is for, and the bindings that an object policy has.
func Matches(policy api.Object) []*admissionv1.MatchResources {
	var all []*admissionv1.MatchResources
	switch spec := api.Spec(policy).(type) {
	case *admissionv1.ValidatingAdmissionPolicySpec:
		all = append(all, spec.MatchConstraints)
	case *admissionv1.MutatingAdmissionPolicySpec:
		all = append(all, spec.MatchConstraints)
	case *admissionv1.ValidatingAdmissionPolicyBindingSpec:
		all = append(all, spec.MatchResources)
	case *admissionv1.MutatingAdmissionPolicyBindingSpec:
		all = append(all, spec.MatchResources)
	case *usherv1alpha1.ClusterObjectPolicySpec:
		all = selectedBy(&spec.ObjectPolicySpec)
	case *usherv1alpha1.ObjectPolicySpec:
		all = selectedBy(spec)
	}
	return slices.DeleteFunc(all, func(m *admissionv1.MatchResources) bool { return m == nil })
}

func selectedBy(spec *usherv1alpha1.ObjectPolicySpec) []*admissionv1.MatchResources {
	all := []*admissionv1.MatchResources{&spec.MatchConstraints}
	for i := range spec.Bindings {
		all = append(all, spec.Bindings[i].MatchResources)
	}
	return all
}
