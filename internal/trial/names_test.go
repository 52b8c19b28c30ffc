package trial_test

import (
	"strings"
	"testing"

	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/trial"
)

// TestNames: names of params, namespaces and kinds that do not exist are told with the one that is meant.
func TestNames(t *testing.T) {
	t.Parallel()
	const before = `apiVersion: usher.dev/v1alpha1
kind: ObjectPolicy
metadata: {name: p, namespace: team-a}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
`
	const teams = "bindings: [{name: a, params: {teams: [x], most: 1}}]\n  "
	for _, row := range []struct {
		reason, spec string
		// told is empty if nothing is to be told.
		field, told string
	}{
		{"a similar param", teams + `validations: [{expression: "object.metadata.name in params.team", message: m}]`, "spec.validations[0].expression", "no binding has the param team, so that reading it fails; did you mean params.teams?"},
		{"by its key", teams + `validations: [{expression: "object.metadata.name in params['team']", message: m}]`, "spec.validations[0].expression", "did you mean params.teams?"},
		{"of another name", teams + `validations: [{expression: "params.owners.size() > 0", message: m}]`, "spec.validations[0].expression", "the params in place are most, teams"},
		{"in a variable", teams + `variables: [{name: v, expression: params.team}]` + "\n  " + `validations: [{expression: "object.metadata.name in variables.v", message: m}]`, "spec.variables[0].expression", "did you mean params.teams?"},
		{"a param that is asked for", teams + `validations: [{expression: "!has(params.team) || object.metadata.name in params.team", message: m}]`, "", ""},
		{"an optional param", teams + `validations: [{expression: "object.metadata.name in params.?team.orValue([])", message: m}]`, "", ""},
		{"a param that is asked for by its key", teams + `validations: [{expression: "!('team' in params) || object.metadata.name in params.team", message: m}]`, "", ""},
		{"a param of one binding", `bindings: [{name: a, params: {teams: [x]}}, {name: b, params: {team: [x]}}]` + "\n  " + `validations: [{expression: "!has(params.team) || object.metadata.name in params.team", message: m}]`, "", ""},

		{"another namespace", `validations: [{expression: "request.namespace == 'team-b' || has(object.data)", message: m}]`, "spec.validations[0].expression", "the policy is for objects of the namespace team-a: their namespace is never team-b"},
		{"another namespace alone", `validations: [{expression: "'team-b' != object.metadata.namespace", message: m}]`, "spec.validations[0].expression", "their namespace is never team-b"},
		{"other namespaces", `validations: [{expression: "!(namespaceObject.metadata.name in ['b', 'c']) || has(object.data)", message: m}]`, "spec.validations[0].expression", "their namespace is never b, c"},
		{"in a condition", `matchConditions: [{name: c, expression: "request.namespace == 'team-b'"}]` + "\n  " + `validations: [{expression: "has(object.data)", message: m}]`, "spec.matchConditions[0].expression", "their namespace is never team-b"},
		{"the own namespace", `validations: [{expression: "request.namespace == 'team-a' && has(object.data)", message: m}]`, "", ""},
		{"the own namespace among others", `validations: [{expression: "request.namespace in ['team-b', 'team-a'] && has(object.data)", message: m}]`, "", ""},
		{"names that are not known", `validations: [{expression: "request.namespace in ['team-b', request.name] || has(object.data)", message: m}]`, "", ""},
		{"what is no namespace", `validations: [{expression: "object.metadata.name == 'team-b' || has(object.data)", message: m}]`, "", ""},

		{"a kind that does not exist", `data: [{name: s, object: {apiVersion: v1, kind: ConfigMapz, name: x}}]` + "\n  " + `validations: [{expression: "has(data.s.data)", message: m}]`, "spec.data[0].object", "has no kind ConfigMapz in v1; did you mean kind: ConfigMap?"},
		{"a list of what does not exist", `data: [{name: s, list: {apiVersion: v1, kind: ConfigMapz}}]` + "\n  " + `validations: [{expression: "data.s.size() > 0", message: m}]`, "spec.data[0].list", "did you mean kind: ConfigMap?"},
		{"an object in no namespace", `data: [{name: s, object: {apiVersion: v1, kind: Node, name: x}}]` + "\n  " + `validations: [{expression: "has(data.s.spec)", message: m}]`, "spec.data[0].object.kind", "objects of the kind Node are in no namespace, and a policy of namespace team-a reads objects of that namespace only"},
		{"a list of what is in no namespace", `data: [{name: s, list: {apiVersion: v1, kind: Namespace}}]` + "\n  " + `validations: [{expression: "data.s.size() > 0", message: m}]`, "spec.data[0].list.kind", "objects of the kind Namespace are in no namespace"},
		{"another Namespace", `data: [{name: s, object: {apiVersion: v1, kind: Namespace, name: team-b}}]` + "\n  " + `validations: [{expression: "has(data.s.metadata.labels)", message: m}]`, "spec.data[0].object.kind", "objects of the kind Namespace are in no namespace"},
		{"params in no namespace", "paramKind: {apiVersion: v1, kind: Node}\n  bindings: [{paramRef: {name: x, parameterNotFoundAction: Deny}}]\n  " + `validations: [{expression: "has(params.spec)", message: m}]`, "spec.paramKind.kind", "objects of the kind Node are in no namespace"},
		{"its own Namespace", `data: [{name: s, object: {apiVersion: v1, kind: Namespace, name: team-a}}]` + "\n  " + `validations: [{expression: "has(data.s.metadata.labels)", message: m}]`, "", ""},
		{"the Namespace of the object", `data: [{name: s, object: {apiVersion: v1, kind: Namespace, nameExpression: object.metadata.namespace}}]` + "\n  " + `validations: [{expression: "has(data.s.metadata.labels)", message: m}]`, "", ""},
		{"data that may be null", `data: [{name: s, onMissing: "Null", object: {apiVersion: v1, kind: ConfigMap, name: x}}]` + "\n  " + `validations: [{expression: "data.s.data.size() > 0", message: m}]`, "spec.validations[0]", "while the data do not exist, every ConfigMap would be refused"},
		{"data that are asked for", `data: [{name: s, onMissing: "Null", object: {apiVersion: v1, kind: ConfigMap, name: x}}]` + "\n  " + `validations: [{expression: "data.s == null || has(data.s.data)", message: m}]`, "", ""},
		{"a list with objects that lack a field", `data: [{name: s, list: {apiVersion: v1, kind: ConfigMap}}]` + "\n  " + `validations: [{expression: "!data.s.exists(o, o.data.host == object.metadata.name)", message: m}]`, "spec.validations[0]", "while data.s has an object without optional fields, every ConfigMap would be refused, because the rule fails"},
		{"a list with an object that lacks a field", `data: [{name: s, list: {apiVersion: v1, kind: ConfigMap}}]` + "\n  " + `validations: [{expression: "!data.s.exists(o, has(object.immutable) && o.metadata.name == object.data.host)", message: m}]`, "spec.validations[0]", "would be refused, because the rule fails"},
		{"an empty list", `data: [{name: s, list: {apiVersion: v1, kind: ConfigMap}}]` + "\n  " + `validations: [{expression: "data.s[0].metadata.name == object.metadata.name", message: m}]`, "spec.validations[0]", "while data.s has no objects, every ConfigMap that it was tried on would be refused"},
		{"a list whose fields are asked for", `data: [{name: s, list: {apiVersion: v1, kind: ConfigMap}}]` + "\n  " + `validations: [{expression: "!data.s.exists(o, o.metadata.uid != object.metadata.?uid.orValue('') && o.?data.host.orValue('') == object.metadata.name)", message: m}]`, "", ""},
		{"data without which it fails", `data: [{name: s, object: {apiVersion: v1, kind: ConfigMap, name: x}}]` + "\n  " + `validations: [{expression: "has(data.s.data)", message: m}]`, "", ""},
	} {
		report := trial.New(trial.Options{}).Try(t.Context(), compiled(t, before+"  "+row.spec+"\n"))
		var field, told string
		for _, p := range report.Problems {
			if field == "" || strings.Contains(p.What+"; "+p.Do, row.told) {
				field, told = p.Field, p.What+"; "+p.Do
			}
		}
		if field != row.field || !strings.Contains(told, row.told) {
			t.Errorf("%s: told of %q: %q, expected %q: %q", row.reason, field, told, row.field, row.told)
		}
		if len(report.Problems) > 1 {
			t.Errorf("%s: told more than once: %v", row.reason, report.Problems)
		}
		if wrong := rule.Errors(report.Problems); len(wrong) > 0 && !strings.Contains(row.told, "params") && !strings.Contains(row.told, "in no namespace") {
			t.Errorf("%s: %v is no mistake", row.reason, wrong)
		}
	}
}
