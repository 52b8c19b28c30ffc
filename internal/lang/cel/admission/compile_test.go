package admission_test

import (
	"strings"
	"testing"

	"github.com/usher-dev/usher/internal/lang/cel/admission"
)

func TestPanicsOfTheCompilerAreProblems(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"[?object.spec] == []", "{?'a': object.spec} == {}"} {
		_, problems := admission.Compile(admission.Code{Validations: []admission.Validation{{Expression: text}, {Expression: "nothing"}}})
		if len(problems) != 2 || problems[0].Field != "spec.validations[0].expression" || !strings.Contains(problems[1].What, "undeclared reference") {
			t.Errorf("%s: %v", text, problems)
		}
	}
}

// TestMisspelledFunctions are told with the function that is meant, macros and methods too.
func TestMisspelledFunctions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ expression, do string }{
		{"object.metadata.name.startWith('a')", "did you mean startsWith?"},
		{"object.spec.containers.al(c, c.name != '')", "did you mean all?"},
		{"quantitiy('1') == quantity('1')", "did you mean quantity?"},
		{"object.metadata.labels.orElse({}) == {}", "select the field with .? or [?], and write object.spec.?paused.orValue(false)"},
		{"object.spec.?replicas.isPresent()", "select the field with .? or [?], and write object.spec.?paused.hasValue()"},
		{"frobnicate(object)", "see docs/cel.md for the functions that there are"},
		{strings.Repeat("startsWith", 1000) + "(object)", "see docs/cel.md for the functions that there are"},
	} {
		_, problems := admission.Compile(admission.Code{Validations: []admission.Validation{{Expression: test.expression}}})
		if len(problems) == 0 {
			t.Errorf("%.50s: no problem", test.expression)
			continue
		}
		if p := problems[0]; !strings.Contains(p.What, "undeclared reference") || p.Do != test.do {
			t.Errorf("%.50s: %.200s: %s", test.expression, p.What, p.Do)
		}
	}
}

func TestOptionalsWithoutOrValue(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{
		"object.metadata.?labels.?app == 'web'", "object.metadata.?labels.?app.startsWith('a')", "!object.spec.?hostNetwork", "object.spec.?hostNetwork",
		"object.spec.?a && true", "size(object.spec.?a) > 1", "object.spec.?containers.all(c, true)", "'a' in object.spec.?list",
	} {
		_, problems := admission.Compile(admission.Code{Validations: []admission.Validation{{Expression: expression}}})
		if len(problems) != 1 || problems[0].Do != admission.AdviceForOptional {
			t.Errorf("%s: %v", expression, problems)
		}
	}
}

// TestFunctionsOfOptionals: who calls them on a value that always is there learns how to select one that may be absent.
func TestFunctionsOfOptionals(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{"object.spec.replicas.or(1) == 1", "(1 + 1).orValue(2) == 2", "'a'.hasValue()", "1.value() == 1"} {
		_, problems := admission.Compile(admission.Code{Validations: []admission.Validation{{Expression: expression}}})
		if len(problems) != 1 || problems[0].Do != admission.AdviceForValue {
			t.Errorf("%s: %v", expression, problems)
		}
	}
}

// TestOperatorsOfOtherLanguages: an expression that is no CEL gets the words that are.
func TestOperatorsOfOtherLanguages(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		"object.a => object.b":          "!(a) || b",
		"object.a and object.b":         "&&",
		"not object.a":                  "&&",
		"object.a = 'x'":                "==",
		"object.a == 'b' & object.c":    "&& and ||",
		"object.a =~ 'x'":               "matches",
		"object.a ?? 1 > 1":             ".orValue(",
		"object?.a == 1":                ".orValue(",
		"object.a == 'not => and' )":    "correct the expression",
		"object.a == 'x' || object.b (": "correct the expression",
	} {
		_, problems := admission.Compile(admission.Code{Validations: []admission.Validation{{Expression: expression}}})
		if len(problems) != 1 || !strings.Contains(problems[0].Do, want) {
			t.Errorf("%s: %v, want one with %q", expression, problems, want)
		}
	}
}
