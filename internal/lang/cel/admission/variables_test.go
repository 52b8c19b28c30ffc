package admission_test

import (
	"strings"
	"testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
)

// TestVariablesSeeThoseBefore has variables read the map of all variables. In API servers one that reads
// itself in this way ends the process.
func TestVariablesSeeThoseBefore(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason    string
		variables []admission.Named
		// message is a part of what the validation says, empty if it holds.
		message string
	}{
		{"one before", []admission.Named{{"a", "1"}, {"x", "dyn(variables).a"}}, ""},
		{"itself", []admission.Named{{"a", "1"}, {"x", "dyn(variables).x"}}, "no such key: x"},
		{"itself, if there is such", []admission.Named{{"a", "1"}, {"x", "dyn(variables).?x.orValue(1)"}}, ""},
		{"a later one", []admission.Named{{"x", "dyn(variables).a"}, {"a", "1"}}, "no such key: a"},
		{"one that reads it", []admission.Named{{"x", "dyn(variables).a"}, {"a", "dyn(variables).x"}}, "no such key: a"},
		{"one of its name before", []admission.Named{{"x", "1"}, {"a", "2"}, {"x", "variables.x"}}, ""},
	} {
		p := compiled(t, admission.Code{Variables: row.variables, Validations: []admission.Validation{{Expression: "variables.x == 1"}}})
		in := &admission.Input{Request: &usher.Request{Phase: usher.Validate, Operation: usher.Create}, Facts: &fact.Known{}, Object: map[string]any{}}
		result, err := p.Evaluate(t.Context(), in)
		switch {
		case err != nil:
			t.Errorf("%s: %v", row.reason, err)
		case row.message == "" && len(result.Denials) > 0:
			t.Errorf("%s: %+v", row.reason, result)
		case row.message != "" && (len(result.Denials) != 1 || !strings.Contains(result.Denials[0].Message, row.message)):
			t.Errorf("%s: %+v, expected %q", row.reason, result, row.message)
		}
	}
}
