package explain

import (
	"slices"

	"github.com/usher-dev/usher/internal/rule"
)

// withheld replaces a value that is not shown.
const withheld = "(withheld)"

// withholdSummary removes the messages of the rules from the explanation.
func (e *Explanation) withholdSummary() {
	e.Message = mask(e.Message)
	e.Warnings = slices.Clone(e.Warnings)
	for i := range e.Warnings {
		e.Warnings[i] = withheld
	}
}

// withhold removes from the rule what may be part of an object, or of a fact.
func (r *Rule) withhold() {
	r.Message, r.Error, r.Unmutated = mask(r.Message), mask(r.Error), mask(r.Unmutated)
	r.Checks = slices.Clone(r.Checks)
	for i := range r.Checks {
		r.Checks[i].Message, r.Checks[i].MessageError = mask(r.Checks[i].Message), mask(r.Checks[i].MessageError)
	}
	r.NotExempt = slices.Clone(r.NotExempt)
	for i := range r.NotExempt {
		r.NotExempt[i].Why, r.NotExempt[i].Elsewhere = []string{withheld}, false
	}
	r.Patch = slices.Clone(r.Patch)
	for i := range r.Patch {
		if r.Patch[i].Value != nil {
			r.Patch[i].Value = withheld
		}
	}
	r.Steps = slices.Clone(r.Steps)
	for i := range r.Steps {
		r.Steps[i].withhold()
	}
	if !r.Matched {
		r.Clause = mask(r.Clause)
	}
}

func (s *Step) withhold() {
	s.Error = mask(s.Error)
	if s.Reading == nil {
		return
	}
	reading := *s.Reading
	reading.Values = slices.Clone(reading.Values)
	for i := range reading.Values {
		if !reading.Values[i].Absent {
			reading.Values[i].Value = withheld
		}
	}
	reading.Expressions = hidden(reading.Expressions)
	s.Reading = &reading
}

// hidden are expressions without values, errors and parts: a part that was not evaluated tells the
// value of another.
func hidden(all []rule.Expression) []rule.Expression {
	told := slices.Clone(all)
	for i := range told {
		e := &told[i]
		if e.Error = mask(e.Error); e.Error == "" {
			e.Value, e.Absent = withheld, false
		}
		e.Parts = nil
	}
	return told
}

func mask(text string) string {
	if text == "" {
		return ""
	}
	return withheld
}
