package object

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/rule"
)

// podsRule is the name of the rule for the pods of workloads.
const podsRule = "spec.podTemplates"

// podTemplates compiles spec.podTemplates. The default is Warn if only pods are selected.
func (c *compilation) podTemplates(s *v1alpha1.ObjectPolicySpec) v1alpha1.PodTemplates {
	resources := &c.policy.match.Resources
	switch s.PodTemplates {
	case "":
		if len(s.Validations) > 0 && onlyPods(resources) && createsPods(resources) {
			return v1alpha1.PodTemplatesWarn
		}
		if SilentOnPods(s) && createsPods(resources) {
			c.Problems = append(c.Problems, rule.Problem{
				Severity: rule.Warning, Field: "spec.podTemplates",
				What: "the policy is for pods and for workloads that make them: it allows a workload whose pods it denies, without a warning",
				Do:   "set podTemplates: Deny or Warn, or \"Off\" if the validations of workloads say the same",
			})
		}
		return v1alpha1.PodTemplatesOff
	case v1alpha1.PodTemplatesOff:
		return v1alpha1.PodTemplatesOff
	case v1alpha1.PodTemplatesDeny, v1alpha1.PodTemplatesWarn:
	default:
		c.Fail("spec.podTemplates", fmt.Sprintf("%q is not a value of podTemplates", s.PodTemplates), "use Deny, Warn or Off")
		return v1alpha1.PodTemplatesOff
	}
	if !createsPods(resources) && !c.misnamesPods(resources) {
		c.Fail(
			"spec.podTemplates", "the policy is not for pods that are created, so it does not judge the pods of workloads",
			"add pods with the operation CREATE to spec.matchConstraints.resourceRules, or remove podTemplates",
		)
	}
	if len(s.Validations) == 0 {
		c.Fail("spec.podTemplates", "the policy has no validations: mutations are not applied to pod templates", "add validations, or remove podTemplates")
		return v1alpha1.PodTemplatesOff
	}
	return s.PodTemplates
}

// SilentOnPods reports whether a policy is for pods and workloads that are created, by name, and does not say
// whether its validations see the pods of workloads. Policies for some subjects are left out: controllers create
// the pods, not who wrote the workload.
func SilentOnPods(s *v1alpha1.ObjectPolicySpec) bool {
	if s.PodTemplates != "" || len(s.Validations) == 0 || len(s.Subjects)+len(s.ExcludeSubjects) > 0 {
		return false
	}
	creates := func(group, resource string) bool {
		return slices.ContainsFunc(s.MatchConstraints.ResourceRules, func(r admissionv1.NamedRuleWithOperations) bool {
			created := slices.Contains(r.Operations, admissionv1.Create) || slices.Contains(r.Operations, admissionv1.OperationAll)
			return created && slices.Contains(r.Resources, resource) && (slices.Contains(r.APIGroups, group) || slices.Contains(r.APIGroups, "*"))
		})
	}
	return creates("", "pods") && slices.ContainsFunc(rule.OfWorkloads(nil).Rules, func(w rule.ResourceRule) bool {
		return slices.ContainsFunc(w.Resources, func(resource string) bool { return creates(w.Groups[0], resource) })
	})
}

// misnamesPods reports whether a rule of a match is meant for pods, and names them as API servers do not: each
// field that is wrong is a problem.
func (c *compilation) misnamesPods(m *rule.ResourceMatch) bool {
	found := false
	for i, r := range m.Rules {
		j := slices.IndexFunc(r.Resources, func(name string) bool { return slices.Contains([]string{"pods", "pod", "po"}, strings.ToLower(name)) })
		if j < 0 {
			continue
		}
		for _, wrong := range []struct {
			is              bool
			field, what, do string
		}{
			{!slices.Contains(r.Groups, "") && !slices.Contains(r.Groups, "*"), "apiGroups", "pods are not in the API group " + strings.Join(r.Groups, " or "), `did you mean apiGroups: [""]?`},
			{!slices.Contains(r.Versions, "v1") && !slices.Contains(r.Versions, "*"), "apiVersions", "pods are not in the version " + strings.Join(r.Versions, " or "), "did you mean apiVersions: [v1]?"},
			{!slices.Contains(r.Resources, "pods"), fmt.Sprintf("resources[%d]", j), "there is no resource " + r.Resources[j], "did you mean pods?"},
		} {
			if wrong.is {
				found = true
				c.Fail(fmt.Sprintf("spec.matchConstraints.resourceRules[%d].%s", i, wrong.field), wrong.what+": the policy is not for pods that are created", wrong.do)
			}
		}
	}
	return found
}

// createsPods reports whether a match is for a pod that is created, whose name is not known yet.
func createsPods(m *rule.ResourceMatch) bool {
	creation := rule.PodCreation(usher.Validate)
	creation.Namespace = "any"
	return m.Matches(&creation)
}

// onlyPods reports whether a match is for pods alone, written as a whole.
func onlyPods(m *rule.ResourceMatch) bool {
	return !slices.ContainsFunc(m.Rules, func(r rule.ResourceRule) bool {
		return !slices.Equal(r.Groups, []string{""}) || slices.ContainsFunc(r.Resources, func(resource string) bool {
			switch resource {
			case "pods", "pods/ephemeralcontainers", "pods/resize":
				return false
			}
			return true
		})
	})
}

// podRule is the rule for the pods of workloads. With Warn it denies nothing, not even if it fails.
func (o *Policy) podRule() rule.Rule {
	r := o.rule(podsRule, usher.Validate, podValidator{newValidator(o)})
	r.NotForCleanup = true
	r.Pod = &rule.Pod{Match: r.Match, Warns: o.pods == v1alpha1.PodTemplatesWarn}
	excluded := o.match.Resources.Excluded
	if o.ref.Namespace != "" {
		// Who may write workloads in a namespace may not write PodTemplates, by the roles of Kubernetes: a
		// policy on these would need rights that its author lacks.
		excluded = append(slices.Clip(excluded), rule.ResourceRule{Groups: []string{""}, Versions: []string{"*"}, Resources: []string{"podtemplates"}})
	}
	r.Match.Resources = []rule.ResourceMatch{rule.OfWorkloads(excluded)}
	if r.Pod.Warns {
		r.FailurePolicy = usher.Ignore
	}
	return r
}

// WarnOnPods returns the rule for the pods of workloads as if spec.podTemplates were Warn; false if there is none.
func (o *Policy) WarnOnPods() (rule.Rule, bool) {
	if o.validate == nil || o.pods != v1alpha1.PodTemplatesOff || !createsPods(&o.match.Resources) {
		return rule.Rule{}, false
	}
	with := *o
	with.pods = v1alpha1.PodTemplatesWarn
	return with.podRule(), true
}

// A podValidator is the validations of a policy, for the pods of workloads.
type podValidator struct{ *validator }

// String says what the rule does.
func (v podValidator) String() string {
	if v.pods == v1alpha1.PodTemplatesWarn {
		return "Warn in place of Deny; " + v.validator.String()
	}
	return v.validator.String()
}

// onPods returns the actions for a validation that the pod of a workload fails.
func (o *Policy) onPods(a actions) actions {
	if a&deny != 0 && o.pods == v1alpha1.PodTemplatesWarn {
		return a&^deny | warn
	}
	return a
}

// ofPod returns the message of a check of the pod of a workload, which names the workload and its
// field.
func (s *saying) ofPod(check *usher.Check) string {
	message := fmt.Sprintf("%s: %s: %s", s.workload, check.Field, check.Message)
	if s.workload.Unchanged != "" {
		message += "; the pod is judged " + s.workload.Unchanged
	}
	return message
}
