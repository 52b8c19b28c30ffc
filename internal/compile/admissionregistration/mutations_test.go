package admissionregistration_test

import (
	"fmt"
	"slices"
	"strings"
)

// patches are expressions of JSON patches that upstream and Usher evaluate on every object.
var patches = []struct{ expression, check string }{
	{`[]`, ""},
	{`[JSONPatch{op: "add", path: "/metadata/labels/x", value: "y"}]`, `"x":"y"`},
	{`[JSONPatch{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey("a.b/c~d"), value: "y"}]`, `"a.b/c~d":"y"`},
	{`[JSONPatch{op: "add", path: "/metadata/nothing/x", value: "y"}]`, "JSON Patch: add operation does not apply: doc is missing path"},
	{`[JSONPatch{op: "remove", path: "/metadata/labels/app"}]`, `Unable to remove nonexistent key`},
	{`[JSONPatch{op: "replace", path: "/metadata/name", value: object.metadata.name + "-x"}]`, "web-x"},
	{`[JSONPatch{op: "replace", path: "/metadata/nothing", value: 1}]`, ""},
	{`[JSONPatch{op: "test", path: "/metadata/name", value: "web"}, JSONPatch{op: "add", path: "/metadata/annotations", value: {"a": "b"}}]`, `"annotations":{"a":"b"}`},
	{`[JSONPatch{op: "add", path: "/metadata/annotations", value: {"a": "b"}}, JSONPatch{op: "test", path: "/metadata/name", value: "no"}]`, `"Admitted":true`},
	{`[JSONPatch{op: "test", path: "/metadata/nothing/more", value: "no"}]`, "test operation does not apply"},
	{`[JSONPatch{op: "test", path: "/metadata/nothing", value: null}, JSONPatch{op: "add", path: "/metadata/labels", value: {"only": "this"}}]`, `"Admitted":true`},
	{`[JSONPatch{op: "test", path: "/metadata/nothing"}, JSONPatch{op: "add", path: "/metadata/labels", value: {"only": "this"}}]`, `"labels":{"only":"this"}`},
	{`[JSONPatch{op: "copy", from: "/metadata/name", path: "/metadata/labels/name"}]`, `"name":"web"`},
	{`[JSONPatch{op: "move", from: "/metadata/labels/app", path: "/metadata/labels/application"}]`, `"application":"web"`},
	{`[JSONPatch{op: "invalid", path: "/metadata/name", value: "x"}]`, "Unexpected kind: invalid"},
	{`[JSONPatch{op: "add", value: "x"}]`, "doc is missing path"},
	{`[JSONPatch{op: "copy", path: "/metadata/labels/x"}]`, "operation failed to decode from"},
	{`has(object.metadata.labels) ? [JSONPatch{op: "add", path: "/metadata/labels/x", value: string(object.metadata.labels.size())}] : []`, `"x":"`},
	{`(has(object.metadata.annotations) ? [] : [JSONPatch{op: "add", path: "/metadata/annotations", value: {}}]) + [JSONPatch{op: "add", path: "/metadata/annotations/n", value: "v"}]`, `"n":"v"`},
	{`[JSONPatch{op: "add", path: "/metadata/labels", value: {"a": object.metadata.name, "b": request.operation}}]`, "expected type 'dyn' but found 'string'"},
	{`[JSONPatch{op: "add", path: "/metadata/labels", value: {"a": string(object.metadata.name), "b": request.operation}}]`, `"b":"CREATE"`},
	{`[JSONPatch{op: "add", path: "/metadata/labels", value: object.metadata.labels.transformMap(k, v, k + "-" + v)}]`, `"app-web"`},
	{`[JSONPatch{op: "add", path: "/metadata/labels", value: object.metadata.?labels.orValue({})}]`, `"app":"web"`},
	{`[JSONPatch{op: "add", path: "/metadata/finalizers", value: ["a.example/b", object.metadata.name + ".example/c"]}]`, "web.example/c"},
	{`[JSONPatch{op: "add", path: "/metadata/finalizers", value: object.metadata.name.split("e").map(x, x + ".example/y")}]`, `w.example/y`},
	{`[JSONPatch{op: "add", path: "/metadata/labels/i", value: string(9007199254740993)}]`, "9007199254740993"},
	{`[JSONPatch{op: "add", path: "/metadata/labels/d", value: duration("90s")}]`, `"d":"90s"`},
	{`[JSONPatch{op: "add", path: "/metadata/labels/t", value: timestamp("2024-01-02T03:04:05Z")}]`, "2024-01-02T03:04:05Z"},
	{`[JSONPatch{op: "add", path: "/metadata/labels/b", value: b"abc"}]`, "YWJj"},
	{`[JSONPatch{op: "add", path: "/metadata/labels/q", value: quantity("1Gi")}]`, "could not marshal to JSON"},
	{`[JSONPatch{op: "add", path: "/metadata/labels/o", value: optional.of("x")}]`, ""},
	{`[JSONPatch{op: "add", path: "/metadata/labels/u", value: type(1)}]`, ""},
	{`[JSONPatch{op: "add", path: "/metadata/labels/m", value: {1: "x"}}]`, ""},
	{`[?optional.none(), ?optional.of(JSONPatch{op: "add", path: "/metadata/labels/x", value: "opt"})]`, `"x":"opt"`},
	{`["a", "b"].map(k, JSONPatch{op: "add", path: "/metadata/labels/" + k, value: k})`, `"a":"a"`},
	{`object.metadata.labels.transformList(k, v, JSONPatch{op: "replace", path: "/metadata/labels/" + jsonpatch.escapeKey(k), value: v + "1"})`, "web1"},
	{`[JSONPatch{op: "add", path: "/metadata/labels/x", value: object.nothing}]`, "no such key: nothing"},
	{`[JSONPatch{op: "add", path: "/metadata/labels/x", value: namespaceObject == null ? "none" : namespaceObject.metadata.labels.env}]`, `"x":"test"`},
	{`[JSONPatch{op: "add", path: "/metadata/labels/x", value: string(authorizer.group("").resource("pods").check("get").allowed())}]`, `"x":"true"`},
	{`oldObject == null ? [] : [JSONPatch{op: "add", path: "/metadata/labels/was", value: oldObject.metadata.labels.app}]`, `"was":"old"`},
	{`[JSONPatch{op: "add", path: "/spec/containers/-", value: Object.spec.containers{name: "s", image: "i"}}]`, `"name":"s"`},
	{`[JSONPatch{op: "add", path: "/spec/containers/0", value: {"name": "s", "image": "i"}}]`, `"name":"s"`},
	{`[JSONPatch{op: "add", path: "/spec/containers/9", value: Object.spec.containers{name: "s"}}]`, "Unable to access invalid index: 9"},
	{`[JSONPatch{op: "add", path: "/spec/containers/-1", value: Object.spec.containers{name: "s", image: "i"}}]`, `"name":"s"`},
	{`[JSONPatch{op: "remove", path: "/spec/containers/1"}]`, ""},
	{`[JSONPatch{op: "replace", path: "/spec/containers", value: object.spec.containers.filter(c, c.name == "c")}]`, ""},
	{`[JSONPatch{op: "add", path: "/spec/nodeSelector", value: {"disk": "hdd"}}]`, `"disk":"hdd"`},
	{`[JSONPatch{op: "add", path: "/spec/terminationGracePeriodSeconds", value: object.spec.terminationGracePeriodSeconds * 2}]`, `"terminationGracePeriodSeconds":90`},
	{`[JSONPatch{op: "add", path: "/spec/terminationGracePeriodSeconds", value: 5.0}]`, `"terminationGracePeriodSeconds":5`},
	{`[JSONPatch{op: "add", path: "/spec/hostNetwork", value: true}]`, `"hostNetwork":true`},
	{`[JSONPatch{op: "add", path: "/spec/affinity", value: Object.spec.affinity{nodeAffinity: Object.spec.affinity.nodeAffinity{preferredDuringSchedulingIgnoredDuringExecution: []}}}]`, ""},
	{`[JSONPatch{op: "add", path: "/spec/securityContext", value: Object.spec.securityContext{seccompProfile: Object.spec.wrong{type: "RuntimeDefault"}}}]`, `Object.spec.securityContext.seccompProfile\", which matches`},
	{`[JSONPatch{op: "add", path: "/spec/securityContext", value: Object.spec.securityContext{seccompProfile: Object.spec.securityContext.seccompProfile{type: "RuntimeDefault"}}}]`, "RuntimeDefault"},
	{`[JSONPatch{op: "add", path: "/spec/securityContext", value: Object.spec.securityContext{?runAsNonRoot: optional.none(), ?runAsUser: optional.of(1000)}}]`, `"runAsUser":1000`},
	{`[JSONPatch{op: "add", path: "", value: Object{}}]`, "doc is missing path"},
	{`[JSONPatch{op: "add", path: "/metadata/labels/x", value: string(cost())}]`, "undeclared reference"},
	{`JSONPatch{op: "add", path: "/metadata/labels/x", value: "y"}`, "must evaluate to list(JSONPatch) but got JSONPatch"},
	{`[JSONPatch{op: 1, path: "/x"}]`, "expected type of field 'op' is 'string'"},
	{`[Object{}]`, "must evaluate to list(JSONPatch) but got list(Object)"},
	{`[JSONPatch{op: "add", path: "/metadata/labels/x", value: [1, 2].map(i, i + object.spec.nothing)}]`, "no such key"},
	{`[JSONPatch{op: "add", path: "/metadata/labels/x", value: request.userInfo.username}]`, `"x":"jane"`},
}

// configurations are expressions of apply configurations.
var configurations = []struct{ expression, check string }{
	{`Object{}`, `"Admitted":true`},
	{`Object{metadata: Object.metadata{labels: {"x": "y"}}}`, `"x":"y"`},
	{`Object{metadata: Object.metadata{labels: Object.metadata.labels{x: "y"}}}`, `"x":"y"`},
	{`Object{metadata: Object.metadata{annotations: {"a.b/c": object.metadata.name}}}`, `"a.b/c":"web"`},
	{`Object{metadata: Object.metadata{?labels: has(object.metadata.labels) ? optional.none() : optional.of({"new": "label"})}}`, ``},
	{`Object{spec: Object.spec{terminationGracePeriodSeconds: 7}}`, `"terminationGracePeriodSeconds":7`},
	{`Object{spec: Object.spec{terminationGracePeriodSeconds: "7"}}`, "error applying patch: failed to convert patch object to typed object"},
	{`Object{spec: Object.spec{nothing: 1}}`, "field not declared in schema"},
	{`Object{nothing: 1}`, "field not declared in schema"},
	{`Object{spec: Object.spec{containers: [Object.spec.containers{name: "c", imagePullPolicy: "Always"}]}}`, `"imagePullPolicy":"Always"`},
	{`Object{spec: Object.spec{containers: [Object.spec.containers{name: "side", image: "i"}]}}`, `"name":"side"`},
	{`Object{spec: Object.spec{initContainers: [Object.spec.initContainers{name: "mesh-proxy", image: "mesh/proxy:v1.0.0", restartPolicy: "Always"}]}}`, "mesh/proxy"},
	{`Object{spec: Object.spec{containers: object.spec.containers.map(c, Object.spec.containers{name: c.name, imagePullPolicy: c.image.endsWith("3") ? "IfNotPresent" : "Always"})}}`, `"imagePullPolicy":"IfNotPresent"`},
	{`Object{spec: Object.spec{containers: [Object.spec.containers{image: "i"}]}}`, `"image":"i"`},
	{`Object{spec: Object.spec{containers: [Object.spec.containers{name: "c", args: ["a"]}]}}`, "may not mutate atomic arrays, maps or structs: .spec.containers[0].args"},
	{`Object{spec: Object.spec{nodeSelector: {"a": "b"}}}`, "may not mutate atomic arrays"},
	{`Object{spec: Object.spec{tolerations: [Object.spec.tolerations{key: "a"}]}}`, "may not mutate atomic arrays"},
	{`Object{spec: Object.spec{containers: [Object.spec.containers{name: "c", env: [Object.spec.containers.env{name: "A", value: "z"}, Object.spec.containers.env{name: "N", value: "n"}]}]}}`, `"name":"N"`},
	{`Object{spec: Object.spec{containers: [Object.spec.containers{name: "c", ports: [Object.spec.containers.ports{containerPort: 80, protocol: "TCP", name: "web"}]}]}}`, `"name":"web"`},
	{`Object{spec: Object.spec{containers: [Object.spec.containers{name: "c", resources: Object.spec.containers.resources{limits: {"cpu": "1"}}}]}}`, `"cpu":"1"`},
	{`Object{spec: Object.spec{volumes: [Object.spec.volumes{name: "w", emptyDir: Object.spec.volumes.emptyDir{medium: "Memory"}}]}}`, `"medium":"Memory"`},
	{`Object{spec: Object.spec{securityContext: Object.spec.securityContext{seccompProfile: Object.spec.securityContext.seccompProfile{type: "RuntimeDefault"}}}}`, `RuntimeDefault`},
	{`Object{spec: Object.spec{replicas: object.spec.replicas + 1}}`, `"replicas":3`},
	{`Object{spec: Object.spec{template: Object.spec.template{metadata: Object.spec.template.metadata{labels: {"t": "u"}}}}}`, `"t":"u"`},
	{`Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: [Object.spec.template.spec.containers{name: "c", image: "new"}]}}}}`, `"image":"new"`},
	{`Object{data: {"k": "v"}}`, `"k":"v"`},
	{`Object{data: {"k": 1}}`, "expected string, got"},
	{`Object{spec: Object.wrong{}}`, `type mismatch: unexpected type name \"Object.wrong\"`},
	{`Object{spec: Object.spec{containers: [Object.spec.wrong{name: "c"}]}}`, "type mismatch"},
	{`Object{metadata: Object.metadata{name: "other"}}`, `"name":"other"`},
	{`Object{kind: "Other", apiVersion: "v9"}`, `"Admitted":true`},
	{`Object{metadata: Object.metadata{finalizers: ["a.example/b"]}}`, "a.example/b"},
	{`Object{metadata: Object.metadata{finalizers: "a b".split(" ")}}`, ""},
	{`Object{metadata: Object.metadata{ownerReferences: [Object.metadata.ownerReferences{uid: "u", kind: "K", name: "n", apiVersion: "v1"}]}}`, "may not mutate atomic arrays, maps or structs: .metadata.ownerReferences[0]"},
	{`Object{metadata: object.metadata}`, ""},
	{`Object{metadata: Object.metadata{labels: object.metadata.labels}}`, ""},
	{`Object{metadata: Object.metadata{labels: null}}`, ""},
	{`Object{metadata: Object.metadata{labels: {}}}`, ""},
	{`Object{spec: Object.spec{containers: []}}`, ""},
	{`Object{spec: Object.spec{containers: null}}`, ""},
	{`Object{spec: Object.spec{hostNetwork: true}}`, `"hostNetwork":true`},
	{`Object{spec: Object.spec{hostPID: 1 > 0}}`, `"hostPID":true`},
	{`Object{spec: Object.spec{priority: 1.0}}`, ""},
	{`Object{spec: Object.spec{activeDeadlineSeconds: uint(3)}}`, ""},
	{`Object{spec: Object.spec{nodeName: object.nothing}}`, "no such key"},
	{`Object{spec: Object.spec{nodeName: [1][5]}}`, "index out of bounds"},
	{`{"metadata": {"labels": {"x": "y"}}}`, "must evaluate to Object but got"},
	{`[Object{}]`, "must evaluate to Object but got"},
	{`has(object.metadata.labels) ? Object{metadata: Object.metadata{labels: {"n": string(object.metadata.labels.size())}}} : Object{}`, `"n":"`},
	{`Object{metadata: Object.metadata{labels: {"x": duration("1s")}}}`, ""},
	{`Object{metadata: Object.metadata{labels: {"x": timestamp("2024-01-02T03:04:05Z")}}}`, ""},
	{`Object{rules: [Object.rules{verbs: ["get"], resources: ["pods"], apiGroups: [""]}]}`, "may not mutate atomic arrays"},
}

// mutatingSituations are all expressions, each a policy, and what else there is about policies.
func mutatingSituations() []situation {
	var all []situation
	for _, p := range patches {
		all = append(all, situation{reason: "JSONPatch " + p.expression, check: p.check, policy: fmt.Sprintf("mutations: [{patchType: JSONPatch, jsonPatch: {expression: %q}}]", p.expression), objects: roles})
	}
	for _, p := range configurations {
		all = append(all, situation{
			reason: "ApplyConfiguration " + p.expression, check: p.check,
			policy: fmt.Sprintf("mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: %q}}]", p.expression), objects: roles,
		})
	}
	return append(all, severalMutations()...)
}

// patching is a policy with JSON patches, by their expressions.
func patching(expressions ...string) string {
	var all []string
	for _, e := range expressions {
		all = append(all, fmt.Sprintf("{patchType: JSONPatch, jsonPatch: {expression: %q}}", e))
	}
	return "mutations: [" + strings.Join(all, ", ") + "]"
}

func applying(expressions ...string) string {
	return strings.NewReplacer("JSONPatch, jsonPatch", "ApplyConfiguration, applyConfiguration").Replace(patching(expressions...))
}

// label adds a label, if there are any.
func label(name, expression string) string {
	return fmt.Sprintf(`has(object.metadata.labels) ? [JSONPatch{op: "add", path: "/metadata/labels/%s", value: %s}] : []`, name, expression)
}

const (
	wrong    = `[JSONPatch{op: "add", path: "/nothing/more", value: 1}]`
	tellMost = `params == null ? "none" : params.data.most`
	bindingZ = `{kind: MutatingAdmissionPolicyBinding, metadata: {name: z}, spec: {policyName: p`
)

// another is a policy with a binding.
func another(name, spec string) string {
	return fmt.Sprintf(`{kind: MutatingAdmissionPolicy, metadata: {name: %s}, spec: {reinvocationPolicy: Never, matchConstraints: {resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*/*"]}]}, %s}}
---
{kind: MutatingAdmissionPolicyBinding, metadata: {name: %s-b}, spec: {policyName: %s}}`, name, spec, name, name)
}

// severalMutations are situations that are about more than one expression.
func severalMutations() []situation {
	x := label("x", `"y"`)
	return []situation{
		{reason: "mutations see the result of those before", policy: patching(x, label("z", "object.metadata.labels.x + '!'")), check: `"z":"y!"`},
		{reason: "the old object stays", policy: patching(x, label("z", "oldObject == null ? 'none' : string(oldObject.metadata.labels.size())")), check: `"z":"none"`},
		{reason: "a patch and a configuration", policy: `mutations: [{patchType: JSONPatch, jsonPatch: {expression: '` + x + `'}}, {patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{metadata: Object.metadata{annotations: {"n": string(has(object.metadata.labels) && "x" in object.metadata.labels)}}}'}}]`, check: `"n":"true"`},
		{reason: "a mutation that fails", policy: patching(x, wrong, label("z", "'1'")), check: "JSON Patch: add operation does not apply"},
		{reason: "of two mutations that fail the first is told", policy: patching(`[JSONPatch{op: "remove", path: "/nothing"}]`, wrong), check: "error in remove"},
		{reason: "a mutation that fails is ignored, others are not", policy: "failurePolicy: Ignore, " + patching(x, wrong, label("z", "'1'")), check: `"z":"1"`},
		{reason: "an expression that does not compile", policy: patching(x, "nothing"), check: "compilation failed"},
		{reason: "an expression that does not compile, ignored", policy: "failurePolicy: Ignore, " + patching(x, "nothing"), check: `"x":"y"`},
		{reason: "a configuration that does not fit, ignored", policy: "failurePolicy: Ignore, " + applying("Object{nothing: 1}", `Object{metadata: Object.metadata{labels: {"x": "y"}}}`), check: `"x":"y"`},

		{reason: "variables", policy: `variables: [{name: a, expression: "object.metadata.name"}, {name: b, expression: "variables.a + '!'"}], ` + patching(label("x", "variables.b")), check: `"x":"web!"`},
		{reason: "variables are computed for each mutation", policy: `variables: [{name: num, expression: "has(object.metadata.labels) ? string(object.metadata.labels.size()) : '0'"}], ` + patching(label("x", "variables.num"), label("z", "variables.num")), check: `"z":"3"`},
		{reason: "a variable that fails", policy: `variables: [{name: a, expression: "object.nothing"}], ` + patching(label("x", "variables.a")), check: `composited variable \"a\" fails to evaluate`},
		{reason: "a variable that does not compile", policy: `variables: [{name: a, expression: "nothing"}], ` + patching(label("x", "variables.a")), check: `composited variable \"a\" fails to compile`},
		{reason: "variables have no types of patches", policy: `variables: [{name: a, expression: "Object{}"}], ` + patching(x), check: `"x":"y"`},

		{reason: "a condition that is false", policy: `matchConditions: [{name: a, expression: "request.operation == 'X'"}], ` + patching(x), check: `"Admitted":true`},
		{reason: "a condition that is true", policy: `matchConditions: [{name: a, expression: "object != null && object.kind == 'Pod'"}], ` + patching(x), check: `"x":"y"`},
		{reason: "a condition that fails", policy: `matchConditions: [{name: a, expression: "object.nothing == 1"}], ` + patching(x), check: "no such key: nothing"},
		{reason: "a condition that fails, ignored", policy: `failurePolicy: Ignore, matchConditions: [{name: a, expression: "object.nothing == 1"}], ` + patching(x), check: `"Admitted":true`},
		{reason: "a condition with a variable", policy: `variables: [{name: a, expression: "object.metadata.name == 'web'"}], matchConditions: [{name: a, expression: "variables.a"}], ` + patching(x), check: `"x":"y"`},
		{reason: "conditions over the budget", once: true, policy: `matchConditions: [` + conditions(7) + `], ` + patching(x), check: outOfBudget},
		{reason: "conditions over the budget, ignored", once: true, policy: `failurePolicy: Ignore, matchConditions: [` + conditions(7) + `], ` + patching(x), check: `"Admitted":true`},

		{reason: "an expression over its limit", once: true, policy: patching("(" + costly + " && " + costly + " && " + costly + ") ? [JSONPatch{op: 'add'}] : []"), check: "cost limit exceeded"},
		{reason: "each mutation has the whole budget", once: true, policy: `variables: [{name: a, expression: "` + costly + `"}], ` + patching(slices.Repeat([]string{"variables.a ? (" + x + ") : []"}, 30)...), check: `"x":"y"`},
		{reason: "variables count", once: true, policy: `variables: [` + many(30) + `], ` + patching(all30()+" ? ("+x+") : []"), check: outOfBudget},

		{reason: "params by name", policy: `paramKind: {apiVersion: v1, kind: ConfigMap}, ` + patching(label("x", tellMost)), binding: `paramRef: {name: settings, namespace: shop, parameterNotFoundAction: Deny}`, objects: settings, check: `"x":"3"`},
		{reason: "params in the namespace of the object", policy: `paramKind: {apiVersion: v1, kind: ConfigMap}, matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [pods, configmaps]}]}, ` + patching(label("x", tellMost)), binding: `paramRef: {name: settings, parameterNotFoundAction: Deny}`, objects: settings, check: `"x":"3"`},
		{reason: "params for what is in no namespace", policy: `paramKind: {apiVersion: v1, kind: ConfigMap}, ` + patching(label("x", tellMost)), binding: `paramRef: {name: settings, parameterNotFoundAction: Deny}`, objects: settings, check: "cannot use namespaced paramRef"},
		{reason: "no params, denied", policy: `paramKind: {apiVersion: v1, kind: ConfigMap}, ` + patching(x), binding: `paramRef: {name: none, namespace: shop, parameterNotFoundAction: Deny}`, check: "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"},
		{reason: "no params, denied, ignored", policy: `failurePolicy: Ignore, paramKind: {apiVersion: v1, kind: ConfigMap}, ` + patching(x), binding: `paramRef: {name: none, namespace: shop, parameterNotFoundAction: Deny}`, check: `"Admitted":true`},
		{reason: "no params, allowed", policy: `paramKind: {apiVersion: v1, kind: ConfigMap}, ` + patching(x), binding: `paramRef: {name: none, namespace: shop, parameterNotFoundAction: Allow}`, check: `"Admitted":true`},
		{reason: "a binding without params", policy: `paramKind: {apiVersion: v1, kind: ConfigMap}, ` + patching(label("x", tellMost)), objects: settings, check: `"x":"none"`},
		{reason: "params without paramKind", policy: patching(label("x", tellMost)), check: "undeclared reference to 'params'"},
		{reason: "two bindings with params", policy: `paramKind: {apiVersion: v1, kind: ConfigMap}, ` + patching(label("x", `(object.metadata.?labels.?x.orValue("")) + (`+tellMost+`)`)), binding: `paramRef: {name: settings, namespace: shop, parameterNotFoundAction: Deny}`,
			more: bindingZ + `, paramRef: {name: settings, namespace: default, parameterNotFoundAction: Deny}}}`, objects: settings, check: `"x":"35"`},

		{reason: "another resource", policy: `matchConstraints: {resourceRules: [{apiGroups: [batch], apiVersions: ["*"], operations: ["*"], resources: ["*"]}]}, ` + patching(x), check: `"Admitted":true`},
		{reason: "pods", policy: pods + ", " + patching(x), check: `"x":"y"`},
		{reason: "updates", policy: `matchConstraints: {resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: [UPDATE], resources: ["*"]}]}, ` + patching(x), check: `"x":"y"`},
		{reason: "subresources", policy: `matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: ["*/status", pods/exec]}]}, ` + patching(x), check: `"Admitted":true`},
		{reason: "exclusions", policy: `matchConstraints: {resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"]}], excludeResourceRules: [{apiGroups: [""], apiVersions: ["*"], operations: [CREATE], resources: [pods]}]}, ` + patching(x), check: `"x":"y"`},
		{reason: "namespaces by label", policy: `matchConstraints: {namespaceSelector: {matchLabels: {env: test}}, resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"]}]}, ` + patching(x), check: `"x":"y"`},
		{reason: "objects by label", policy: `matchConstraints: {objectSelector: {matchLabels: {app: old}}, resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"]}]}, ` + patching(x), check: `"x":"y"`},
		{reason: "the binding narrows down", policy: patching(x), binding: `matchResources: {resourceRules: [{apiGroups: [""], apiVersions: ["*"], operations: [CREATE], resources: [pods]}], objectSelector: {matchLabels: {app: web}}}`, check: `"x":"y"`},
		{reason: "two bindings", policy: patching(label("x", `object.metadata.?labels.?x.orValue("") + "y"`)), more: bindingZ + "}}", check: `"x":"yy"`},
		{reason: "a policy without binding", policy: patching(x), more: strings.Split(another("q", patching(label("q", "'q'"))), "---")[0], check: `"x":"y"`},

		{reason: "policies see the result of those before", policy: patching(x), more: another("q", patching(label("q", "object.metadata.labels.x"))), check: `"q":"y"`},
		{reason: "conditions are about the object as it is", policy: patching(x), more: another("q", `matchConditions: [{name: a, expression: "object != null && has(object.metadata.labels) && 'x' in object.metadata.labels"}], `+patching(label("q", "'q'"))), check: `"q":"q"`},
		{reason: "selectors are about the object as it was", policy: patching(label("app", "'changed'")), more: another("q", `matchConstraints: {objectSelector: {matchLabels: {app: web}}, resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"]}]}, `+patching(label("q", "object.metadata.labels.app"))), check: `"q":"changed"`},
		{reason: "selectors do not see what is new", policy: patching(x), more: another("q", `matchConstraints: {objectSelector: {matchLabels: {x: "y"}}, resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"]}]}, `+patching(label("q", "'q'"))), check: `"x":"y"`},
		{reason: "of two policies that deny the first tells", policy: patching(wrong), more: another("q", patching("[][0]")), check: "policy 'p' with binding"},
		{reason: "a policy that is ignored and one that is not", policy: "failurePolicy: Ignore, " + patching(wrong, x), more: another("q", patching(label("q", "object.metadata.labels.x"))), check: `"q":"y"`},

		{reason: "IfNeeded alone", policy: "reinvocationPolicy: IfNeeded, " + patching(label("x", `object.metadata.?labels.?x.orValue("") + "y"`)), check: `"x":"yy"`},
		{reason: "IfNeeded, idempotent", policy: "reinvocationPolicy: IfNeeded, " + patching(x), check: `"x":"y"`},
		{reason: "IfNeeded, after another has changed the object", policy: patching(x), more: another("q", "reinvocationPolicy: IfNeeded, "+patching(label("q", `object.metadata.?labels.?q.orValue("") + "q"`))), check: `"q":"qq"`},
		{reason: "IfNeeded twice", policy: "reinvocationPolicy: IfNeeded, " + patching(label("x", `object.metadata.?labels.?q.orValue("none")`)), more: another("q", "reinvocationPolicy: IfNeeded, "+patching(label("q", "'q'"))), check: `"x":"q"`},
		{reason: "IfNeeded, a condition that has become false", policy: `reinvocationPolicy: IfNeeded, matchConditions: [{name: a, expression: "object != null && !('x' in object.metadata.?labels.orValue({}))"}], ` + patching(x), check: `"x":"y"`},
		{reason: "IfNeeded, a condition that has become true", policy: `reinvocationPolicy: IfNeeded, matchConditions: [{name: a, expression: "object != null && 'q' in object.metadata.?labels.orValue({})"}], ` + patching(x), more: another("q", "reinvocationPolicy: IfNeeded, "+patching(label("q", "'q'"))), check: `"q":"q"`},
		{reason: "IfNeeded, a selector that has become true", policy: `reinvocationPolicy: IfNeeded, matchConstraints: {objectSelector: {matchLabels: {q: q}}, resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"]}]}, ` + patching(x), more: another("q", "reinvocationPolicy: IfNeeded, "+patching(label("q", "'q'"))), check: `"q":"q"`},
		{reason: "IfNeeded, which fails the second time", policy: "reinvocationPolicy: IfNeeded, " + patching(`has(object.metadata.labels) ? [JSONPatch{op: "move", from: "/metadata/labels/app", path: "/metadata/labels/x"}] : []`), check: "Unable to remove nonexistent key"},
	}
}

// many are expensive variables, and all30 an expression that reads them.
func many(n int) string {
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, `{name: a%d, expression: "%s"}, `, i, costly)
	}
	return all.String()
}

func all30() string {
	var all []string
	for i := range 30 {
		all = append(all, fmt.Sprintf("variables.a%d", i))
	}
	return strings.Join(all, " && ")
}
