package compile

import (
	"cmp"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/compile/object"
	"github.com/usher-dev/usher/internal/rule"
)

// Annotations of policies of Kyverno.
const (
	annotationCategory    = "policies.kyverno.io/category"
	annotationDescription = "policies.kyverno.io/description"
)

// descriptionsOf returns the descriptions of policies that have rules or are linked to rules.
func descriptionsOf(cs []Compiled) map[usher.PolicyRef]*rule.Description {
	all := make(map[usher.PolicyRef]*rule.Description, len(cs))
	for i := range cs {
		c, of := &cs[i], cs[i].Ref
		if c.Binding != nil {
			of = c.Binding.Policy()
		}
		if all[of] == nil {
			all[of] = &rule.Description{}
		}
		d := all[of]
		if c.Binding == nil {
			d.Category, d.Severity = c.Category(), c.Severity()
		}
		switch {
		case c.Binding != nil:
			d.Parts = append(d.Parts, c.Binding)
		case c.Admission != nil:
			d.Parts = append(d.Parts, c.Admission)
		case c.Object != nil:
			d.Parts = append(d.Parts, c.Object)
		case len(c.Rules) > 0:
			d.Parts = append(d.Parts, &c.Rules[0])
		}
	}
	return all
}

// Category returns the category of the policy for reports; empty if it does not say.
func (c *Compiled) Category() string {
	if spec := c.ObjectSpec(); spec != nil && spec.Category != "" {
		return spec.Category
	}
	if c.Policy.Object == nil {
		return ""
	}
	return c.Policy.Object.GetAnnotations()[annotationCategory]
}

// About returns the description of the policy, and URLs of pages about it; empty if it does not say.
func (c *Compiled) About() (description string, links []string) {
	if c.Policy.Object == nil {
		return "", nil
	}
	description = c.Policy.Object.GetAnnotations()[annotationDescription]
	if spec := c.ObjectSpec(); spec != nil {
		return cmp.Or(spec.Description, description), spec.Links
	}
	return description, nil
}

// Severity returns how serious it is that a rule of the policy fails that does not say so itself;
// empty if the policy does not say either.
func (c *Compiled) Severity() usher.Severity {
	if c.Policy.Object == nil {
		return ""
	}
	annotated := object.AnnotatedSeverity(c.Policy.Object.GetAnnotations())
	if spec := c.ObjectSpec(); spec != nil {
		return cmp.Or(usher.Severity(spec.Severity), annotated, usher.Severity(usherv1alpha1.SeverityMedium))
	}
	return annotated
}

// ObjectSpec returns the spec of an object policy, nil for other policies.
func (c *Compiled) ObjectSpec() *usherv1alpha1.ObjectPolicySpec {
	switch p := c.Policy.Object.(type) {
	case *usherv1alpha1.ClusterObjectPolicy:
		return &p.Spec.ObjectPolicySpec
	case *usherv1alpha1.ObjectPolicy:
		return &p.Spec
	}
	return nil
}

// SilentOnPods is [object.SilentOnPods] for a policy of any kind.
func (c *Compiled) SilentOnPods() bool {
	spec := c.ObjectSpec()
	return spec != nil && object.SilentOnPods(spec)
}

// OnPods returns the policies as audits and comparisons of policies see them: those that do not say whether they see the
// pods of workloads warn of them, so that who reads what follows from a workload learns that its pods would be denied.
func OnPods(all []Compiled) []Compiled {
	all = slices.Clone(all)
	for i := range all {
		c := &all[i]
		if c.Object == nil || len(c.Rules) == 0 || !c.SilentOnPods() {
			continue
		}
		if r, ok := c.Object.WarnOnPods(); ok {
			c.Rules = append(slices.Clip(c.Rules), r)
		}
	}
	return all
}

// mostKinds is how many kinds Kinds names.
const mostKinds = 5

// Action returns what follows from the policy: Deny, Warn, Audit and Mutate, as far as it does; empty
// for policies that are not about writes of objects.
func (c *Compiled) Action() string {
	switch c.Policy.Object.(type) {
	case *v1alpha1.ClusterValidatePolicy:
		return "Deny"
	case *v1alpha1.ClusterOverridePolicy, *v1alpha1.OverridePolicy:
		return "Mutate"
	}
	spec := c.ObjectSpec()
	if spec == nil {
		return ""
	}
	has := func(action admissionv1.ValidationAction) bool {
		if len(spec.Validations) == 0 {
			return false
		}
		if len(spec.Bindings) == 0 {
			return action == admissionv1.Deny
		}
		return slices.ContainsFunc(spec.Bindings, func(b usherv1alpha1.Binding) bool {
			return slices.Contains(b.ValidationActions, action) || len(b.ValidationActions) == 0 && action == admissionv1.Deny
		})
	}
	var all []string
	for _, action := range []admissionv1.ValidationAction{admissionv1.Deny, admissionv1.Warn, admissionv1.Audit} {
		if has(action) {
			all = append(all, string(action))
		}
	}
	if len(spec.Mutations) > 0 {
		all = append(all, "Mutate")
	}
	if len(all) == 0 {
		// It has only auditAnnotations.
		all = append(all, string(admissionv1.Audit))
	}
	return strings.Join(all, ",")
}

// Kinds returns the resources that an object policy selects, or the kinds that a policy of kinitiras
// does, such as pods,deployments.apps; "*" for all. If there are many, it returns the first ones.
func (c *Compiled) Kinds() string {
	var all []string
	switch p := c.Policy.Object.(type) {
	case *v1alpha1.ClusterValidatePolicy:
		all = selected(p.Spec.ResourceSelectors)
	case *v1alpha1.ClusterOverridePolicy:
		all = selected(p.Spec.ResourceSelectors)
	case *v1alpha1.OverridePolicy:
		all = selected(p.Spec.ResourceSelectors)
	default:
		spec := c.ObjectSpec()
		if spec == nil {
			return ""
		}
		for i := range spec.MatchConstraints.ResourceRules {
			r := &spec.MatchConstraints.ResourceRules[i]
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					all = append(all, inGroup(resource, group))
				}
			}
		}
	}
	var some []string
	for _, name := range all {
		switch {
		case slices.Contains(some, name):
		case len(some) == mostKinds:
			return strings.Join(some, ",") + ",…"
		default:
			some = append(some, name)
		}
	}
	return strings.Join(some, ",")
}

// selected returns the kinds of selectors.
func selected(selectors []v1alpha1.ResourceSelector) []string {
	if len(selectors) == 0 {
		return []string{"*"}
	}
	all := make([]string, len(selectors))
	for i := range selectors {
		group, _, grouped := strings.Cut(selectors[i].APIVersion, "/")
		if !grouped {
			group = ""
		}
		all[i] = inGroup(selectors[i].Kind, group)
	}
	return all
}

// inGroup returns a resource or a kind with its group, as kubectl names it.
func inGroup(name, group string) string {
	if group == "" || name == "*" && group == "*" {
		return name
	}
	return name + "." + group
}
