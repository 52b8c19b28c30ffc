package trial_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule"
)

// admissionPolicy makes a policy for resources, such as "v1 pods" and "apps/v1 deployments".
func admissionPolicy(t *testing.T, resources []string, spec map[string]any) compile.Compiled {
	t.Helper()
	var rules []any
	for _, resource := range resources {
		gv, name, _ := strings.Cut(resource, " ")
		group, version, grouped := strings.Cut(gv, "/")
		if !grouped {
			group, version = "", gv
		}
		rules = append(rules, map[string]any{"apiGroups": []any{group}, "apiVersions": []any{version}, "operations": []any{"*"}, "resources": []any{name}})
	}
	spec["matchConstraints"] = map[string]any{"resourceRules": rules}
	raw, err := json.Marshal(map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": map[string]any{"name": "p"}, "spec": spec,
	})
	if err != nil {
		t.Fatal(err)
	}
	return compiled(t, string(raw))
}

func validations(expressions ...string) map[string]any {
	var all []any
	for _, e := range expressions {
		all = append(all, map[string]any{"expression": e})
	}
	return map[string]any{"validations": all}
}

// ofTypes returns the problems with types, without those with the objects that policies are tried on.
func ofTypes(problems []rule.Problem) []rule.Problem {
	return slices.DeleteFunc(problems, func(p rule.Problem) bool {
		return strings.Contains(p.What, "would be refused") || strings.Contains(p.What, "was tried on")
	})
}

const (
	podsOnly  = "v1 pods"
	gadgets   = "example.com/v1 gadgets"
	workloads = "v1 pods, apps/v1 deployments, apps/v1 statefulsets, batch/v1 jobs, batch/v1 cronjobs"
)

// TestTypesThatFit: nothing is said of expressions that work for some object of each kind.
func TestTypesThatFit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ reason, resources, expression string }{
		{"presence", podsOnly, "!has(object.spec.volumes) || object.spec.volumes.all(v, !has(v.hostPath))"},
		{"optional selection", podsOnly, "object.spec.?securityContext.?runAsNonRoot.orValue(false) == true"},
		{"optional index", podsOnly, "object.metadata.?annotations[?'a/b'].orValue('') == 'x'"},
		{"optional element", podsOnly, "object.spec.?containers[?0].?name.value() == 'x'"},
		{"optional of another type", podsOnly, "object.spec.?priority.orValue('none') == 'none'"},
		{"optional list", podsOnly, "object.spec.?volumes.orValue([]).all(v, !has(v.hostPath))"},
		{"dynamic index of a map", podsOnly, "object.metadata.labels[object.metadata.name] == 'x'"},
		{"dynamic index of an object", podsOnly, "['spec', 'status'].all(f, object[f] != null)"},
		{"constant index of an object", podsOnly, "object['spec']['containers'].size() > 0"},
		{"keys of an object", podsOnly, "object.spec.all(k, k != 'hostNetwork')"},
		{"keys and values of an object", podsOnly, "object.metadata.all(k, v, k != 'x' || v == 'y')"},
		{"size of an object", podsOnly, "object.spec.size() > 1 && size(object.metadata) > 1"},
		{"key in an object", podsOnly, "'hostNetwork' in object.spec"},
		{"variable key in an object", podsOnly, "['hostNetwork', 'hostPID'].all(k, !(k in object.spec))"},
		{"object equals map", podsOnly, "object.spec.securityContext == {}"},
		{"objects of different types", podsOnly, "object.spec != object.metadata"},
		{"null", podsOnly, "object.spec.priority != null && object.spec.containers != null && object.metadata.labels != null && null != object.metadata.name"},
		{"object that may be null", podsOnly, "object == null || oldObject == null || object.spec == oldObject.spec"},
		{"sum of lists of different objects", podsOnly, "(object.spec.containers + object.spec.?initContainers.orValue([]) + object.spec.?ephemeralContainers.orValue([])).all(c, c.image != '')"},
		{"list of lists", podsOnly, "[object.spec.containers, object.spec.initContainers].all(l, l.size() < 9)"},
		{"literals of different types", podsOnly, "[object.metadata.name, object.spec.priority].size() == 2 && {'a': object.spec.priority, 'b': object.metadata.name}.size() == 2"},
		{"choice of different types", podsOnly, "(has(object.spec.priority) ? object.spec.priority : 'none') != 'none'"},
		{"type", podsOnly, "type(object.metadata.name) == string && type(object.spec) == map"},
		{"dyn", podsOnly, "dyn(object.spec.priority) == 'x'"},
		{"whole number and fraction", podsOnly, "object.spec.priority < 1.5 && object.spec.priority == 2.0 && 2.0 in [object.spec.priority]"},
		{"conversion", podsOnly, "double(object.spec.priority) * 1.5 > 2.0 && string(object.spec.priority) == '1'"},
		{"moment", podsOnly, "timestamp(object.metadata.creationTimestamp) > timestamp('2020-01-01T00:00:00Z')"},
		{"moment as text", podsOnly, "object.metadata.creationTimestamp.startsWith('2020')"},
		{"bytes as text", "v1 secrets", "object.data.all(k, object.data[k].size() < 100)"},
		{"quantity", podsOnly, "object.spec.containers.all(c, quantity(c.resources.limits.memory).isLessThan(quantity('4Gi')) && c.resources.limits['cpu'] == '1')"},
		{"resource with a domain", podsOnly, "object.spec.containers.all(c, !('nvidia.com/gpu' in c.resources.limits))"},
		{"number or text", podsOnly, "object.spec.containers.all(c, c.livenessProbe.httpGet.port == 80 || c.livenessProbe.httpGet.port == 'http')"},
		{"keyword", podsOnly, "object.metadata.namespace == 'shop' && has(object.metadata.namespace)"},
		{"two variables", podsOnly, "object.metadata.labels.all(k, v, v != '') && object.spec.containers.exists(i, c, i == 0 && c.name == 'x')"},
		{"transformed maps", podsOnly, "object.metadata.labels.transformList(k, v, k + v).size() > 0 && object.metadata.labels.transformMap(k, v, v + 'x')['a'] == 'bx'"},
		{"mapped", podsOnly, "object.spec.containers.map(c, c.image).all(i, i.startsWith('x'))"},
		{"mapped with a condition", podsOnly, "object.spec.containers.map(c, has(c.ports), c.ports[0].containerPort).exists(p, p < 1024)"},
		{"sets", podsOnly, "sets.intersects(object.metadata.finalizers, ['a']) && sets.contains(object.spec.containers.map(c, c.name), ['a'])"},
		{"sorted", podsOnly, "object.spec.containers.map(c, c.name).isSorted()"},
		{"decided by other operands", podsOnly, "true || object.spec.nothing == 1"},
		{"user and namespace", podsOnly, "request.userInfo.groups.exists(g, g == namespaceObject.metadata.labels['team'])"},
		{"authorizer", podsOnly, "authorizer.group('').resource('pods').namespace(object.metadata.namespace).check('get').allowed() && authorizer.requestResource.check('x').allowed()"},
		{"variable called as a field", podsOnly, "object.spec.containers.all(object, object.name != 'kind')"},
		{"status", podsOnly, "object.status.phase != 'Failed'"},
		{"recursive schema", "apiextensions.k8s.io/v1 customresourcedefinitions", "object.spec.versions.all(v, v.schema.openAPIV3Schema.properties['spec'].properties['a'].items != null)"},

		{"fraction", gadgets, "object.spec.ratio < 1 && object.spec.ratio == 1 && object.spec.ratio == 0.5 && 1 in object.spec.limits"},
		{"fraction in operators", gadgets, "object.spec.ratio * 2.0 > 1.0 && double(object.spec.ratio) + 1.0 > 2.0"},
		{"number or text of a custom kind", gadgets, "object.spec.port == 80 || object.spec.port == 'http' || object.spec.port > 1"},
		{"unknown fields", gadgets, "object.spec.anything.whatever.more == 1 && object.spec.raw.x.y == 'z' && object.spec.raw[0] == 1"},
		{"embedded resource", gadgets, "object.spec.template.metadata.name == 'x' && object.spec.template.kind == 'Pod' && object.spec.template.spec.x == 1"},
		{"dashed name", gadgets, "object.spec['x-kubernetes-name'] == 'a' && has(object.spec['x-kubernetes-name'].size) || true"},
		{"keyword as a field", gadgets, "object.spec.namespace == 'a'"},
		{"nullable", gadgets, "object.spec.maybe == null || object.spec.maybe == 'x'"},
		{"metadata of a custom kind", gadgets, "object.metadata.labels['a'] == 'b' && object.metadata.generation > 1"},
		{"map of a custom kind", gadgets, "object.spec.weights.all(k, object.spec.weights[k] > 1)"},

		{"kind", workloads, "object.kind != 'Pod' || object.spec.containers.size() > 0"},
		{"kind in a choice", workloads, "object.kind == 'Pod' ? object.spec.containers.size() > 0 : object.kind == 'CronJob' ? object.spec.jobTemplate.spec.template.spec.containers.size() > 0 : object.spec.template.spec.containers.size() > 0"},
		{"kind in a list", workloads, "!(object.kind in ['Deployment', 'StatefulSet']) || object.spec.replicas < 5"},
		{"kind by its text", workloads, "!object.kind.matches('^(Deployment|StatefulSet)$') || object.spec.replicas < 5"},
		{"kind of the request", workloads, "request.kind.kind == 'Pod' ? object.spec.hostNetwork == true : true"},
		{"resource of the request", workloads, "request.resource.resource != 'pods' || object.spec.hostNetwork == true"},
		{"group of the request", workloads, "request.resource.group == 'apps' && object.spec.replicas > 1"},
		{"API version", workloads, "object.apiVersion.startsWith('apps/') ? object.spec.replicas > 1 : true"},
		{"presence tells kinds apart", workloads, "has(object.spec.template) ? object.spec.template.spec.containers.size() > 0 : has(object.spec.containers) ? object.spec.containers.size() > 0 : true"},
		{"presence in a conjunction", workloads, "!has(object.spec.template) || !has(object.spec.template.spec.hostNetwork) || object.spec.template.spec.hostNetwork == false"},
		{"key tells kinds apart", workloads, "'replicas' in object.spec ? object.spec.replicas > 1 : true"},
		{"optional tells kinds apart", workloads, "object.spec.?template.?spec.?hostNetwork.orValue(false) == false && object.spec[?'replicas'].orValue(1) > 0"},
		{"optional without marks behind it", workloads, "object.?spec.template.spec.hostNetwork.orValue(false) == false"},
		{"any kind", "v1 *, apps/v1 *", "object.metadata.name != 'x' && (object.kind != 'Pod' || object.spec.hostNetwork == false)"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			c := admissionPolicy(t, strings.Split(test.resources, ", "), validations(test.expression))
			for _, p := range ofTypes(tried(t).Try(t.Context(), c).Problems) {
				t.Error(p)
			}
		})
	}
}

// TestMutationsThatFit: nothing is said of mutations that work.
func TestMutationsThatFit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ reason, kind, spec string }{
		{"an apply configuration", "ApplyConfiguration", `Object{metadata: Object.metadata{annotations: {"a": "b"}}, spec: Object.spec{hostNetwork: false, priority: 3}}`},
		{"elements of a list", "ApplyConfiguration", `Object{spec: Object.spec{containers: object.spec.containers.map(c, Object.spec.containers{name: c.name, securityContext: Object.spec.containers.securityContext{privileged: false}, resources: c.resources})}}`},
		{"an optional field", "ApplyConfiguration", `Object{spec: Object.spec{?nodeName: object.spec.?nodeName}}`},
		{"a map", "ApplyConfiguration", `Object{metadata: Object.metadata{annotations: object.metadata.labels}}`},
		{"a list that is merged", "ApplyConfiguration", `Object{metadata: Object.metadata{finalizers: ["a/b"]}, spec: Object.spec{containers: [Object.spec.containers{name: "s", image: "i", env: [Object.spec.containers.env{name: "A", value: "b"}]}]}}`},
		{"a list that may be absent", "ApplyConfiguration", `Object{spec: Object.spec{?tolerations: optional.none()}}`},
		{"patches", "JSONPatch", `[JSONPatch{op: "test", path: "/spec/hostNetwork", value: true}, JSONPatch{op: "add", path: "/spec/containers/-", value: object.spec.containers[0]}, JSONPatch{op: "add", path: "/metadata/annotations/" + jsonpatch.escapeKey("a/b"), value: "x"}]`},
		{"a computed path", "JSONPatch", `object.spec.containers.map(c, JSONPatch{op: "remove", path: "/spec/containers/" + string(object.spec.containers.size()) + "/image"})`},
		{"a key with a slash", "JSONPatch", `[JSONPatch{op: "add", path: "/metadata/annotations/a~1b", value: "x"}, JSONPatch{op: "add", path: "/spec/containers/0/resources/limits/nvidia.com~1gpu", value: "1"}]`},
		{"a whole object", "JSONPatch", `[JSONPatch{op: "replace", path: "", value: object}]`},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			field := map[string]string{"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}[test.kind]
			spec, err := json.Marshal(map[string]any{"mutations": []any{map[string]any{"patchType": test.kind, field: map[string]any{"expression": test.spec}}}})
			if err != nil {
				t.Fatal(err)
			}
			c := compile.Policy(mustPolicy(t, "mutation/x", string(spec)))
			for _, p := range ofTypes(append(c.Problems, tried(t).Try(t.Context(), c).Problems...)) {
				t.Error(p)
			}
		})
	}
}

// TestGuardsOfOtherExpressions: what variables and match conditions tell of kinds counts.
func TestGuardsOfOtherExpressions(t *testing.T) {
	t.Parallel()
	variable := func(name, expression string) any { return map[string]any{"name": name, "expression": expression} }
	for _, test := range []struct {
		reason                string
		conditions, variables []any
		expression            string
		want                  string
	}{
		{"a condition that leaves kinds out", []any{variable("a", "object.kind == 'Pod'")}, nil, "object.spec.containers.size() > 0", ""},
		{"a condition by the presence of a field", []any{variable("a", "has(object.spec.containers)")}, nil, "object.spec.containers.size() > 0", ""},
		{"a variable that tells kinds apart", nil, []any{variable("pod", "object.kind == 'Pod'")}, "variables.pod ? object.spec.containers.size() > 0 : true", ""},
		{
			"a variable that is read for its kind only", nil,
			[]any{variable("pod", "object.kind == 'Pod'"), variable("containers", "object.spec.containers")}, "!variables.pod || variables.containers.size() > 0", "",
		},
		{
			"a variable of a variable", nil,
			[]any{variable("spec", "object.kind == 'Pod' ? object.spec : object.kind == 'CronJob' ? object.spec.jobTemplate.spec.template.spec : object.spec.template.spec"), variable("all", "variables.spec.containers + variables.spec.?initContainers.orValue([])")},
			"variables.all.all(c, c.image.startsWith('x')) && variables.spec.hostNetwork == false", "",
		},
		{
			"a variable that is read for another kind", nil, []any{variable("containers", "object.spec.containers")}, "variables.containers.size() > 0",
			"spec.variables[0].expression: no Deployment, StatefulSet, CronJob or Job has spec.containers: the expression fails for them",
		},
		{
			"a condition that leaves the kinds in that lack it", []any{variable("a", "object.kind != 'Pod'")}, nil, "object.spec.containers.size() > 0",
			"spec.validations[0].expression: no Deployment, StatefulSet, CronJob or Job has spec.containers",
		},
		{
			"a variable by kind, of which a field is misspelled", nil,
			[]any{variable("spec", "object.kind == 'Pod' ? object.spec : object.kind == 'CronJob' ? object.spec.jobTemplate.spec.template.spec : object.spec.template.spec")},
			"variables.spec.hostNetwrk == false", "spec.validations[0].expression: variables.spec has no field hostNetwrk in Pod, Deployment, StatefulSet and 2 other kinds",
		},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			spec := validations(test.expression)
			spec["matchConditions"], spec["variables"] = test.conditions, test.variables
			var got []string
			for _, p := range ofTypes(tried(t).Try(t.Context(), admissionPolicy(t, strings.Split(workloads, ", "), spec)).Problems) {
				got = append(got, fmt.Sprintf("%s: %s", p.Field, p.What))
			}
			if strings.Join(got, "\n") != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
