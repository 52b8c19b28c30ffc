// Package convert turns Kubernetes' admission policies, with their bindings and params, into
// ClusterObjectPolicies, and back. What the other kind cannot express is an error or a loss that is
// reported by field; [Compare] decides generated requests by both forms. Policies of other engines are
// an [Import] each: a package below this one reads those of an engine.
package convert

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/rule"
)

// Kinds of admissionregistration.k8s.io.
const (
	validatingKind = "ValidatingAdmissionPolicy"
	mutatingKind   = "MutatingAdmissionPolicy"
	objectKind     = "ClusterObjectPolicy"
)

// A Conversion is a policy in its old and in its new form.
type Conversion struct {
	// From are the policy and its bindings as they were, To as they are.
	From, To []api.Object
	// Params are objects to which bindings of To refer, and which were in place in From.
	Params []map[string]any
	// Lost is what To cannot express, an error a feature.
	Lost []rule.Problem
	// Changed is what users notice although both decide alike, a warning each.
	Changed []rule.Problem
}

// notes gathers the problems of one policy.
type notes struct {
	policy usher.PolicyRef
	all    []rule.Problem
}

func (n *notes) add(severity rule.Severity, field, what, do string) {
	n.all = append(n.all, rule.Problem{Policy: n.policy, Severity: severity, Field: field, What: what, Do: do})
}

// refOf returns the reference of a policy or a binding.
func refOf(o api.Object) usher.PolicyRef {
	kind, _ := api.KindOf(o)
	return usher.PolicyRef{Kind: kind.Kind, Namespace: o.GetNamespace(), Name: o.GetName()}
}

// annotated pairs the annotations of Kyverno's policies with the fields that have the same meaning.
func annotated(spec *v1alpha1.ClusterObjectPolicySpec) map[string]*string {
	return map[string]*string{
		"policies.kyverno.io/description": &spec.Description,
		"policies.kyverno.io/category":    &spec.Category,
		"policies.kyverno.io/severity":    (*string)(&spec.Severity),
	}
}

// severities are the values of [v1alpha1.Severity].
func severities() []v1alpha1.Severity {
	return []v1alpha1.Severity{v1alpha1.SeverityCritical, v1alpha1.SeverityHigh, v1alpha1.SeverityMedium, v1alpha1.SeverityLow, v1alpha1.SeverityInfo}
}

// lastApplied is the annotation in which kubectl keeps the manifest that was applied last.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// checkUnknown returns an error for fields that a kind does not have: they would disappear.
func checkUnknown(p *api.Policy) error {
	if len(p.Unknown) == 0 && len(p.Duplicate) == 0 {
		return nil
	}
	field := slices.Concat(p.Unknown, p.Duplicate)[0]
	return fmt.Errorf("convert %s: there is no field %s, or it is written twice: correct the policy first", refOf(p.Object), field)
}

// kindIn returns the kind of an object.
func kindIn(object map[string]any) schema.GroupVersionKind {
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	return schema.FromAPIVersionAndKind(apiVersion, kind)
}

// nameIn returns the namespace and the name of an object.
func nameIn(object map[string]any) (namespace, name string) {
	metadata, _ := object["metadata"].(map[string]any)
	namespace, _ = metadata["namespace"].(string)
	name, _ = metadata["name"].(string)
	return namespace, name
}
