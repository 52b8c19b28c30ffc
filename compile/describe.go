package compile

import (
	"cmp"

	usher "github.com/usher-dev/usher"
	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
	compileusher "github.com/usher-dev/usher/compile/usher"
)

// annotationCategory is the annotation with the category of a policy of Kyverno.
const annotationCategory = "policies.kyverno.io/category"

// Category returns the category of the policy for reports; empty if it does not say.
func (c *Compiled) Category() string {
	if spec := c.objectSpec(); spec != nil && spec.Category != "" {
		return spec.Category
	}
	if c.Policy.Object == nil {
		return ""
	}
	return c.Policy.Object.GetAnnotations()[annotationCategory]
}

// Severity returns how serious it is that a rule of the policy fails that does not say so itself;
// empty if the policy does not say either.
func (c *Compiled) Severity() usher.Severity {
	if c.Policy.Object == nil {
		return ""
	}
	annotated := compileusher.AnnotatedSeverity(c.Policy.Object.GetAnnotations())
	if spec := c.objectSpec(); spec != nil {
		return cmp.Or(usher.Severity(spec.Severity), annotated, usher.Severity(usherv1alpha1.SeverityMedium))
	}
	return annotated
}

// objectSpec returns the spec of an object policy, nil for other policies.
func (c *Compiled) objectSpec() *usherv1alpha1.ObjectPolicySpec {
	switch p := c.Policy.Object.(type) {
	case *usherv1alpha1.ClusterObjectPolicy:
		return &p.Spec.ObjectPolicySpec
	case *usherv1alpha1.ObjectPolicy:
		return &p.Spec
	}
	return nil
}
