package admissionregistration

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/compile/spec"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/rule"
)

const (
	// failureKey is the key of the audit annotation for validations that fail in bindings with the
	// action Audit.
	failureKey = "validation.policy.admission.k8s.io/validation_failure"
	// maxAnnotation is the longest value of an audit annotation, in bytes.
	maxAnnotation = 10 << 10
)

// Link returns a rule for each of bindings whose policy is one of policies, in order of the
// names of policies and bindings.
func Link(policies []*Policy, bindings []*Binding) []rule.Rule {
	byRef := make(map[usher.PolicyRef]*Policy, len(policies))
	for _, p := range policies {
		byRef[p.Ref()] = p
	}
	var rules []rule.Rule
	for _, b := range bindings {
		if p := byRef[b.Policy()]; p != nil {
			rules = append(rules, bind(p, b))
		}
	}
	slices.SortStableFunc(rules, func(a, b rule.Rule) int {
		return cmp.Or(cmp.Compare(a.Policy.Name, b.Policy.Name), cmp.Compare(a.Name, b.Name))
	})
	return rules
}

func bind(p *Policy, b *Binding) rule.Rule {
	both := pair{policy: p, binding: b, without: []map[string]any{nil}}
	r := rule.Rule{
		Policy:        p.Ref(),
		Name:          "binding " + b.name,
		Phase:         usher.Validate,
		FailurePolicy: usher.Fail,
		Independent:   true,
		Match:         rule.Match{Namespaces: p.match.Namespaces().And(b.match.Namespaces()), Resources: []rule.ResourceMatch{p.match.Resources}},
		Steps:         []rule.Step{{Name: "cel", Program: newProgram(both)}},
	}
	if p.kind == mutatingKind {
		r.Phase, r.Pass, r.Reinvoked = usher.Mutate, passOnce, p.again
		r.Steps[0].Program = newMutator(both)
		if p.again {
			r.Pass = passAgain
		}
	}
	if own := b.match.Own(); own != nil {
		r.Match.Resources = append(r.Match.Resources, *own)
	}
	if p.ignore {
		r.FailurePolicy = usher.Ignore
	}
	return r
}

// A pair is a policy with one of its bindings.
type pair struct {
	policy  *Policy
	binding *Binding
	// without are the params of a policy that has none: it is evaluated once.
	without []map[string]any
}

// A configError is an error of a policy or of a binding before it is evaluated.
type configError struct {
	// of is policy or binding.
	of    string
	cause error
}

// Error implements error, with the text of API servers.
func (e *configError) Error() string { return fmt.Sprintf("failed to configure %s: %v", e.of, e.cause) }

// Unwrap returns the cause.
func (e *configError) Unwrap() error { return e.cause }

// Skips implements [rule.Skipper].
func (p *pair) Skips(in *rule.Input) (string, error) {
	_, skipped, err := p.evaluations(in)
	return skipped, err
}

// evaluations returns the objects of params to evaluate the policy with for a request, or why it is
// not evaluated. The error is a [*configError], which may wrap [*fact.Missing].
func (p *pair) evaluations(in *rule.Input) (params []map[string]any, skipped string, err error) {
	if skipped, err = p.policy.match.Skips(in); err != nil {
		return nil, "", &configError{"policy", err}
	}
	if skipped != "" {
		return nil, skipped, nil
	}
	if skipped, err = p.binding.match.Skips(in); err != nil {
		return nil, "", &configError{"binding", err}
	}
	if skipped != "" {
		return nil, "binding: " + skipped, nil
	}
	if p.policy.params == nil || p.binding.params == nil {
		return p.without, "", nil
	}
	if params, err = p.binding.params.Collect(p.policy.params, in.Request.Namespace, in.Facts); err != nil {
		of := "binding"
		if _, unknown := errors.AsType[*spec.NoParamKindError](err); unknown {
			of = "policy"
		}
		return nil, "", &configError{of, err}
	}
	if len(params) == 0 {
		return nil, fmt.Sprintf("there is no %s that the binding refers to", p.policy.params.Kind), nil
	}
	return params, "", nil
}

// reading is what a program of the pair reads.
func (p *pair) reading() spec.Reading {
	return spec.NewReading(p.policy.program, nil, &p.policy.match, &p.binding.match)
}

// DependsOn implements [rule.Dependent].
func (p *pair) DependsOn(operation usher.Operation) rule.Dependencies {
	all := p.policy.program.DependsOn(operation) | p.policy.match.DependsOn() | p.binding.match.DependsOn()
	if p.policy.params != nil {
		all |= p.binding.params.DependsOn()
	}
	return all
}

// A program is a ValidatingAdmissionPolicy with one of its bindings.
type program struct {
	pair
	spec.Reading
}

func newProgram(p pair) *program { return &program{p, p.reading()} }

// String implements [rule.Program].
func (p *program) String() string {
	actions := make([]string, len(p.binding.actions))
	for i, a := range p.binding.actions {
		actions[i] = string(a)
	}
	return fmt.Sprintf("%s/%s: %s", p.policy.name, p.binding.name, strings.Join(actions, ", "))
}

// Run implements [rule.Program]. It is Dispatch of
// k8s.io/apiserver/pkg/admission/plugin/policy/validating, for one policy and binding.
func (p *program) Run(ctx context.Context, in *rule.Input) (rule.Outcome, error) {
	objects, skipped, err := p.evaluations(in)
	if err != nil {
		return p.misconfigured(err)
	}
	if skipped != "" {
		return rule.Outcome{Skipped: skipped}, nil
	}
	evaluation := spec.Input(in)
	said := saying{program: p, exempt: in.Exempt}
	for _, object := range objects {
		evaluation.Params = object
		result, err := p.policy.program.Evaluate(ctx, evaluation)
		if err != nil {
			return rule.Outcome{}, err
		}
		said.add(&result)
	}
	return said.outcome(), nil
}

// IfFailed implements [rule.Warner].
func (p *program) IfFailed(*rule.Input) (denied, warned bool) {
	return slices.Contains(p.binding.actions, usher.ActDeny), slices.Contains(p.binding.actions, usher.ActWarn)
}

// Glance implements [rule.Glancer].
func (p *program) Glance(ctx context.Context, in *rule.Input) (rule.Outcome, bool) {
	objects, skipped, err := p.evaluations(in)
	if err != nil || skipped != "" || len(objects) != 1 || in.Exempt != nil {
		return rule.Outcome{Skipped: skipped}, err == nil && skipped != ""
	}
	evaluation := spec.Input(in)
	evaluation.Params = objects[0]
	skipping, known := p.policy.program.Glance(ctx, evaluation)
	return rule.Outcome{Skipped: skipping.Skipped, Condition: skipping.Condition}, known
}

// misconfigured is the outcome of an error of the policy or the binding, unless it is that a fact
// is missing.
func (p *program) misconfigured(err error) (rule.Outcome, error) {
	config, ok := errors.AsType[*configError](err)
	if _, missing := errors.AsType[*fact.Missing](err); missing || !ok {
		return rule.Outcome{}, err
	}
	if p.policy.ignore {
		return ignored(config), nil
	}
	by := fmt.Sprintf("%s '%s'", validatingKind, p.policy.name)
	if config.of == "binding" {
		by += fmt.Sprintf(" with binding '%s'", p.binding.name)
	}
	return rule.Outcome{
		Verdict: usher.Deny, Reason: "Invalid", Code: http.StatusUnprocessableEntity,
		Message: fmt.Sprintf("%s denied request: %v", by, config),
		Checks:  []usher.Check{{Name: config.of, Message: config.cause.Error(), Actions: []usher.Action{usher.ActDeny}, Failed: true}},
	}, nil
}

// ignored is the outcome of an error from which nothing follows.
func ignored(err *configError) rule.Outcome {
	return rule.Outcome{Skipped: err.cause.Error()}
}

// A saying gathers what a policy says with all its params.
type saying struct {
	program *program
	exempt  rule.Validations
	out     rule.Outcome
}

func (s *saying) add(r *admission.Evaluation) {
	for i := range r.Ignored {
		d := &r.Ignored[i]
		if place := cmp.Or(d.Place, placeOf(d)); d.Whole || !s.exempt.Has("", place) {
			s.check(usher.Check{Name: place, Message: d.Message, Failed: true})
		}
	}
	if r.Skipped != "" {
		s.out.Skipped, s.out.Condition = r.Skipped, r.Condition
		return
	}
	for i := range r.Denials {
		s.deny(&r.Denials[i])
	}
	for _, a := range r.Annotations {
		s.out.Audit = append(s.out.Audit, rule.Annotation{Key: s.program.policy.name + "/" + a.Key, Value: cut(a.Value), Joined: true})
	}
	for _, refused := range r.Refused {
		s.reject(refused, "")
		s.check(usher.Check{Name: "spec.auditAnnotations", Message: refused, Actions: []usher.Action{usher.ActDeny}, Failed: true})
	}
}

// deny does what the binding says follows from a denial.
func (s *saying) deny(d *admission.Denial) {
	p := s.program
	place := placeOf(d)
	if !d.Whole && s.exempt.Has("", place) {
		return
	}
	for _, action := range p.binding.actions {
		switch action {
		case usher.ActDeny:
			s.reject(d.Message, d.Reason)
		case usher.ActWarn:
			warning := fmt.Sprintf("Validation failed for ValidatingAdmissionPolicy '%s' with binding '%s': %s", p.policy.name, p.binding.name, d.Message)
			s.out.Warnings = append(s.out.Warnings, warning)
		case usher.ActAudit:
			s.auditFailure(d)
		}
	}
	s.check(usher.Check{Name: place, Message: d.Message, MessageError: d.Unmade, Actions: p.binding.actions, Failed: d.Failed})
}

// placeOf is the place of a validation. That of an error of all is the first one, as in an API server.
func placeOf(d *admission.Denial) string { return fmt.Sprintf("spec.validations[%d]", d.Index) }

func (s *saying) check(c usher.Check) { s.out.Checks = append(s.out.Checks, c) }

// reject denies the request. Of several reasons users are told the first.
func (s *saying) reject(message, reason string) {
	if s.out.Verdict == usher.Deny {
		return
	}
	p := s.program
	s.out.Verdict, s.out.Reason = usher.Deny, cmp.Or(reason, "Invalid")
	s.out.Code = cmp.Or(spec.Code(s.out.Reason), http.StatusUnprocessableEntity)
	s.out.Message = fmt.Sprintf("%s '%s' with binding '%s' denied request: %s", validatingKind, p.policy.name, p.binding.name, message)
}

// A validationFailure is ValidationFailureValue of
// k8s.io/apiserver/pkg/admission/plugin/policy/validating.
type validationFailure struct {
	Message           string                         `json:"message"`
	Policy            string                         `json:"policy"`
	Binding           string                         `json:"binding"`
	ExpressionIndex   int                            `json:"expressionIndex"`
	ValidationActions []admissionv1.ValidationAction `json:"validationActions"`
}

// auditFailure notes a denial for the audit log.
func (s *saying) auditFailure(d *admission.Denial) {
	p := s.program
	failure := validationFailure{Message: d.Message, Policy: p.policy.name, Binding: p.binding.name, ExpressionIndex: d.Index}
	for _, a := range p.binding.actions {
		failure.ValidationActions = append(failure.ValidationActions, admissionv1.ValidationAction(a))
	}
	value, err := json.Marshal([]validationFailure{failure})
	if err != nil {
		return
	}
	s.out.Audit = append(s.out.Audit, rule.Annotation{Key: failureKey, Value: string(value), Failure: true})
}

// outcome is what all params say together: a policy that is for none of them is skipped.
func (s *saying) outcome() rule.Outcome {
	if len(s.out.Checks) > 0 || len(s.out.Audit) > 0 {
		s.out.Skipped = ""
	}
	return s.out
}

func cut(value string) string {
	if len(value) <= maxAnnotation {
		return value
	}
	value = value[:maxAnnotation]
	for !utf8.ValidString(value) && len(value) > 0 {
		value = value[:len(value)-1]
	}
	return value
}
