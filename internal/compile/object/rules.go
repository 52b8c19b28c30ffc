package object

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/compile/spec"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/rule"
)

// A validator is the validations of a policy.
type validator struct {
	*Policy
	spec.Reading
}

func newValidator(o *Policy) *validator { return &validator{o, o.reading(o.validate)} }

// DependsOn implements [rule.Dependent].
func (v *validator) DependsOn(operation usher.Operation) rule.Dependencies {
	return v.dependsOn(operation, v.validate)
}

// Run implements [rule.Program].
func (v *validator) Run(ctx context.Context, in *rule.Input) (rule.Outcome, error) {
	var to involvement
	if err := v.involve(in, &to); err != nil {
		return rule.Outcome{}, err
	}
	if to.skipped != "" {
		return rule.Outcome{Skipped: to.skipped}, nil
	}
	expressions := spec.Input(in)
	said := saying{policy: v.Policy, workload: in.Workload, exempt: in.Exempt, fields: fields{ctx: ctx, program: v.validate, in: expressions}}
	said.misconfigured(to.misconfigured)
	for i := range to.count {
		e := to.at(i)
		e.of(expressions)
		result, err := v.validate.Evaluate(ctx, expressions)
		if err != nil {
			return rule.Outcome{}, err
		}
		said.add(&result, e.actions)
	}
	return said.outcome(), nil
}

// IfFailed implements [rule.Warner].
func (v *validator) IfFailed(in *rule.Input) (denied, warned bool) {
	var to involvement
	if err := v.involve(in, &to); err != nil || len(to.misconfigured) > 0 {
		return true, false
	}
	var all actions
	for i := range to.count {
		all |= to.at(i).actions
	}
	if in.Workload != nil {
		all = v.onPods(all)
	}
	return all&deny != 0, all&warn != 0
}

// glanced limits what decides whom a policy is for, so that it takes little time.
const glanced = 8

// Glance implements [rule.Glancer].
func (v *validator) Glance(ctx context.Context, in *rule.Input) (rule.Outcome, bool) {
	if len(v.bindings) > glanced || len(v.subjects) > glanced || len(v.excluded) > glanced || in.Workload != nil || in.Exempt != nil {
		return rule.Outcome{}, false
	}
	var to involvement
	if err := v.involve(in, &to); err != nil || len(to.misconfigured) > 0 || to.count > len(to.few) {
		return rule.Outcome{}, false
	}
	out := rule.Outcome{Skipped: to.skipped}
	expressions := spec.Input(in)
	evaluated := false
	for i := range to.count {
		to.at(i).of(expressions)
		skipping, known := v.validate.Glance(ctx, expressions)
		if !known {
			return rule.Outcome{}, false
		}
		if skipping.Skipped != "" {
			out.Skipped, out.Condition = skipping.Skipped, skipping.Condition
		}
		evaluated = evaluated || skipping.Skipped == ""
	}
	if evaluated {
		out.Skipped = ""
	}
	return out, true
}

// A saying gathers what a policy says with all its params.
type saying struct {
	policy *Policy
	// workload is nil unless the object is the pod that it would make.
	workload *rule.Workload
	// exempt are validations that are left out.
	exempt rule.Validations
	fields fields
	out    rule.Outcome
	// denials counts the validations that deny the request; the first is in out.
	denials   int
	evaluated bool
}

// misconfigured denies the request because of bindings whose params cannot be used, unless the
// policy ignores failures.
func (s *saying) misconfigured(all []misconfigured) {
	for _, m := range all {
		check := usher.Check{Name: fmt.Sprintf("spec.bindings[%d].paramRef", m.binding), Message: m.err.Error(), Failed: true}
		if s.policy.ignore {
			s.out.Skipped = m.err.Error()
			continue
		}
		s.say(check, deny, "")
	}
}

func (s *saying) add(r *admission.Evaluation, a actions) {
	for i := range r.Ignored {
		check := checkOf(s.policy, &r.Ignored[i])
		if !s.exempt.Covers(&check) && !slices.ContainsFunc(s.out.Checks, func(c usher.Check) bool { return c.Name == check.Name && c.Message == check.Message }) {
			s.out.Checks = append(s.out.Checks, check)
		}
	}
	if r.Skipped != "" {
		s.out.Skipped, s.out.Condition = r.Skipped, r.Condition
		return
	}
	s.evaluated = true
	for i := range r.Denials {
		d := &r.Denials[i]
		check := checkOf(s.policy, d)
		if !d.Whole {
			check.Field = s.policy.validations[d.Index].field
			if s.exempt.Covers(&check) {
				continue
			}
			if check.Field == "" && !d.Absent {
				check.Field = s.fields.of(d.Index)
			}
		}
		s.say(check, a, d.Reason)
	}
	if s.workload != nil {
		// Nobody creates the pod: there is nothing to note about it.
		return
	}
	for _, refused := range r.Refused {
		s.say(usher.Check{Name: "spec.auditAnnotations", Message: refused, Failed: true}, deny, "")
	}
	for _, published := range r.Annotations {
		s.out.Audit = append(s.out.Audit, rule.Annotation{Key: s.policy.ref.Name + "/" + published.Key, Value: published.Value, Joined: true})
	}
}

// checkOf is what a policy says with a denial, without what follows from it.
func checkOf(o *Policy, d *admission.Denial) usher.Check {
	if d.Whole {
		return usher.Check{Name: d.Place, Message: d.Message, Failed: d.Failed}
	}
	v := &o.validations[d.Index]
	return usher.Check{
		Name: fmt.Sprintf("%s[%d]", validationsRule, d.Index), Validation: v.name, Severity: v.severity, Message: d.Message, MessageError: d.Unmade, Failed: d.Failed,
	}
}

// say adds a check with what follows from it. If other params have said the same, only what they did
// not lead to is added.
func (s *saying) say(check usher.Check, a actions, reason string) {
	at := slices.IndexFunc(s.out.Checks, func(c usher.Check) bool { return c.Name == check.Name && c.Message == check.Message })
	by, message, denied := s.policy.ref.String(), check.Message, ""
	if s.workload != nil {
		if a&deny != 0 {
			denied = "; its pods would be denied"
		}
		check.Field = s.workload.FieldPath(check.Field)
		message = s.ofPod(&check)
		check.PodsDenied = a != s.policy.onPods(a)
		a = s.policy.onPods(a)
	}
	fresh := a
	if at >= 0 {
		before := actionsOf(s.out.Checks[at].Actions)
		if fresh = a &^ before; before&deny != 0 {
			fresh &^= warn
		}
		s.out.Checks[at].Actions = (a | before).list()
		s.out.Checks[at].PodsDenied = s.out.Checks[at].PodsDenied || check.PodsDenied
	} else {
		check.Actions = a.list()
		s.out.Checks = append(s.out.Checks, check)
	}
	switch {
	case fresh&deny != 0:
		if s.denials++; s.denials > 1 {
			break
		}
		s.out.Verdict, s.out.Reason, s.out.Message = usher.Deny, cmp.Or(reason, "Invalid"), message
		s.out.Code = cmp.Or(spec.Code(s.out.Reason), http.StatusUnprocessableEntity)
	case fresh&warn != 0:
		s.out.Warnings = append(s.out.Warnings, fmt.Sprintf("%s (%s%s)", message, by, denied))
	}
	if fresh&audit != 0 {
		s.out.Audit = append(s.out.Audit, rule.Annotation{Key: auditKey, Value: fmt.Sprintf("%s %s: %s", by, cmp.Or(check.Validation, check.Name), message), Joined: true, Failure: true})
	}
}

// auditKey is the key of the audit annotation for validations that fail in bindings with the action
// Audit.
const auditKey = "audited-by"

// outcome is what all params say together.
func (s *saying) outcome() rule.Outcome {
	if s.evaluated || len(s.out.Checks) > 0 {
		s.out.Skipped = ""
	}
	if s.denials > 1 {
		s.out.Message = fmt.Sprintf("%s, and %d more", s.out.Message, s.denials-1)
	}
	return s.out
}

// A mutator is the mutations of a policy.
type mutator struct {
	*Policy
	spec.Reading
	brief bool
}

// briefBindings is how many bindings are compared with a request in a moment.
const briefBindings = 16

func newMutator(o *Policy) *mutator {
	m := &mutator{Policy: o, Reading: o.reading(o.mutate)}
	// Policies of a namespace wait for their turn.
	m.brief = o.ref.Namespace == "" && len(o.subjects)+len(o.excluded) == 0 && o.match.Brief() && o.mutate.ChangesBriefly() &&
		len(o.bindings) <= briefBindings
	for i := range o.bindings {
		m.brief = m.brief && o.bindings[i].params == nil && o.bindings[i].match.Brief()
	}
	return m
}

// Brief implements [rule.Brief].
func (m *mutator) Brief() bool { return m.brief }

// DependsOn implements [rule.Dependent].
func (m *mutator) DependsOn(operation usher.Operation) rule.Dependencies {
	return m.dependsOn(operation, m.mutate)
}

// Run implements [rule.Program].
func (m *mutator) Run(ctx context.Context, in *rule.Input) (rule.Outcome, error) {
	if in.Request.Reinvocation && !m.again {
		return rule.Outcome{Skipped: "reinvocationPolicy is Never"}, nil
	}
	var to involvement
	if err := m.involve(in, &to); err != nil {
		return rule.Outcome{}, err
	}
	if to.skipped != "" {
		return rule.Outcome{Skipped: to.skipped}, nil
	}
	if len(to.misconfigured) > 0 {
		first := to.misconfigured[0]
		return rule.Outcome{}, fmt.Errorf("spec.bindings[%d].paramRef: %w", first.binding, first.err)
	}
	expressions := spec.Input(in)
	out := rule.Outcome{}
	evaluated := false
	for i := range to.count {
		to.at(i).of(expressions)
		result, err := m.mutate.Mutate(ctx, expressions, spec.Structures)
		if err != nil {
			return rule.Outcome{}, err
		}
		if result.Skipped != "" {
			out.Skipped, out.Condition = result.Skipped, result.Condition
			for _, f := range result.Failures {
				out.Checks = append(out.Checks, usher.Check{Name: conditionsPlace, Message: f.Message, Failed: true})
			}
			continue
		}
		if len(result.Failures) > 0 {
			return failed(&result.Failures[0])
		}
		evaluated = true
		if len(result.Patch) > 0 && i+1 < to.count {
			object, err := result.Object()
			if err != nil {
				return rule.Outcome{}, err
			}
			expressions.Change(object)
		}
		out.Patch = result.After(out.Patch)
	}
	if evaluated {
		out.Skipped = ""
	}
	return out, nil
}

// conditionsPlace is the place of the match conditions.
const conditionsPlace = "spec.matchConditions"

// failed is the outcome of a mutation that fails: none is applied.
func failed(f *admission.Failure) (rule.Outcome, error) {
	place := conditionsPlace
	if f.Index >= 0 {
		place = fmt.Sprintf("%s[%d]", mutationsRule, f.Index)
	}
	if f.Status != nil {
		return rule.Outcome{Verdict: usher.Deny, Code: f.Status.Code, Reason: f.Status.Reason, Message: f.Status.Message}, nil //nolint:nilerr // A denial is an outcome.
	}
	return rule.Outcome{}, fmt.Errorf("%s: %s", place, f.Message)
}
