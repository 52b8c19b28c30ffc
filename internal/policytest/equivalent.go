package policytest

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/rule"
)

// maxNamespaces is how many namespaces, by their labels, two policies are compared in.
const maxNamespaces = 10_000

// equivalent reports whether a mutant of an object policy cannot be told from the policy: only bindings differ, and in
// every namespace the same actions have an effect. Since a user who is denied is not warned of the same, a binding that
// warns can be for more or fewer of the namespaces in which another one denies. It is false if the labels of namespaces
// alone do not say so.
func equivalent(policy, mutant map[string]any) bool {
	if mutant == nil || !kindOf(policy).ObjectPolicy || !reflect.DeepEqual(unbound(policy), unbound(mutant)) {
		return false
	}
	before, known := boundOf(policy)
	after, alsoKnown := boundOf(mutant)
	if !known || !alsoKnown || effectIn(before, nil) != effectIn(after, nil) {
		return false
	}
	var selectors []labels.Selector
	for _, p := range slices.Concat(before, after) {
		selectors = append(selectors, p.namespaces)
	}
	namespaces, few := rule.DistinctLabels(selectors, maxNamespaces)
	return few && !slices.ContainsFunc(namespaces, func(of labels.Set) bool { return effectIn(before, of) != effectIn(after, of) })
}

// unbound is the policy without its bindings.
func unbound(policy map[string]any) map[string]any {
	spec, _ := policy["spec"].(map[string]any)
	spec, policy = maps.Clone(spec), maps.Clone(policy)
	delete(spec, "bindings")
	policy["spec"] = spec
	return policy
}

// A bound is where a binding is in force, and what follows from it there.
type bound struct {
	actions    []admissionv1.ValidationAction
	namespaces labels.Selector
}

// boundOf returns those of all bindings; false if there is none, or more than the labels of namespaces counts.
func boundOf(policy map[string]any) ([]bound, bool) {
	var written struct {
		Spec struct {
			Bindings []v1alpha1.Binding `json:"bindings"`
		} `json:"spec"`
	}
	encoded, err := json.Marshal(policy)
	if err != nil || json.Unmarshal(encoded, &written) != nil {
		return nil, false
	}
	all := make([]bound, 0, len(written.Spec.Bindings))
	for i := range written.Spec.Bindings {
		b := &written.Spec.Bindings[i]
		match := admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{}}
		if b.MatchResources != nil && b.MatchResources.NamespaceSelector != nil {
			match.NamespaceSelector = b.MatchResources.NamespaceSelector
		}
		selector, err := metav1.LabelSelectorAsSelector(match.NamespaceSelector)
		if err != nil || b.Params != nil || b.ParamRef != nil || b.MatchResources != nil && !reflect.DeepEqual(*b.MatchResources, match) {
			return nil, false
		}
		all = append(all, bound{b.ValidationActions, selector})
	}
	return all, len(all) > 0
}

// An effect is what follows from a validation that fails.
type effect struct{ involved, deny, warn, audit bool }

// effectIn returns the effect of bindings in a namespace with certain labels; with nil on an object in no namespace, for
// which all of them are.
func effectIn(all []bound, namespace labels.Set) effect {
	var e effect
	for _, p := range all {
		if namespace != nil && !p.namespaces.Matches(namespace) {
			continue
		}
		does := func(action admissionv1.ValidationAction) bool { return slices.Contains(p.actions, action) }
		e.involved = true
		e.deny = e.deny || does(admissionv1.Deny) || len(p.actions) == 0
		e.warn = e.warn || does(admissionv1.Warn)
		e.audit = e.audit || does(admissionv1.Audit)
	}
	e.warn = e.warn && !e.deny
	return e
}
