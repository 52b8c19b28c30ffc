package admissionregistration

import (
	"fmt"

	"github.com/usher-dev/usher/internal/compile/spec"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/rule"
)

var _, _ rule.Explainer = (*program)(nil), (*mutator)(nil)

// Explain implements [rule.Explainer]. It follows Run.
func (p *program) Explain(in *rule.Input) (rule.Reading, error) { return p.explain(in, nil) }

// Explain implements [rule.Explainer]. It follows Run.
func (m *mutator) Explain(in *rule.Input) (rule.Reading, error) {
	return m.explain(in, spec.Structures)
}

func (p *pair) explain(in *rule.Input, structures admission.Structures) (rule.Reading, error) {
	var reading rule.Reading
	for _, m := range []struct {
		match *spec.Match
		field string
	}{{&p.policy.match, "spec.matchConstraints"}, {&p.binding.match, "binding spec.matchResources"}} {
		told, skipped, err := m.match.Explain(m.field, in)
		reading.Expressions = append(reading.Expressions, told...)
		if err != nil || skipped {
			return reading, err
		}
	}
	objects, err := p.binding.params.Collect(p.policy.params, in.Request.Namespace, in.Facts)
	if err != nil {
		return reading, fmt.Errorf("read params: %w", err)
	}
	if len(objects) == 0 {
		return reading, fmt.Errorf("there is no %s that the binding refers to", p.policy.params.Kind)
	}
	told, err := spec.Evaluations(p.policy.program, in, objects, structures)
	reading.Expressions = append(reading.Expressions, told...)
	return reading, err
}
