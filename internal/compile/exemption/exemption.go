// Package exemption compiles the exemptions of usher.dev/v1alpha1. Whether one is for a request, the engine
// judges.
package exemption

import (
	"context"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/compile/authorization"
	"github.com/usher-dev/usher/internal/compile/spec"
	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/rule"
)

// Cluster compiles an exemption for the whole cluster; nil if it has errors. Problems
// have no Policy and no File.
func Cluster(ctx context.Context, x *v1alpha1.ClusterPolicyExemption) (*rule.Exemption, []rule.Problem) {
	c := newCompilation(ctx, usher.PolicyRef{Kind: "ClusterPolicyExemption", Name: x.Name})
	return c.compile(&x.ObjectMeta, &x.Spec)
}

// Namespaced compiles an exemption for its own namespace; nil if it has errors, or no
// namespace. Problems have no Policy and no File.
func Namespaced(ctx context.Context, x *v1alpha1.PolicyExemption) (*rule.Exemption, []rule.Problem) {
	c := newCompilation(ctx, usher.PolicyRef{Kind: "PolicyExemption", Namespace: x.Namespace, Name: x.Name})
	// What its author may not read, its conditions do not read either.
	c.facts = &fact.Bounds{Namespace: x.Namespace}
	compiled, problems := c.compile(&x.ObjectMeta, &x.Spec)
	if x.Namespace == "" {
		return nil, problems
	}
	return compiled, problems
}

// A compilation collects what one exemption compiles to.
type compilation struct {
	spec.Compilation

	to *rule.Exemption
	// facts are the bounds of an exemption of a namespace, nil otherwise.
	facts *fact.Bounds
}

func newCompilation(ctx context.Context, ref usher.PolicyRef) *compilation {
	return &compilation{Compilation: spec.Compilation{Budget: cel.Budget{Context: ctx, Namespace: ref.Namespace}}, to: &rule.Exemption{Ref: ref}}
}

func (c *compilation) compile(of *metav1.ObjectMeta, s *v1alpha1.PolicyExemptionSpec) (*rule.Exemption, []rule.Problem) {
	if len(s.PolicyRefs) == 0 {
		c.Fail("spec.policyRefs", "missing: the exemption is from no policy", "name a policy")
	}
	for i := range s.PolicyRefs {
		c.policy(fmt.Sprintf("spec.policyRefs[%d]", i), &s.PolicyRefs[i], len(s.Images) > 0)
	}
	for i, image := range s.Images {
		c.image(fmt.Sprintf("spec.images[%d]", i), image)
	}
	c.action(s.Action)
	c.text("spec.reason", s.Reason, "say why the exemption is needed")
	c.text("spec.owner", s.Owner, "name the person or the team to ask about the exemption")
	c.to.Reason, c.to.Owner, c.to.Expires = s.Reason, s.Owner, s.ExpiresAt.Time
	if s.ExpiresAt.IsZero() {
		c.Fail("spec.expiresAt", "missing: exemptions end", "write a time such as 2030-01-31T12:00:00Z")
	}
	c.applies(s)
	switch {
	case len(rule.Errors(c.Problems)) > 0:
		return nil, c.Problems
	case of.DeletionTimestamp != nil:
		c.note(rule.Warning, "metadata.deletionTimestamp", "the exemption is being deleted: it does nothing", "remove its finalizers")
		return nil, c.Problems
	}
	return c.to, c.Problems
}

func (c *compilation) note(severity rule.Severity, field, what, do string) {
	c.Problems = append(c.Problems, rule.Problem{Severity: severity, Field: field, What: what, Do: do})
}

func (c *compilation) text(field, written, do string) {
	if strings.TrimSpace(written) == "" {
		c.Fail(field, "missing", do)
	}
}

func (c *compilation) action(a v1alpha1.ExemptionAction) {
	switch a {
	case "":
		c.to.Action = rule.ExemptSkip
	case v1alpha1.ExemptionActionSkip, v1alpha1.ExemptionActionWarn, v1alpha1.ExemptionActionAudit:
		c.to.Action = rule.ExemptionAction(a)
	default:
		c.Fail("spec.action", fmt.Sprintf("%q is not an action", a), "use Skip, Warn or Audit")
	}
}

func (c *compilation) policy(field string, ref *v1alpha1.PolicyRef, images bool) {
	kind, _ := api.KindCalled(ref.Kind)
	switch {
	case ref.Kind == "":
		c.Fail(field+".kind", "missing", "name the kind of the policy")
	case !kind.Exemptible:
		c.Fail(field+".kind", fmt.Sprintf("nothing is exempt from a %s", ref.Kind), "use "+strings.Join(api.ExemptibleKinds(), ", "))
	case c.facts != nil && !kind.ObjectPolicy:
		c.Fail(field+".kind", "a namespace exempts nothing from a "+ref.Kind, "name a ClusterObjectPolicy or an ObjectPolicy, or ask who administers the cluster for a ClusterPolicyExemption")
	case kind.Validations == "" && len(ref.Validations) > 0:
		c.note(rule.Mistake, field+".validations", fmt.Sprintf("policies of the kind %s have no validations", ref.Kind), "remove the field: the exemption then is from the whole policy")
	case kind.Validations == "" && images:
		c.note(rule.Mistake, "spec.images", fmt.Sprintf("policies of the kind %s cannot be applied to some containers only: requests are not exempt from them", ref.Kind),
			"remove spec.images, or write another exemption for "+field)
	}
	name := c.pattern(field+".name", ref.Name)
	for i, v := range ref.Validations {
		if v == "" {
			c.Fail(fmt.Sprintf("%s.validations[%d]", field, i), "it is empty", "name a validation, or its place such as spec.validations[0]")
		}
	}
	c.to.Policies = append(c.to.Policies, rule.ExemptPolicy{Kind: ref.Kind, Name: name, Validations: ref.Validations})
}

func (c *compilation) pattern(field, text string) rule.Pattern {
	switch {
	case text == "":
		c.Fail(field, "missing", "write a name, or * for all")
	case strings.Count(text, "*") > 1:
		c.Fail(field, fmt.Sprintf("%q has more than one *", text), "write several patterns")
	}
	return rule.Pattern(text)
}

// image warns of a pattern that is for images of other registries than it seems to be.
func (c *compilation) image(field, text string) {
	c.to.Images = append(c.to.Images, c.pattern(field, text))
	registry, rest, star := strings.Cut(text, "*")
	switch {
	case !star || strings.Contains(rest, "*") || strings.Contains(registry, "/"):
	case text == "*":
		c.note(rule.Warning, field, "the pattern matches every image: no container is validated", "name images, or remove spec.images")
	default:
		c.note(rule.Warning, field, fmt.Sprintf("%q matches images of any registry whose name begins so", text), "write the registry and a slash before the *")
	}
}

func (c *compilation) applies(s *v1alpha1.PolicyExemptionSpec) {
	a := &applies{}
	var problems []rule.Problem
	a.subjects, problems = authorization.Subjects("spec.subjects", s.Subjects)
	c.Problems = append(c.Problems, problems...)
	if s.MatchConstraints != nil {
		a.match = c.Match("spec.matchConstraints", s.MatchConstraints)
		// Who writes "namespace shop" does not mean ClusterRoleBindings, too.
		a.match.InNamespaces()
		c.to.Resources = &a.match.Resources
		c.scope(s.MatchConstraints)
	}
	a.read()
	c.apply(a)
	conditions, problems := conditionsOf(&c.Budget, c.Conditions(s.MatchConditions))
	c.Problems = append(c.Problems, problems...)
	if conditions != nil {
		c.apply(conditions)
	}
}

func (c *compilation) apply(p rule.Program) {
	c.to.Applies = append(c.to.Applies, rule.Rule{
		Policy: c.to.Ref, Name: "spec", FailurePolicy: usher.Fail, Facts: c.facts, Steps: []rule.Step{{Program: p}},
	})
}

// scope refuses an exemption of a namespace that is for no objects in namespaces.
func (c *compilation) scope(m *admissionv1.MatchResources) {
	cluster := func(r admissionv1.NamedRuleWithOperations) bool {
		return r.Scope != nil && *r.Scope == admissionv1.ClusterScope
	}
	if c.facts != nil && slices.ContainsFunc(m.ResourceRules, cluster) {
		c.note(rule.Mistake, "spec.matchConstraints.resourceRules", "a PolicyExemption is for objects of its own namespace: no request in scope Cluster is exempt",
			"ask who administers the cluster for a ClusterPolicyExemption")
	}
}
