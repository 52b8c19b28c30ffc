package celkinds

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/usher-dev/usher/internal/convert"
)

// A specification is what a policy of any of the kinds says.
type specification struct {
	MatchConstraints  *admissionv1.MatchResources        `json:"matchConstraints,omitempty"`
	MatchConditions   []admissionv1.MatchCondition       `json:"matchConditions,omitempty"`
	FailurePolicy     admissionv1.FailurePolicyType      `json:"failurePolicy,omitempty"`
	Variables         []admissionv1.Variable             `json:"variables,omitempty"`
	Validations       []admissionv1.Validation           `json:"validations,omitempty"`
	AuditAnnotations  []admissionv1.AuditAnnotation      `json:"auditAnnotations,omitempty"`
	ValidationActions []admissionv1.ValidationAction     `json:"validationActions,omitempty"`
	Mutations         []admissionv1.Mutation             `json:"mutations,omitempty"`
	Reinvocation      admissionv1.ReinvocationPolicyType `json:"reinvocationPolicy,omitempty"`
	Targets           json.RawMessage                    `json:"targetMatchConstraints,omitempty"`
	// Webhook has a timeout. That of Usher's webhook counts.
	Webhook struct {
		TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
	} `json:"webhookConfiguration,omitzero"`
	Evaluation evaluation `json:"evaluation,omitzero"`
	Autogen    autogen    `json:"autogen,omitzero"`
}

type evaluation struct {
	Mode           string   `json:"mode,omitempty"`
	Admission      switched `json:"admission,omitzero"`
	Background     switched `json:"background,omitzero"`
	MutateExisting switched `json:"mutateExisting,omitzero"`
	// SkipBackground is about requests of Kyverno itself.
	SkipBackground *bool `json:"skipBackgroundRequests,omitempty"`
}

type switched struct {
	Enabled *bool `json:"enabled,omitempty"`
}

func (s switched) is(on bool) bool { return s.Enabled != nil && *s.Enabled == on }

// An autogen says for which workloads a policy for pods is, too.
type autogen struct {
	Pods struct {
		Controllers []string `json:"controllers"`
	} `json:"podControllers,omitzero"`
	// Kyverno makes admission policies of Kubernetes of a policy if these are enabled. They decide the same.
	Validating switched `json:"validatingAdmissionPolicy,omitzero"`
	Mutating   switched `json:"mutatingAdmissionPolicy,omitzero"`
}

// clone returns a copy that shares nothing.
func (s *specification) clone() *specification {
	var other specification
	if err := recode(s, &other, false); err != nil {
		return s
	}
	return &other
}

// recode reads an object as another type. It returns an error for fields that this does not have, if strict.
func recode(from, into any, strict bool) error {
	raw, err := json.Marshal(from)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if strict {
		d.DisallowUnknownFields()
	}
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("read: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// An expression is one of a policy, and where it is.
type expression struct {
	field string
	text  *string
}

// expressions returns all expressions in the order of their evaluation; variables come first.
func (s *specification) expressions() []expression {
	var all []expression
	add := func(text *string, field string, args ...any) {
		if *text != "" {
			all = append(all, expression{fmt.Sprintf("spec."+field, args...), text})
		}
	}
	for n := range s.Variables {
		add(&s.Variables[n].Expression, "variables[%d].expression", n)
	}
	for n := range s.MatchConditions {
		add(&s.MatchConditions[n].Expression, "matchConditions[%d].expression", n)
	}
	for n := range s.Validations {
		add(&s.Validations[n].Expression, "validations[%d].expression", n)
		add(&s.Validations[n].MessageExpression, "validations[%d].messageExpression", n)
	}
	for n := range s.AuditAnnotations {
		add(&s.AuditAnnotations[n].ValueExpression, "auditAnnotations[%d].valueExpression", n)
	}
	for n := range s.Mutations {
		if m := &s.Mutations[n]; m.JSONPatch != nil {
			add(&m.JSONPatch.Expression, "mutations[%d].jsonPatch.expression", n)
		} else if m.ApplyConfiguration != nil {
			add(&m.ApplyConfiguration.Expression, "mutations[%d].applyConfiguration.expression", n)
		}
	}
	return all
}

// read returns what a policy says, and leaves it out if that is not possible.
func (c *conversion) read() *specification {
	f := c.i.Of
	var m struct {
		Spec map[string]any `json:"spec"`
	}
	var s specification
	if err := recode(f.Object, &m, false); err != nil {
		c.i.Leave(f, "", err.Error(), "correct the policy")
		return nil
	}
	if err := recode(m.Spec, &s, true); err != nil {
		c.i.Leave(f, "spec", err.Error(), "correct the policy")
		return nil
	}
	c.mutates = strings.HasSuffix(f.Ref().Kind, mutatingKind)
	c.check(f, &s)
	if len(c.i.Left) > 0 {
		return nil
	}
	return &s
}

// check leaves out a policy that decides no requests of API servers, or more than these.
func (c *conversion) check(f *convert.Foreign, s *specification) {
	const mode = "Kubernetes"
	switch {
	case s.Evaluation.Mode != "" && s.Evaluation.Mode != mode:
		c.i.Leave(f, "spec.evaluation.mode", "it is for data of the mode "+s.Evaluation.Mode+", which is in no request", "keep it")
	case s.Evaluation.Admission.is(false):
		c.i.Leave(f, "spec.evaluation.admission", "it decides no requests", "import it with admission enabled, and write validationActions: [Audit] to audit objects that exist")
	case s.MatchConstraints == nil || len(s.MatchConstraints.ResourceRules) == 0:
		c.i.Leave(f, "spec.matchConstraints", "it does not say for which requests it is", "name the resources")
	case c.mutates && len(s.Validations)+len(s.ValidationActions) > 0:
		c.i.Leave(f, "spec.validations", "a policy that mutates has none", "correct the policy")
	case !c.mutates && len(s.Mutations) > 0:
		c.i.Leave(f, "spec.mutations", "a policy that validates has none", "correct the policy")
	case len(s.Targets) > 0:
		c.i.Leave(f, "spec.targetMatchConstraints", "it changes other objects than those of the request", "keep it")
	case s.Evaluation.MutateExisting.is(true):
		c.i.Note(f, "spec.evaluation.mutateExisting", "objects that exist are changed when somebody writes them, no longer by themselves", "apply the change to them once")
	}
}
