package assist_test

import (
	"strings"
	"testing"

	"github.com/usher-dev/usher/internal/assist"
	"github.com/usher-dev/usher/internal/check"
	"github.com/usher-dev/usher/internal/compile/bounded"
	"github.com/usher-dev/usher/internal/trial"
)

// TestDiagnostics: what is wrong, which part of the text that is, and what corrects it.
func TestDiagnostics(t *testing.T) {
	t.Parallel()
	try := trial.New(trial.Options{})
	service := assist.New(assist.Options{Checker: func() assist.Checker { return check.NewSession(bounded.Compiler{}, try) }})
	const bound = "  bindings: [{name: all}]\n"
	plain, _, _ := strings.Cut(head, "  paramKind")
	for _, test := range []struct{ reason, text, message, of, insert string }{
		{"an unknown field", plain + "  failurePolcy: Fail\n  validations: [{expression: 'true'}]\n" + bound, "failurePolcy", "failurePolcy", "failurePolicy"},
		{"a misspelled field of an object", plain + "  validations: [{expression: object.spec.hostNetwrk == true}]\n" + bound, "hostNetwrk", "hostNetwrk", "hostNetwork"},
		{"in a block", plain + "  validations:\n  - expression: |\n      true &&\n      object.spec.hostNetwrk == true\n" + bound, "hostNetwrk", "hostNetwrk", "hostNetwork"},
		{"a syntax error", plain + "  validations: [{expression: object.spec ==}]\n" + bound, "Syntax error", "}", ""},
		{"a value", plain + "  failurePolicy: Fial\n  validations: [{expression: 'true'}]\n" + bound, "Fial", "Fial", "Fail"},
		{"the case of a value", plain + "  podTemplates: deny\n  validations: [{expression: 'true'}]\n" + bound, `"deny"`, "deny", "Deny"},
		{"the case of a value that its key begins with", plain + "  failurePolicy: fail\n  validations: [{expression: 'true'}]\n" + bound, `"fail"`, "fail", "Fail"},
		{"the case of a value in quotes", plain + "  failurePolicy: \"ignore\"\n  validations: [{expression: 'true'}]\n" + bound, `"ignore"`, "ignore", "Ignore"},
		{"the case of a value in a list", plain + "  validations: [{expression: 'true'}]\n  bindings: [{name: deny, validationActions: [Audit, deny]}]\n", `"deny"`, "deny", "Deny"},
		{"the case of an operation", strings.Replace(plain, "[CREATE", "[create", 1) + "  validations: [{expression: 'true'}]\n" + bound, `"create"`, "create", "CREATE"},
		{"the operation of a rule", "apiVersion: policy.kcloudlabs.io/v1alpha1\nkind: ClusterValidatePolicy\nmetadata: {name: a}\nspec:\n  validateRules:\n  - targetOperations:\n    - update\n    cue: 'validate: valid: true'\n", `"update"`, "update", "UPDATE"},
		{"a value that is like none", plain + "  failurePolicy: Perhaps\n  validations: [{expression: 'true'}]\n" + bound, "Perhaps", "failurePolicy", ""},
		{"a kind", "apiVersion: usher.dev/v1alpha1\nkind: ObjectPolcy\n", "ObjectPolcy", "kind: ObjectPolcy", ""},
		{"an item of a list", "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(plain+"  typo: 1\n", "\n", "\n  ") + "\n", "typo", "typo", ""},
		{"no YAML", "kind: [\n", "parse YAML", "", ""},
	} {
		found, err := service.File("a.yaml").Check(t.Context(), test.text)
		if err != nil {
			t.Fatal(err)
		}
		ok := false
		var all []string
		for _, d := range found {
			of := test.text[d.From:d.To]
			all = append(all, d.Message+" in "+of)
			insert := ""
			if d.Fix != nil {
				insert = d.Fix.Insert
			}
			ok = ok || strings.Contains(d.Message, test.message) && (of == test.of || test.of == "") && insert == test.insert
		}
		if !ok {
			t.Errorf("%s: want %q in %q, corrected by %q: %s", test.reason, test.message, test.of, test.insert, strings.Join(all, "\n"))
		}
	}
}

func TestDefinition(t *testing.T) {
	t.Parallel()
	service := assist.New(assist.Options{})
	for _, test := range []struct{ reason, text, of string }{
		{"a variable", head + "  validations: [{expression: variables.cont│ainers == null}]", "containers"},
		{"data", head + "  validations: [{expression: data.qu│ota == null}]", "quota"},
		{"params", head + "  validations: [{expression: par│ams == null}]", "paramKind"},
		{"a field", head + "  validations: [{expression: object.sp│ec == null}]", ""},
		{"no variable", head + "  validations: [{expression: variables.non│e == null}]", ""},
		{"params that a binding names", head + "  bindings:\n  - paramRef: {name: lim│its}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: limits}\n", "limits"},
		{"itself", head + "  bindings: [{paramRef: {name: │a}}]\n", ""},
	} {
		text, offset := cut(t, test.text)
		at, ok := service.Definition(text, offset)
		if got := text[at.From:at.To]; got != test.of || ok != (test.of != "") || ok && at.From == offset {
			t.Errorf("%s: %q, want %q", test.reason, got, test.of)
		}
	}
}
