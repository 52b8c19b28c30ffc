// Package spec compiles the fields that the specs of Kubernetes' admission policies and of object
// policies have in common: the requests that they match, variables, conditions, params, mutations.
package spec

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/rule"
)

// A Compilation gathers what is wrong with one object.
type Compilation struct {
	Problems []rule.Problem
	// Budget is that of all expressions of the object.
	Budget cel.Budget
}

// Fail adds an error.
func (c *Compilation) Fail(field, what, do string) {
	c.Problems = append(c.Problems, rule.Problem{Severity: rule.Error, Field: field, What: what, Do: do})
}

// Variables compiles spec.variables.
func (c *Compilation) Variables(all []admissionv1.Variable) []admission.Named {
	var named []admission.Named
	names := map[string]bool{}
	for i, v := range all {
		field := fmt.Sprintf("spec.variables[%d].name", i)
		switch {
		case !isIdentifier(v.Name):
			c.Fail(field, fmt.Sprintf("%q is not a CEL identifier", v.Name), "use letters, digits and _, beginning with a letter")
		case names[v.Name]:
			c.Fail(field, fmt.Sprintf("there is another variable %q", v.Name), "rename one of them")
		}
		names[v.Name] = true
		named = append(named, admission.Named{Name: v.Name, Expression: v.Expression})
	}
	return named
}

// maxAuditAnnotations is how many audit annotations API servers accept.
const maxAuditAnnotations = 20

// maxConditions is how many match conditions API servers accept.
const maxConditions = 64

// Conditions compiles spec.matchConditions.
func (c *Compilation) Conditions(all []admissionv1.MatchCondition) []admission.Named {
	if len(all) > maxConditions {
		c.Fail("spec.matchConditions", fmt.Sprintf("%d conditions: API servers accept %d", len(all), maxConditions), "join some of them with &&")
	}
	var named []admission.Named
	names := map[string]bool{}
	for i, m := range all {
		field := fmt.Sprintf("spec.matchConditions[%d].name", i)
		switch whats := utilvalidation.IsQualifiedName(m.Name); {
		case len(whats) > 0:
			c.Fail(field, fmt.Sprintf("%q is not a name: %s", m.Name, strings.Join(whats, ", ")), "use letters, digits, -, _ and .")
		case names[m.Name]:
			c.Fail(field, fmt.Sprintf("there is another condition %q", m.Name), "rename one of them")
		}
		names[m.Name] = true
		named = append(named, admission.Named{Name: m.Name, Expression: m.Expression})
	}
	return named
}

// Annotations compiles spec.auditAnnotations.
func (c *Compilation) Annotations(all []admissionv1.AuditAnnotation) []admission.Annotation {
	var named []admission.Annotation
	if len(all) > maxAuditAnnotations {
		c.Fail("spec.auditAnnotations", fmt.Sprintf("%d annotations: API servers accept %d", len(all), maxAuditAnnotations), "remove some of them")
	}
	keys := map[string]bool{}
	for i, a := range all {
		field := fmt.Sprintf("spec.auditAnnotations[%d].key", i)
		if whats := utilvalidation.IsQualifiedName(a.Key); len(whats) > 0 || strings.Contains(a.Key, "/") {
			c.Fail(field, fmt.Sprintf("%q cannot be the key of an annotation", a.Key), "use letters, digits, -, _ and .")
		}
		if keys[a.Key] {
			c.Fail(field, fmt.Sprintf("there is another annotation with the key %q", a.Key), "rename one of them")
		}
		keys[a.Key] = true
		named = append(named, admission.Annotation{Key: a.Key, ValueExpression: a.ValueExpression})
	}
	return named
}

// Validation compiles a validation.
func (c *Compilation) Validation(field string, v admissionv1.Validation) admission.Validation {
	if strings.Contains(strings.TrimSpace(v.Message), "\n") {
		c.Fail(field+".message", "the message has several lines", "write one line")
	}
	compiled := admission.Validation{Expression: v.Expression, Message: v.Message, MessageExpression: v.MessageExpression}
	if v.Reason != nil {
		compiled.Reason = string(*v.Reason)
		if Code(compiled.Reason) == 0 {
			c.Fail(field+".reason", fmt.Sprintf("%q is not a reason", *v.Reason), "use Unauthorized, Forbidden, Invalid or RequestEntityTooLarge")
		}
	}
	return compiled
}

func isIdentifier(name string) bool {
	for i, r := range name {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}

// FailurePolicy compiles spec.failurePolicy. The default is Fail.
func (c *Compilation) FailurePolicy(p *admissionv1.FailurePolicyType) (ignore bool) {
	if p == nil || *p == admissionv1.Fail {
		return false
	}
	if *p != admissionv1.Ignore {
		c.Fail("spec.failurePolicy", fmt.Sprintf("%q is not a failure policy", *p), "use Fail or Ignore")
	}
	return *p == admissionv1.Ignore
}

// Actions compiles validationActions.
func (c *Compilation) Actions(field string, all []admissionv1.ValidationAction) []usher.Action {
	if len(all) == 0 {
		c.Fail(field, "missing: nothing follows from the policy", "use Deny, Warn or Audit")
	}
	var actions []usher.Action
	for i, a := range all {
		action := usher.Action(a)
		at := fmt.Sprintf("%s[%d]", field, i)
		switch {
		case !slices.Contains([]usher.Action{usher.ActDeny, usher.ActWarn, usher.ActAudit}, action):
			c.Fail(at, fmt.Sprintf("%q is not an action", a), "use Deny, Warn or Audit")
		case slices.Contains(actions, action):
			c.Fail(at, fmt.Sprintf("%s occurs twice", a), "remove one of them")
		}
		actions = append(actions, action)
	}
	if slices.Contains(actions, usher.ActDeny) && slices.Contains(actions, usher.ActWarn) {
		c.Fail(field, "Deny and Warn exclude each other: who is denied need not be warned of the same", "remove Warn")
	}
	return actions
}

// Input is what expressions see of a request, until it is asked for the next rule. They know an object
// that is about to go as the old one.
func Input(in *rule.Input) *admission.Input {
	memo := in.Memo
	if memo == nil {
		memo = &rule.Memo{}
	}
	evaluation := rule.Kept[admission.Input](memo)
	*evaluation = admission.Input{Request: in.Request, Object: in.Object, OldObject: in.OldObject, Facts: in.Facts, Allowance: in.Allowance, Memo: memo}
	if in.Unchanged || in.Request.Phase == usher.Validate {
		for _, object := range []*usher.Object{in.Request.Object, in.Request.OldObject} {
			total, longest := object.DecodedSize()
			evaluation.Size = evaluation.Size.Plus(cel.Size{Total: total, Longest: longest})
		}
	}
	if in.Request.Object == nil {
		evaluation.Object, evaluation.OldObject = nil, in.Object
	}
	return evaluation
}

// Code returns the HTTP status of a reason, 0 for one that validations cannot have.
func Code(reason string) int32 {
	switch reason {
	case "Unauthorized":
		return http.StatusUnauthorized
	case "Forbidden":
		return http.StatusForbidden
	case "Invalid":
		return http.StatusUnprocessableEntity
	case "RequestEntityTooLarge":
		return http.StatusRequestEntityTooLarge
	}
	return 0
}
