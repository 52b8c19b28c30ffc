package admissionregistration

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/compile/spec"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/rule"
)

// A mutator is a MutatingAdmissionPolicy with one of its bindings.
type mutator struct {
	pair
	spec.Reading
	brief bool
}

func newMutator(p pair) *mutator {
	return &mutator{p, p.reading(), p.policy.match.Brief() && p.binding.match.Brief() && p.policy.program.ChangesBriefly()}
}

// String implements [rule.Program].
func (m *mutator) String() string { return m.policy.name + "/" + m.binding.name }

// Brief implements [rule.Brief].
func (m *mutator) Brief() bool { return m.brief }

// Run implements [rule.Program]. It is Dispatch of
// k8s.io/apiserver/pkg/admission/plugin/policy/mutating, for one policy and binding.
func (m *mutator) Run(ctx context.Context, in *rule.Input) (rule.Outcome, error) {
	if in.Request.Reinvocation && !m.policy.again {
		return rule.Outcome{Skipped: "reinvocationPolicy is Never"}, nil
	}
	objects, skipped, err := m.evaluations(in)
	if err != nil {
		return m.misconfigured(err)
	}
	if skipped != "" {
		return rule.Outcome{Skipped: skipped}, nil
	}
	evaluation := spec.Input(in)
	var out rule.Outcome
	evaluated := false
	for i := range objects {
		evaluation.Params = objects[i]
		result, err := m.policy.program.Mutate(ctx, evaluation, spec.Structures)
		if err != nil {
			return rule.Outcome{}, err
		}
		if result.Skipped != "" {
			out.Skipped, out.Condition = result.Skipped, result.Condition
			m.fail(&out, result.Failures)
			continue
		}
		evaluated = true
		if len(result.Patch) > 0 && i+1 < len(objects) {
			object, err := result.Object()
			if err != nil {
				return rule.Outcome{}, err
			}
			evaluation.Change(object)
		}
		out.Patch = result.After(out.Patch)
		if m.fail(&out, result.Failures); out.Verdict == usher.Deny {
			out.Patch = nil
			break
		}
	}
	if evaluated {
		out.Skipped = ""
	}
	return out, nil
}

// fail adds failures to an outcome. Unless the policy ignores them they deny the request.
func (m *mutator) fail(out *rule.Outcome, failures []admission.Failure) {
	for i := range failures {
		f := &failures[i]
		check := usher.Check{Name: fmt.Sprintf("spec.mutations[%d]", f.Index), Message: f.Message, Failed: true}
		if f.Index < 0 {
			check.Name = "spec.matchConditions"
		}
		if f.Status != nil || !m.policy.ignore {
			check.Actions = []usher.Action{usher.ActDeny}
		}
		out.Checks = append(out.Checks, check)
		switch {
		case f.Status != nil:
			out.Verdict, out.Code, out.Reason, out.Message = usher.Deny, f.Status.Code, f.Status.Reason, f.Status.Message
		case !m.policy.ignore && out.Verdict != usher.Deny:
			m.deny(out, "Invalid", m.by()+f.Message)
		}
	}
}

func (m *mutator) by() string {
	return fmt.Sprintf("policy '%s' with binding '%s' denied request: ", m.policy.name, m.binding.name)
}

// deny denies the request. Of all reasons the code is that of Forbidden, as in an API server.
func (m *mutator) deny(out *rule.Outcome, reason, message string) {
	out.Verdict, out.Code, out.Reason, out.Message = usher.Deny, http.StatusForbidden, reason, message
}

// misconfigured is the outcome of an error of the policy or the binding, unless it is that a fact
// is missing.
func (m *mutator) misconfigured(err error) (rule.Outcome, error) {
	config, ok := errors.AsType[*configError](err)
	if _, missing := errors.AsType[*fact.Missing](err); missing || !ok {
		return rule.Outcome{}, err
	}
	if m.policy.ignore {
		return ignored(config), nil
	}
	out := rule.Outcome{Checks: []usher.Check{{Name: config.of, Message: config.cause.Error(), Actions: []usher.Action{usher.ActDeny}, Failed: true}}}
	by := m.by()
	if config.of == "policy" {
		by = fmt.Sprintf("policy %q denied request: ", m.policy.name)
	}
	m.deny(&out, "Forbidden", by+config.Error())
	return out, nil
}
