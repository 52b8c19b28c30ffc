package admission_test

import (
	"strings"
	"testing"

	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/rule"
)

// TestFieldsOfOptionalVariables: API servers find no fields in variables with optional values, and
// their type checker permits them.
func TestFieldsOfOptionalVariables(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason, variable, expression string
		warned                       bool
	}{
		{"an optional field", "object.?metadata.?labels", "variables.x.?app.orValue('') == 'web'", true},
		{"an optional index", "object.?metadata.?labels", "variables.x[?'app'].orValue('') == 'web'", true},
		{"a field", "object.?metadata.?labels", "variables.x.app == 'web'", true},
		{"a field of a field", "object.?metadata", "variables.x.?labels.?app.orValue('') == 'web'", true},
		{"the value", "object.?metadata.?labels", "variables.x.orValue({}).?app.orValue('') == 'web'", false},
		{"whether it has one", "object.?metadata.?labels", "variables.x.hasValue()", false},
		{"a variable with a value", "object.?metadata.?labels.orValue({})", "variables.x.?app.orValue('') == 'web'", false},
		{"an optional field of the object", "object.metadata", "object.?metadata.?labels.?app.orValue('') == 'web'", false},
	} {
		_, problems := admission.Compile(admission.Code{
			Variables:   []admission.Named{{Name: "x", Expression: test.variable}},
			Validations: []admission.Validation{{Expression: test.expression}},
		})
		warned := len(problems) == 1 && problems[0].Severity == rule.Warning && strings.HasPrefix(problems[0].What, "the value of variables.x is optional")
		if warned != test.warned || !warned && len(problems) > 0 {
			t.Errorf("%s: %v", test.reason, problems)
		}
	}
}

// TestPatternsThatMatchNothing: an expression with such a pattern compiles, with a warning.
func TestPatternsThatMatchNothing(t *testing.T) {
	t.Parallel()
	_, problems := admission.Compile(admission.Code{Validations: []admission.Validation{{Expression: "object.spec.containers.all(c,\n  c.image.matches('a^'))"}}})
	if len(problems) != 1 || problems[0].Severity != rule.Warning || problems[0].Field != "spec.validations[0].expression" || problems[0].At.Line != 2 || problems[0].At.Column != 19 {
		t.Errorf("%v", problems)
	}
}
