package celkinds_test

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/convert/kyverno/celkinds"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/policytest"
)

// imported converts objects, separated by lines of dashes.
func imported(t *testing.T, text string, enforce bool) []convert.Import {
	t.Helper()
	var objects []convert.Foreign
	for document := range strings.SplitSeq(text, "\n---\n") {
		objects = append(objects, convert.Foreign{Object: object(t, document), File: "policy.yaml"})
	}
	return celkinds.Policies(t.Context(), objects, celkinds.Options{Kinds: kind.Recorded(), Enforce: enforce})
}

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	var o map[string]any
	if err := yaml.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// documents are the policies of imports, of which none is left out.
func documents(t *testing.T, imports []convert.Import) []map[string]any {
	t.Helper()
	var all []map[string]any
	for _, i := range imports {
		if len(i.Left) > 0 {
			t.Fatal(i.Left)
		}
		written, err := convert.Documents(i.To)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, written...)
	}
	return all
}

const (
	validating = "apiVersion: policies.kyverno.io/v1\nkind: ValidatingPolicy\nmetadata: {name: p}\nspec:\n"
	mutating   = "apiVersion: policies.kyverno.io/v1beta1\nkind: MutatingPolicy\nmetadata: {name: p}\nspec:\n"
	pods       = "  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [pods]}]}\n"
	services   = "  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: [services]}]}\n"
	changes    = "  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}\n"
	holds      = "  validations: [{expression: \"true\"}]\n"
)

// TestConverted converts policies, and compares what they become with texts that it has.
func TestConverted(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason, policy string
		has            []string
		lacks          []string
	}{
		{"Deny warns", validating + changes + holds, []string{"validationActions:\n  - Warn", "- kube-node-lease", "- system:nodes"}, []string{"podTemplates"}},
		{"Audit stays", validating + changes + holds + "  validationActions: [Audit]\n", []string{"validationActions:\n  - Audit"}, []string{"Warn"}},
		{"pods have workloads", validating + pods + "  validations: [{expression: has(object.spec.hostname)}]\n", []string{"podTemplates: Deny"}, nil},
		{"no workloads", validating + pods + holds + "  autogen: {podControllers: {controllers: []}}\n", []string{`podTemplates: "Off"`}, nil},
		{"workloads that do not exist", validating + pods + holds + "  autogen: {podControllers: {controllers: [Deployment]}}\n", []string{`podTemplates: "Off"`}, []string{"p-workloads"}},
		{
			"some workloads", validating + pods + "  validations: [{expression: \"object.spec.hostNetwork == true || object.metadata.namespace == 'a'\"}]\n  autogen: {podControllers: {controllers: [jobs, cronjobs]}}\n",
			[]string{"name: p-workloads", "- jobs", "object.spec.template.spec.hostNetwork", "name: p-cronjobs", "object.spec.jobTemplate.spec.template.spec.hostNetwork == true || object.metadata.namespace == 'a'"}, []string{"deployments"},
		},
		{"what pods of workloads are not", validating + pods + "  validations: [{expression: \"object.kind != 'Pod' || object.spec.hostNetwork\"}]\n", []string{"name: p-workloads", "object.kind != 'Pod' || object.spec.template.spec.hostNetwork"}, []string{"podTemplates: Deny"}},
		{"text that Kyverno does not replace", validating + pods + "  validations: [{expression: \"object.?spec.hostNetwork.orValue(true) == true\"}]\n", []string{"name: p-workloads"}, []string{"podTemplates: Deny", "template.spec"}},
		{
			"templates are changed", mutating + pods + "  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: \"Object{spec: Object.spec{hostNetwork: has(object.spec.hostname)}}\"}}]\n",
			[]string{"name: p-workloads", "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{hostNetwork: has(object.spec.template.spec.hostname)}}}}"}, []string{"podTemplates"},
		},
		{"templates are not changed by patches", mutating + pods + "  mutations: [{patchType: JSONPatch, jsonPatch: {expression: \"[JSONPatch{op: 'add', path: '/spec/hostNetwork', value: false}]\"}}]\n", nil, []string{"p-workloads"}},
		{"templates that Kyverno fails to change", mutating + pods + "  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: \"Object{metadata: Object.metadata{labels: Object.metadata.labels{a: 'b'}}}\"}}]\n", nil, []string{"p-workloads"}},
		{"a variable that is data", validating + changes + "  variables: [{name: cm, expression: \"resource.Get('v1', 'configmaps', 'default', 'x')\"}]\n  validations: [{expression: variables.cm.data.a == 'b'}]\n", []string{"name: cm", "namespace: default", `onMissing: "Null"`, "data.cm.data.a == \"b\""}, []string{"variables"}},
		{"data twice", validating + changes + "  validations: [{expression: \"resource.Get('v1', 'configmaps', 'default', 'x') == resource.Get('v1', 'configmaps', 'default', 'x')\"}]\n", []string{"data.configMap == data.configMap"}, []string{"configMap2"}},
		{"a computed address", validating + changes + "  variables: [{name: team, expression: object.metadata.labels.team}]\n  validations: [{expression: \"resource.get('v1', 'secrets', variables.team, 'a-' + variables.team) != null\"}]\n", []string{"namespaceExpression: object.metadata.labels.team", `nameExpression: '"a-" + object.metadata.labels.team'`}, nil},
		{"the own namespace", validating + changes + "  validations: [{expression: \"resource.get('v1', 'secrets', object.metadata.namespace, 'a') != null\"}]\n", []string{"kind: Secret"}, []string{"namespaceExpression", "namespace:"}},
		{"a list", validating + changes + "  validations: [{expression: \"resource.List('v1', 'pods', '', {'a': 'b'}).items.size() < 3\"}]\n", []string{"name: pods", "namespace: '*'", "matchLabels:\n        a: b", "data.pods.size() < 3"}, nil},
		{"a list as a whole", validating + changes + "  variables: [{name: all, expression: \"resource.List('v1', 'pods', request.namespace)\"}]\n  validations: [{expression: variables.all.items.size() < 3}]\n", []string{`'{"items": data.all}'`, "variables.all.items.size() < 3"}, nil},
		{"objects that may be absent", validating + services + "  validations: [{expression: \"has(oldObject.spec) || has(object.spec)\"}]\n", []string{"expression: 'oldObject == null ? {} : oldObject'", "has(variables.old.spec) || has(variables.new.spec)"}, nil},
		{"objects that are there", validating + changes + "  validations: [{expression: has(object.spec)}]\n", []string{"expression: has(object.spec)"}, []string{"variables"}},
		{"a name of a macro", validating + services + "  validations: [{expression: \"[1].all(object, object == 1)\"}]\n", []string{"[1].all(object, object == 1)"}, []string{"variables"}},
		{"a name that conditions cannot have", validating + changes + holds + "  matchConditions: [{name: 'only this, please', expression: \"true\"}]\n", []string{"name: only-this-please"}, nil},
		{"a policy of a namespace", strings.ReplaceAll(strings.ReplaceAll(validating, "ValidatingPolicy", "NamespacedValidatingPolicy"), "name: p", "name: p, namespace: shop") + changes + "  validations: [{expression: \"resource.Get('v1', 'configmaps', 'a') != null\"}]\n", []string{"kind: ObjectPolicy", "namespace: shop", "name: configMap"}, []string{"namespaceSelector"}},
		{"allowed values", validating + changes + "  validations: [{expression: \"object.data.a in exceptions.allowedValues\"}]\n", []string{"object.data.a in []"}, nil},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			var text strings.Builder
			for _, d := range documents(t, imported(t, row.policy, false)) {
				raw, err := yaml.Marshal(d)
				if err != nil {
					t.Fatal(err)
				}
				text.Write(raw)
			}
			written := inWords(text.String())
			for _, part := range row.has {
				if !strings.Contains(written, inWords(part)) {
					t.Errorf("lacks %q:\n%s", part, text.String())
				}
			}
			for _, part := range row.lacks {
				if strings.Contains(written, inWords(part)) {
					t.Errorf("has %q:\n%s", part, text.String())
				}
			}
		})
	}
}

// inWords is a text without the lines that YAML makes of it.
func inWords(text string) string { return strings.Join(strings.Fields(text), " ") }

// TestLeft has policies that are left out, each with its reason.
func TestLeft(t *testing.T) {
	t.Parallel()
	expression := func(text string) string {
		return validating + changes + fmt.Sprintf("  validations: [{expression: %q}]\n", text)
	}
	for _, row := range []struct{ reason, policy, field, what string }{
		{"JSON", validating + changes + holds + "  evaluation: {mode: JSON}\n", "spec.evaluation.mode", "it is for data of the mode JSON"},
		{"no admission", validating + changes + holds + "  evaluation: {admission: {enabled: false}}\n", "spec.evaluation.admission", "it decides no requests"},
		{"other objects", mutating + changes + "  targetMatchConstraints: {}\n", "spec.targetMatchConstraints", "it changes other objects"},
		{"a field that is not known", validating + changes + holds + "  surprise: 1\n", "spec", `unknown field "surprise"`},
		{"a field within", validating + changes + holds + "  evaluation: {surprise: 1}\n", "spec", `unknown field "surprise"`},
		{"images", expression("image.GetMetadata('a').x == 1"), "spec.validations[0].expression", "it reads images from their registries"},
		{"HTTP", expression("http.Get('https://a').x == 1"), "spec.validations[0].expression", "requests to HTTP services, with http.Get"},
		{"the time", expression("time.now() == object.x"), "spec.validations[0].expression", "the time, with time.now"},
		{"a hash", expression("sha256('a') == object.x"), "spec.validations[0].expression", "hashes, with sha256"},
		{"an object that is written", expression("resource.Post('v1', 'pods', 'a', {}) == null"), "spec.validations[0].expression", "it creates objects, with resource.post"},
		{"a kind that is not known", expression("resource.Get('example.com/v1', 'things', 'a', 'b') == null"), "spec.validations[0].expression", "the kind of the resource things in example.com/v1 is not known"},
		{"a kind that is computed", expression("resource.Get(object.x, 'pods', 'a', 'b') == null"), "spec.validations[0].expression", "is computed"},
		{"an address from data", expression("resource.Get('v1', 'pods', 'a', string(resource.Get('v1', 'pods', 'a', 'b').x)) == null"), "spec.validations[0].expression", "the name of an object that it reads is computed from data"},
		{"an address from a macro", expression("object.x.all(x, resource.Get('v1', 'pods', 'a', x) == null)"), "spec.validations[0].expression", "computed from x"},
		{"a macro of CEL", expression("cel.bind(x, 1, x == 1)"), "spec.validations[0].expression", "cel.bind"},
		{"no expression", expression("object.("), "spec.validations[0].expression", "the expression does not parse"},
		{"a function that does not exist", expression("surprise(1)"), "", "undeclared reference to 'surprise'"},
		{"a variable of itself", validating + changes + "  variables: [{name: a, expression: \"variables.a\"}]\n  validations: [{expression: \"resource.Get('v1', 'pods', 'a', variables.a) == null\"}]\n", "spec.validations[0].expression", "computed from too much"},
		{"another kind", strings.ReplaceAll(validating, "ValidatingPolicy", "GeneratingPolicy"), "", "objects of the kind GeneratingPolicy are not imported"},
		{"an exception to nothing", "apiVersion: policies.kyverno.io/v1\nkind: PolicyException\nmetadata: {name: e, namespace: a}\nspec: {policyRefs: [{name: p, kind: ValidatingPolicy}]}", "spec.policyRefs", "not among the files"},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			all := imported(t, row.policy, false)
			if len(all) != 1 || len(all[0].Left) == 0 || len(all[0].To) > 0 {
				t.Fatalf("it is not left out: %v", all)
			}
			if left := all[0].Left[0]; left.Field != row.field || !strings.Contains(left.What, row.what) {
				t.Errorf("%s: %s", left.Field, left.What)
			}
		})
	}
}

// TestDecides runs policies on requests, as Kyverno decides them.
func TestDecides(t *testing.T) {
	t.Parallel()
	excepted := func(spec string) string {
		return "\n---\napiVersion: policies.kyverno.io/v1\nkind: PolicyException\nmetadata: {name: e, namespace: a}\nspec:\n  policyRefs: [{name: p, kind: ValidatingPolicy}]\n" + spec
	}
	account := validating + changes + "  validations: [{expression: \"parseServiceAccount(request.userInfo.username).Name == 'b:c' && user.parseServiceAccount(request.userInfo.username).Namespace == 'a'\"}]\n"
	registry := func(name string) string {
		return validating + changes + "  validations: [{expression: \"image(object.data.i).registry() == '" + name + "'\"}]\n"
	}
	const labelled = "  validations: [{expression: \"object.metadata.?labels.?a.orValue('') in ['x'] + exceptions.allowedValues\"}]\n"
	configMap := func(more string) string {
		return "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: shop" + more
	}
	for _, row := range []struct {
		reason, policy, object string
		request                policytest.Request
		allowed                bool
	}{
		{"a service account", account, configMap("}}"), policytest.Request{User: user("system:serviceaccount:a:b:c")}, true},
		{"another service account", account, configMap("}}"), policytest.Request{User: user("system:serviceaccount:a:b")}, false},
		{"a user", account, configMap("}}"), policytest.Request{User: user("a:b:c")}, false},
		{"a registry", registry("ghcr.io"), configMap("}, data: {i: ghcr.io/a/b:1}}"), policytest.Request{}, true},
		{"a port", registry("a:5000"), configMap("}, data: {i: 'a:5000/b:1'}}"), policytest.Request{}, true},
		{"localhost", registry("localhost"), configMap("}, data: {i: localhost/b}}"), policytest.Request{}, true},
		{"no registry", registry("index.docker.io"), configMap("}, data: {i: a/b:1}}"), policytest.Request{}, true},
		{"the default registry", registry("index.docker.io"), configMap("}, data: {i: docker.io/a/b}}"), policytest.Request{}, true},
		{"a tag", registry("index.docker.io"), configMap("}, data: {i: 'a:1.2'}}"), policytest.Request{}, true},
		{"an exception", validating + changes + labelled + excepted("  matchConditions: [{name: a, expression: \"object.metadata.name == 'c' // here\"}, {name: b, expression: \"true\"}]\n"), configMap("}}"), policytest.Request{}, true},
		{"an exception for others", validating + changes + labelled + excepted("  matchConditions: [{name: a, expression: \"object.metadata.name == 'd'\"}]\n"), configMap("}}"), policytest.Request{}, false},
		{"a value that an exception allows", validating + changes + labelled + excepted("  allowedValues: [yy, 'it''s']\n"), configMap(", labels: {a: 'it''s'}}}"), policytest.Request{}, true},
		{"a value for others", validating + changes + labelled + excepted("  allowedValues: [yy]\n  matchConditions: [{name: a, expression: \"object.metadata.name == 'd'\"}]\n"), configMap(", labels: {a: yy}}}"), policytest.Request{}, false},
		{"a value that none allows", validating + changes + labelled + excepted("  allowedValues: [yy]\n"), configMap(", labels: {a: z}}}"), policytest.Request{}, false},
		{"a namespace of which Kyverno is not asked", validating + changes + "  validations: [{expression: \"false\"}]\n", "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: kube-system}}", policytest.Request{}, true},
		{"a node", validating + changes + "  validations: [{expression: \"false\"}]\n", configMap("}}"), policytest.Request{User: policytest.User{Name: "system:node:a", Groups: []string{"system:nodes"}}}, true},
		{"an object that is missing", validating + changes + "  validations: [{expression: \"resource.Get('v1', 'secrets', 'a', 'b') == null\"}]\n", configMap("}}"), policytest.Request{}, true},
		{"a value that is not optional", validating + changes + "  validations: [{expression: \"object.metadata.name.orValue('') == 'c'\"}]\n", configMap("}}"), policytest.Request{}, true},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			c := policytest.Case{Name: row.reason, Phase: usher.Validate, Request: row.request, Policies: documents(t, imported(t, row.policy, true))}
			c.Request.Operation, c.Request.Object = usher.Create, object(t, row.object)
			metadata, _ := c.Request.Object["metadata"].(map[string]any)
			c.Request.Namespace, _ = metadata["namespace"].(string)
			c.Objects = []map[string]any{{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": c.Request.Namespace, "labels": map[string]any{"kubernetes.io/metadata.name": c.Request.Namespace}}}}
			c.Expect = &policytest.Expect{Allowed: &row.allowed, NoMatch: row.allowed && strings.Contains(row.reason, "Kyverno") || row.reason == "a node" || row.reason == "an exception"}
			if result := c.Run(t.Context()); result.Status != policytest.Passed {
				t.Error(result.Message)
			}
		})
	}
}

func user(name string) policytest.User { return policytest.User{Name: name} }

// TestHostile has expressions that are large or deep: they are left out.
func TestHostile(t *testing.T) {
	t.Parallel()
	for reason, text := range map[string]string{
		"parentheses": strings.Repeat("(", 5000) + "1" + strings.Repeat(")", 5000),
		"a long text": "'" + strings.Repeat("x", 100_000) + "' == ''",
		"selections":  "object" + strings.Repeat(".a", 9_000),
		"lists":       strings.Repeat("[", 3000) + strings.Repeat("]", 3000),
		"conditions":  strings.Repeat("true ? true : ", 1000) + "true",
		"controls":    "'\x1b[2J' == ''\x00",
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			policy := object(t, validating+changes+holds)
			spec, _ := policy["spec"].(map[string]any)
			spec["validations"] = []any{map[string]any{"expression": text}}
			all := celkinds.Policies(t.Context(), []convert.Foreign{{Object: policy}}, celkinds.Options{Kinds: kind.Recorded()})
			if len(all) != 1 || len(all[0].Left) == 0 {
				t.Errorf("it is converted: %.200v", all)
			}
		})
	}
}

// TestPartial: with Partial, validations that cannot be converted are missing, unless something else cannot be.
func TestPartial(t *testing.T) {
	t.Parallel()
	const good, bad = "{expression: has(object.data)}", "{expression: \"http.Get('https://a.example') == ''\"}"
	for _, row := range []struct {
		reason, spec string
		validations  int
		missing      string
	}{
		{"one is missing", "  validations: [" + good + ", " + bad + ", " + good + "]\n", 2, "spec.validations[1].expression"},
		{"nothing remains", "  validations: [" + bad + "]\n", 0, ""},
		{"a variable, too", "  variables: [{name: a, expression: \"http.Get('https://a.example')\"}]\n  validations: [" + good + ", " + bad + "]\n", 0, ""},
	} {
		i := celkinds.Policies(t.Context(), []convert.Foreign{{Object: object(t, validating+changes+row.spec)}}, celkinds.Options{Kinds: kind.Recorded(), Partial: true})[0]
		if row.validations == 0 {
			if len(i.To) > 0 || len(i.Left) == 0 || len(i.Missing) > 0 {
				t.Errorf("%s: %v, missing %v", row.reason, i.Left, i.Missing)
			}
			continue
		}
		if len(i.Missing) != 1 || i.Missing[0].Field != row.missing {
			t.Errorf("%s: missing %v, left %v", row.reason, i.Missing, i.Left)
		}
		spec := documents(t, []convert.Import{i})[0]["spec"].(map[string]any)
		if all, _ := spec["validations"].([]any); len(all) != row.validations || !strings.Contains(fmt.Sprint(spec["description"]), "* "+row.missing+": ") {
			t.Errorf("%s: %v", row.reason, spec)
		}
	}
}

// The kind says whether a policy is one of a namespace, whatever namespace its text has.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	for text, expected := range map[string]string{
		strings.Replace(validating, "{name: p}", "{name: p, namespace: team}", 1):                                          "ClusterObjectPolicy ",
		strings.Replace(validating, "kind: V", "kind: NamespacedV", 1):                                                     "ObjectPolicy default",
		strings.NewReplacer("kind: V", "kind: NamespacedV", "{name: p}", "{name: p, namespace: team}").Replace(validating): "ObjectPolicy team",
	} {
		for _, d := range documents(t, imported(t, text+services+holds, true)) {
			metadata, _ := d["metadata"].(map[string]any)
			namespace, _ := metadata["namespace"].(string)
			if got := fmt.Sprint(d["kind"], " ", namespace); got != expected {
				t.Errorf("%s: %q, expected %q", text, got, expected)
			}
		}
	}
}
