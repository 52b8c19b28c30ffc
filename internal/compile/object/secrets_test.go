package object_test

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/compile/object"
	"github.com/usher-dev/usher/internal/rule"
)

// TestWhatIsInSecretsIsNotTold: a message with what is in a Secret is read by others than those who may
// read the Secret.
func TestWhatIsInSecretsIsNotTold(t *testing.T) {
	t.Parallel()
	const (
		secrets = "matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [secrets]}]}, "
		pods    = "matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [pods]}]}, "
		every   = "matchConstraints: {resourceRules: [{apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources: ['*']}]}, "
		read    = "data: [{name: db, object: {apiVersion: v1, kind: Secret, name: db}}], "
		message = "spec.validations[0].messageExpression: it can contain what is in a Secret, by "
	)
	saying := func(text string) string {
		return fmt.Sprintf("validations: [{expression: 'object.metadata.name != \"x\"', messageExpression: %q}]", text)
	}
	for _, row := range []struct{ reason, spec, want string }{
		{"a Secret's data", secrets + saying("'not ' + string(object.data.x)"), message + "object.data"},
		{"of before", secrets + saying("'was ' + string(oldObject.data.x)"), message + "oldObject.data"},
		{"as text", secrets + saying("'not ' + object.stringData.x"), message + "object.stringData"},
		{"among others", every + saying("'not ' + string(object.data.x)"), message + "object.data"},
		{"its name", secrets + saying("'not ' + object.metadata.name"), ""},
		{"whether it has data", secrets + saying("has(object.data) ? 'some' : 'none'"), ""},
		{"whether a key exists", secrets + saying("has(object.data.x) ? 'some' : 'none'"), ""},
		{"data of others", pods + saying("'not ' + string(object.data.x)"), ""},
		{"what is read", pods + read + saying("'not ' + data.db.data.password"), message + "data.db"},
		{"through a variable", pods + read + "variables: [{name: p, expression: data.db.data.password}], " + saying("'not ' + variables.p"), message + "data.db"},
		{"through a text made of it", pods + read + "variables: [{name: p, expression: 'string(data.db.data.password)'}, {name: q, expression: \"'x' + variables.p\"}], " + saying("'not ' + variables.q"), message + "data.db"},
		{"through a map", pods + read + "variables: [{name: p, expression: \"{'a': data.db}\"}], " + saying("'not ' + variables.p['a'].data.password"), message + "data.db"},
		{"a variable that is not told", pods + read + "variables: [{name: p, expression: data.db.data.password}, {name: q, expression: object.metadata.name}], " + saying("'not ' + variables.q"), ""},
		{"the name of what is read", pods + read + "variables: [{name: p, expression: data.db}], " + saying("'not ' + variables.p.metadata.name"), ""},
		{"params", pods + "paramKind: {apiVersion: v1, kind: Secret}, bindings: [{paramRef: {name: x, parameterNotFoundAction: Deny}}], " + saying("'not ' + params.data.x"), message + "params.data"},
		{"params that are no Secret", pods + "paramKind: {apiVersion: v1, kind: ConfigMap}, bindings: [{paramRef: {name: x, parameterNotFoundAction: Deny}}], " + saying("'not ' + params.data.x"), ""},
		{"an audit annotation", pods + read + "auditAnnotations: [{key: k, valueExpression: 'string(data.db.data.x)'}]", "spec.auditAnnotations[0].valueExpression: it can contain"},
		{"only the decision", pods + read + "validations: [{expression: 'object.metadata.name == data.db.data.x', message: refused}]", ""},
		{
			"copied into pods", pods + read + "mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: \"Object{metadata: Object.metadata{annotations: {'x': string(data.db.data.x)}}}\"}}]",
			"spec.mutations[0].applyConfiguration.expression: it can contain what is in a Secret, by data.db: anyone who may read the changed object",
		},
		{
			"copied as it is", pods + read + "mutations: [{patchType: JSONPatch, jsonPatch: {expression: \"[JSONPatch{op: 'add', path: '/metadata/annotations', value: data.db.data}]\"}}]",
			"spec.mutations[0].jsonPatch.expression: it can contain",
		},
		{
			"copied into Secrets", secrets + read + "mutations: [{patchType: JSONPatch, jsonPatch: {expression: \"[JSONPatch{op: 'add', path: '/data', value: data.db.data}]\"}}]", "",
		},
		{
			"within the Secret", secrets + "mutations: [{patchType: JSONPatch, jsonPatch: {expression: \"[JSONPatch{op: 'add', path: '/data/y', value: object.data.x}]\"}}]", "",
		},
	} {
		p := &v1alpha1.ClusterObjectPolicy{}
		if err := yaml.UnmarshalStrict([]byte("{"+row.spec+"}"), &p.Spec); err != nil {
			t.Fatalf("%s: %v", row.reason, err)
		}
		_, problems := object.Cluster(t.Context(), p, object.Options{})
		var got []string
		for _, problem := range problems {
			if problem.Severity == rule.Error {
				t.Errorf("%s: %v", row.reason, problem)
			}
			if strings.Contains(problem.What, "in a Secret") {
				got = append(got, problem.Field+": "+problem.What)
			}
		}
		switch {
		case row.want == "" && len(got) > 0, row.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], row.want)):
			t.Errorf("%s: %q, want %q", row.reason, got, row.want)
		}
	}
}

// A policy of a namespace does not act on Secrets, unless the operator says so.
func TestObjectPoliciesTellNothingOfSecretsTheyDoNotSee(t *testing.T) {
	t.Parallel()
	for allowed, warned := range map[string]bool{"": false, "Secret": true} {
		p := &v1alpha1.ObjectPolicy{}
		p.Name, p.Namespace = "p", "team-a"
		text := "{matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: ['*']}]}, validations: [{expression: has(object.data), messageExpression: \"'x' + string(object.data.x)\"}]}"
		if err := yaml.UnmarshalStrict([]byte(text), &p.Spec); err != nil {
			t.Fatal(err)
		}
		options := object.Options{}
		if allowed != "" {
			kinds, err := rule.ParseKinds([]string{allowed})
			if err != nil {
				t.Fatal(err)
			}
			options.Limits.Namespaced.Kinds = kinds
		}
		_, problems := object.Namespaced(t.Context(), p, options)
		if got := fmt.Sprint(problems); strings.Contains(got, "in a Secret") != warned {
			t.Errorf("with --namespaced-kinds=%s: %s", allowed, got)
		}
	}
}
