package kyverno

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
)

// rule converts a rule.
func (c *conversion) rule(r *syntax.Rule) []*piece {
	var unsupported string
	do := "write it as a ClusterObjectPolicy"
	switch {
	case r.Generate != nil:
		unsupported, do = "it generates objects", "keep it, or create the objects where the others are created: policies change only the object of a request"
	case len(r.VerifyImages) > 0:
		unsupported, do = "it verifies images", "keep it: policies do not ask registries"
	case r.Mutate != nil:
		return c.mutate(r)
	case r.Validate == nil:
		unsupported = "it does nothing"
	}
	if unsupported != "" {
		c.leave("", refuse(r.Field, unsupported, do))
		return nil
	}
	if len(r.ImageExtractors) > 0 {
		c.leave("", refuse(r.Field+".imageExtractors", "images are read from fields that it names", do))
		return nil
	}
	p, err := c.validate(r)
	if why, ok := errors.AsType[*differs](err); ok {
		return written(c, r, why)
	}
	if err != nil {
		c.leave(r.Field, err)
		return nil
	}
	if p == nil {
		return nil
	}
	return []*piece{p}
}

// validate converts a rule that validates.
func (c *conversion) validate(r *syntax.Rule) (*piece, error) {
	v := r.Validate
	switch {
	case v.Manifests != nil:
		return nil, refuse(v.Field+".manifests", "it verifies signatures of manifests", "keep it")
	case v.PodSecurity != nil:
		return c.podSecurity(r)
	case v.CEL != nil:
		return c.cel(r)
	case v.Deny != nil, v.Foreach != nil, r.Preconditions != nil, len(r.Context) > 0, hasVariable(v.Message):
		return c.expressions(r)
	case v.Pattern != nil, v.AnyPattern != nil:
		return c.patterned(r)
	}
	return nil, refuse(v.Field, "it validates nothing", "leave it out")
}

// piece returns a piece for a rule without a validation, for operations that the rule does not name.
func (c *conversion) piece(r *syntax.Rule, operations ...admissionv1.OperationType) (*piece, error) {
	s, err := c.match(r, operations...)
	if err != nil {
		return nil, err
	}
	if err := c.except(r, s); err != nil {
		return nil, err
	}
	p := &piece{name: dns(r.Name), selection: s, bindings: c.bindings(r), data: slices.Clone(s.data)}
	if s.pods {
		p.templates = v1alpha1.PodTemplatesOff
		if repeats(r) {
			p.templates = c.templates
		}
		if p.templates != v1alpha1.PodTemplatesOff {
			s.excludeWorkloads(c.workloads)
		}
	}
	return p, nil
}

// hasVariable reports whether a text has a variable, or a reference.
func hasVariable(text string) bool {
	return strings.Contains(text, "{{") || strings.Contains(text, "$(")
}

var notInNames = regexp.MustCompile(`[^a-z0-9.-]+`)

// dns returns a name as part of the name of an object.
func dns(name string) string {
	return strings.Trim(notInNames.ReplaceAllString(strings.ToLower(name), "-"), "-.")
}

// label returns a name as that of a validation.
func label(name string) string {
	name = strings.Trim(strings.ReplaceAll(dns(name), ".", "-"), "-")
	return strings.TrimRight(name[:min(len(name), 63)], "-")
}

// patterned converts a rule with a pattern, whose message has no variables.
func (c *conversion) patterned(r *syntax.Rule) (*piece, error) {
	p, err := c.piece(r, admissionv1.Create, admissionv1.Update)
	if err != nil {
		return nil, err
	}
	v := &v1alpha1.Validation{Name: label(r.Name), Message: strings.TrimSpace(r.Validate.Message)}
	if v.Message == "" {
		v.Message = "validation error: rule " + r.Name + " failed"
	}
	now, err := c.fits(r, "object", p.selection.shape)
	if err != nil {
		return nil, err
	}
	before, err := c.fits(r, "oldObject", p.selection.shape)
	if err != nil {
		return nil, err
	}
	c.graced(r, p, v, now, before)
	p.validations = []v1alpha1.Validation{*v}
	return p, nil
}

// fits returns a term that holds if an object fits the pattern of a rule.
func (c *conversion) fits(r *syntax.Rule, object string, of shape) (term, error) {
	w := &patterns{note: func(field, what string) { c.note(field, what, "") }}
	v := r.Validate
	if v.Pattern != nil {
		a, err := w.root(v.Pattern, object, of)
		return a.ok, err
	}
	if v.AnyPattern.Sort != syntax.List {
		return no, refuse(v.AnyPattern.Field, "it is no list", "correct it")
	}
	passes, skipped := no, yes
	for _, p := range v.AnyPattern.Items {
		a, err := w.root(p, object, of)
		if err != nil {
			return no, err
		}
		passes, skipped = some(passes, a.passes()), all(skipped, a.skips)
	}
	if len(v.AnyPattern.Items) == 0 {
		return yes, nil
	}
	return some(passes, skipped), nil
}

// graced sets the expression of a validation. Where Kyverno lets objects be updated that violated a rule before, so
// does it.
func (c *conversion) graced(r *syntax.Rule, p *piece, v *v1alpha1.Validation, now, before term) {
	v.Expression = some(not(p.selection.applies), now).text
	allow := r.Validate.AllowExistingViolations
	updates := slices.ContainsFunc(p.selection.rules, func(o admissionv1.NamedRuleWithOperations) bool {
		return slices.Contains(o.Operations, admissionv1.Update)
	})
	created := r.Match.Block.Resources.Operations == nil || slices.Contains(r.Match.Block.Resources.Operations, "CREATE")
	if !c.enforces(r) || allow != nil && !*allow || !updates || p.selection.users || !created {
		return
	}
	name := camel(r.Name)
	p.variables = append(p.variables, admissionv1.Variable{Name: name, Expression: now.text},
		admissionv1.Variable{Name: name + "Before", Expression: some(compare("oldObject", "==", "null"), not(p.selection.before), before).text})
	v.Expression = some(not(p.selection.applies), call("variables."+name), call("!variables."+name+"Before")).text
}

// camel returns the name of a rule as that of a variable.
func camel(name string) string {
	var b strings.Builder
	upper := false
	for _, r := range name {
		switch {
		case r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' && b.Len() > 0:
			text := string(r)
			if upper && b.Len() > 0 {
				text = strings.ToUpper(text)
			} else if b.Len() == 0 {
				text = strings.ToLower(text)
			}
			upper = false
			b.WriteString(text)
		default:
			upper = true
		}
	}
	if b.Len() == 0 || slices.Contains(reserved, b.String()) {
		return "rule" + b.String()
	}
	return b.String()
}
