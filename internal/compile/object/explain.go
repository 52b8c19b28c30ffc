package object

import (
	"fmt"

	"github.com/usher-dev/usher/internal/compile/spec"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/rule"
)

var _, _ rule.Explainer = (*validator)(nil), (*mutator)(nil)

// Explain implements [rule.Explainer]. It follows Run.
func (v *validator) Explain(in *rule.Input) (rule.Reading, error) {
	return v.explain(in, v.validate, nil)
}

// Explain implements [rule.Explainer]. It follows Run.
func (m *mutator) Explain(in *rule.Input) (rule.Reading, error) {
	return m.explain(in, m.mutate, spec.Structures)
}

func (o *Policy) explain(in *rule.Input, program *admission.Program, structures admission.Structures) (rule.Reading, error) {
	var reading rule.Reading
	if o.uninvolved(in.Request) != "" {
		return reading, nil
	}
	told, skipped, err := o.match.Explain("spec.matchConstraints", in)
	reading.Expressions = told
	if err != nil || skipped {
		return reading, err
	}
	for i := range o.bindings {
		if match := o.bindings[i].match; match != nil {
			told, _, err := match.Explain(fmt.Sprintf("spec.bindings[%d].matchResources", i), in)
			reading.Expressions = append(reading.Expressions, told...)
			if err != nil {
				return reading, err
			}
		}
	}
	var to involvement
	if err := o.involve(in, &to); err != nil {
		return reading, err
	}
	params := make([]map[string]any, to.count)
	for i := range params {
		params[i] = to.at(i).params
	}
	told, err = spec.Evaluations(program, in, params, structures)
	reading.Expressions = append(reading.Expressions, told...)
	if err != nil {
		return reading, fmt.Errorf("explain expressions: %w", err)
	}
	return reading, nil
}
