// Package condition compiles validate templates: comparisons of two values, and the minimum number
// of running pods of a workload.
//
// A template has two forms with one meaning: closures ([Compile]) and a CUE program ([Render]),
// which is stored in the policy for readers.
package condition

import (
	"fmt"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/lang/reference"
	"github.com/usher-dev/usher/internal/rule"
)

// A check is a template that was understood.
type check interface {
	rule.Dependent
	// open reports whether only a CUE evaluator can run it.
	open() bool
	render() string
	params(in *rule.Input) (map[string]any, error)
}

// Compile returns the program of a template. It returns neither program nor problems if
// the template holds CUE that only an evaluator understands: the program that [Render]
// returns then has to be evaluated, with [Params], and put through [Evaluated].
func Compile(t *v1alpha1.ValidateRuleTemplate) (rule.Program, []rule.Problem) {
	c, problems := compile(t)
	switch {
	case c == nil:
		return nil, problems
	case c.open():
		return nil, nil
	}
	return c, problems
}

// Render returns the template as a CUE program: given data with object, oldObject and
// extraParams, it defines validate. As kinitiras has it, validate.valid is false where the
// condition hits, in both affect modes; see [Evaluated].
func Render(t *v1alpha1.ValidateRuleTemplate) (string, []rule.Problem) {
	c, problems := compile(t)
	if c == nil {
		return "", problems
	}
	return c.render(), problems
}

// Params returns the function for the extraParams of the program that [Render] returns. Its error
// may be *fact.Missing.
func Params(t *v1alpha1.ValidateRuleTemplate) func(*rule.Input) (map[string]any, error) {
	c, problems := compile(t)
	if c == nil {
		return func(*rule.Input) (map[string]any, error) {
			return nil, fmt.Errorf("render template: %s", rule.Errors(problems)[0].Text())
		}
	}
	return c.params
}

// ParamsDependOn returns on what the parameters of the program that [Render] returns depend.
func ParamsDependOn(t *v1alpha1.ValidateRuleTemplate) rule.Dependencies {
	c, _ := compile(t)
	if c == nil {
		return 0
	}
	return c.DependsOn("")
}

// Default returns the template with its defaults filled in, and whether there were any to
// fill in: affectMode reject, and the replicas of the owner for a badge. The template that
// is given is not changed.
func Default(t *v1alpha1.ValidateRuleTemplate) (*v1alpha1.ValidateRuleTemplate, bool) {
	mode := t.Condition != nil && t.Condition.AffectMode == ""
	replicas := t.PodAvailableBadge != nil && t.PodAvailableBadge.ReplicaReference == nil
	if !mode && !replicas {
		return t, false
	}
	t = t.DeepCopy()
	if mode {
		t.Condition.AffectMode = v1alpha1.AffectReject
	}
	if replicas {
		t.PodAvailableBadge.ReplicaReference = ownerReplicas()
	}
	return t, true
}

func ownerReplicas() *v1alpha1.ReplicaResourceRefer {
	return &v1alpha1.ReplicaResourceRefer{
		From:               v1alpha1.FromOwner,
		TargetReplicaPath:  "/spec/replicas",
		CurrentReplicaPath: "/status/replicas",
	}
}

// compile returns nil if problems has errors.
func compile(t *v1alpha1.ValidateRuleTemplate) (check, []rule.Problem) {
	switch t.Type {
	case v1alpha1.TemplateCondition:
		if t.Condition == nil {
			return idle("condition"), []rule.Problem{warn("template.condition", "the template has no condition: it allows everything",
				"write the condition, or remove the template")}
		}
		return compileComparison(t.Condition)
	case v1alpha1.TemplatePodAvailableBadge:
		if t.PodAvailableBadge == nil {
			return idle("pab"), []rule.Problem{warn("template.podAvailableBadge", "the template has no podAvailableBadge: it allows everything",
				"write the badge, or remove the template")}
		}
		return compileBadge(t.PodAvailableBadge)
	}
	return nil, []rule.Problem{wrong("template.type", fmt.Sprintf("unknown template type(%s)", t.Type), "use condition or pab")}
}

// params returns the extraParams of references, without nil ones.
func params(in *rule.Input, references ...*reference.Reference) (map[string]any, error) {
	params := map[string]any{}
	for _, r := range references {
		if r == nil {
			continue
		}
		name, value, err := r.Param(in)
		if err != nil {
			return nil, err
		}
		if name != "" {
			params[name] = value
		}
	}
	return params, nil
}

// collector gathers the problems of one template.
type collector struct {
	problems []rule.Problem
}

func (c *collector) wrong(field, what, do string) {
	c.problems = append(c.problems, wrong(field, what, do))
}

func (c *collector) warn(field, what, do string) {
	c.problems = append(c.problems, warn(field, what, do))
}

// mistake reports a condition that has no effect for any request.
func (c *collector) mistake(field, what, do string) {
	c.problems = append(c.problems, rule.Problem{Severity: rule.Mistake, Field: field, What: what, Do: do})
}

// reference compiles a reference that stands in field.
func (c *collector) reference(field string, ref *v1alpha1.ResourceRefer, suffix string) *reference.Reference {
	r, problems := reference.Compile(ref, suffix)
	for _, p := range problems {
		if p.Field == "" {
			p.Field = field
		} else {
			p.Field = field + "." + p.Field
		}
		c.problems = append(c.problems, p)
	}
	return r
}

func (c *collector) failed() bool { return len(rule.Errors(c.problems)) > 0 }

func wrong(field, what, do string) rule.Problem {
	return rule.Problem{Severity: rule.Error, Field: field, What: what, Do: do}
}

func warn(field, what, do string) rule.Problem {
	return rule.Problem{Severity: rule.Warning, Field: field, What: what, Do: do}
}
