package admission_test

import (
	"strings"
	"testing"

	"github.com/usher-dev/usher/lang/cel/admission"
)

func TestPanicsOfTheCompilerAreProblems(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"[?object.spec] == []", "{?'a': object.spec} == {}"} {
		_, problems := admission.Compile(admission.Source{Validations: []admission.Validation{{Expression: text}, {Expression: "nothing"}}})
		if len(problems) != 2 || problems[0].Field != "spec.validations[0].expression" || !strings.Contains(problems[1].What, "undeclared reference") {
			t.Errorf("%s: %v", text, problems)
		}
	}
}
