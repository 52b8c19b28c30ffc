package kyverno

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
)

// cel converts a rule in CEL, which says what a ValidatingAdmissionPolicy says.
func (c *conversion) cel(r *syntax.Rule) (*piece, error) {
	of := r.Validate.CEL
	if r.Preconditions != nil || len(r.Context) > 0 {
		return nil, refuse(r.Field, "it has preconditions or a context, which expressions in CEL do not see", "write them as celPreconditions and variables")
	}
	if of.ParamRef != nil && of.ParamKind == nil {
		return nil, refuse(r.Validate.Field+".cel.paramRef", "there is no paramKind", "correct the rule")
	}
	text := textOf(r.Raw)
	operations := []admissionv1.OperationType{admissionv1.Create, admissionv1.Update}
	if strings.Contains(text, "oldObject") || strings.Contains(text, "request.operation") {
		operations = append(operations, admissionv1.Delete)
	} else if !operationsNamed(r) {
		c.note(r.Field, "objects that are deleted are not validated: there is no object then, on which the expressions failed", "")
	}
	if slices.ContainsFunc(r.Match.Any, connects) || connects(r.Match.Block) {
		operations = append(operations, admissionv1.Connect)
	}
	p, err := c.piece(r, operations...)
	if err != nil {
		return nil, err
	}
	p.selection.conditions = slices.Concat(r.CELPreconditions, p.selection.conditions)
	p.variables, p.annotations, p.paramKind = of.Variables, of.AuditAnnotations, of.ParamKind
	for i := range p.bindings {
		p.bindings[i].ParamRef = of.ParamRef
	}
	for n := range of.Expressions {
		e := &of.Expressions[n]
		v := v1alpha1.Validation{Name: label(r.Name), Expression: e.Expression, Message: e.Message, MessageExpression: e.MessageExpression}
		if len(of.Expressions) > 1 {
			v.Name = label(fmt.Sprintf("%s-%d", r.Name, n+1))
		}
		if v.Message == "" {
			v.Message = strings.TrimSpace(r.Validate.Message)
		}
		if e.Reason != nil {
			v.Reason = *e.Reason
		}
		if p.selection.applies != yes {
			v.Expression = some(not(p.selection.applies), term{text: v.Expression, binds: choice}).text
		}
		p.validations = append(p.validations, v)
	}
	return p, nil
}

// operationsNamed reports whether a rule says for which operations it is.
func operationsNamed(r *syntax.Rule) bool {
	return !slices.ContainsFunc(blocksOf(&r.Match), func(b syntax.Block) bool { return len(b.Resources.Operations) == 0 })
}

// connects reports whether a block is for the operation CONNECT.
func connects(b syntax.Block) bool {
	return slices.Contains(b.Resources.Operations, string(admissionv1.Connect))
}
