package kyverno

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
)

// nameLabel is the label of namespaces that has their name.
const nameLabel = "kubernetes.io/metadata.name"

// bindings returns the actions of a rule: those of the first override that is for a namespace, else that of the
// rule or the policy.
func (c *conversion) bindings(r *syntax.Rule) []v1alpha1.Binding {
	action, field := c.p.Spec.ValidationFailureAction, "spec.validationFailureAction"
	overrides, at := c.p.Spec.ValidationFailureActionOverrides, "spec.validationFailureActionOverrides"
	if v := r.Validate; v != nil {
		if v.FailureAction != "" {
			action, field, overrides = v.FailureAction, v.Field+".failureAction", nil
		}
		if len(v.FailureActionOverrides) > 0 {
			overrides, at = slices.Concat(v.FailureActionOverrides, overrides), v.Field+".failureActionOverrides"
		}
	}
	var all []v1alpha1.Binding
	var before []metav1.LabelSelectorRequirement
	for n := range overrides {
		o := &overrides[n]
		place := fmt.Sprintf("%s[%d]", at, n)
		selector := o.NamespaceSelector.DeepCopy()
		if selector == nil {
			selector = &metav1.LabelSelector{}
		}
		switch {
		case slices.ContainsFunc(o.Namespaces, func(name string) bool { return strings.ContainsAny(name, "*?") }):
			c.leave("", refuse(place+".namespaces", "it has wildcards", "write a binding with a namespaceSelector"))
		case o.NamespaceSelector != nil && (len(o.Namespaces) > 0 || len(o.NamespaceSelector.MatchLabels)+len(o.NamespaceSelector.MatchExpressions) > 1):
			c.leave("", refuse(place+".namespaceSelector", "it has several requirements", "write bindings with a namespaceSelector"))
		}
		if len(o.Namespaces) > 0 {
			selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{Key: nameLabel, Operator: metav1.LabelSelectorOpIn, Values: o.Namespaces})
		}
		selector.MatchExpressions = append(selector.MatchExpressions, before...)
		all = append(all, v1alpha1.Binding{Name: fmt.Sprintf("override-%d", n+1), MatchResources: selecting(selector), ValidationActions: c.actions(o.Action, place+".action")})
		before = append(before, beyond(o)...)
	}
	base := v1alpha1.Binding{ValidationActions: c.actions(action, field)}
	if len(all) > 0 {
		base.Name, base.MatchResources = "others", selecting(&metav1.LabelSelector{MatchExpressions: before})
	}
	return append(all, base)
}

func selecting(s *metav1.LabelSelector) *admissionv1.MatchResources {
	if reflect.DeepEqual(*s, metav1.LabelSelector{}) {
		return nil
	}
	return &admissionv1.MatchResources{NamespaceSelector: s}
}

// beyond returns what namespaces meet that an override is not for.
func beyond(o *syntax.Override) []metav1.LabelSelectorRequirement {
	if o.NamespaceSelector != nil {
		return opposite(o.NamespaceSelector)
	}
	return []metav1.LabelSelectorRequirement{{Key: nameLabel, Operator: metav1.LabelSelectorOpNotIn, Values: o.Namespaces}}
}

// opposite returns the opposite of a selector with one requirement.
func opposite(s *metav1.LabelSelector) []metav1.LabelSelectorRequirement {
	var all []metav1.LabelSelectorRequirement
	for key, value := range s.MatchLabels {
		all = append(all, metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpNotIn, Values: []string{value}})
	}
	operators := map[metav1.LabelSelectorOperator]metav1.LabelSelectorOperator{
		metav1.LabelSelectorOpIn: metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpNotIn: metav1.LabelSelectorOpIn,
		metav1.LabelSelectorOpExists: metav1.LabelSelectorOpDoesNotExist, metav1.LabelSelectorOpDoesNotExist: metav1.LabelSelectorOpExists,
	}
	for _, e := range s.MatchExpressions {
		e.Operator = operators[e.Operator]
		all = append(all, e)
	}
	return all
}

// enforces reports whether a rule has the action Enforce, overrides aside.
func (c *conversion) enforces(r *syntax.Rule) bool {
	action := c.p.Spec.ValidationFailureAction
	if r.Validate != nil && r.Validate.FailureAction != "" {
		action = r.Validate.FailureAction
	}
	return strings.EqualFold(action, "enforce")
}

// actions returns what follows from a validation that fails.
func (c *conversion) actions(action, field string) []admissionv1.ValidationAction {
	switch {
	case strings.EqualFold(action, "enforce") && c.Enforce:
		return []admissionv1.ValidationAction{admissionv1.Deny}
	case strings.EqualFold(action, "enforce"):
		c.note(field, "the policy warns where it denied", "write validationActions: [Deny] in the binding when its warnings are as expected, or import with --enforce")
		return []admissionv1.ValidationAction{admissionv1.Warn}
	case c.p.Spec.EmitWarning != nil && *c.p.Spec.EmitWarning:
		return []admissionv1.ValidationAction{admissionv1.Warn, admissionv1.Audit}
	}
	return []admissionv1.ValidationAction{admissionv1.Audit}
}
