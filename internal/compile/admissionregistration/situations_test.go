package admissionregistration_test

import (
	"encoding/json"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/simulate"
)

// A situation is policies and bindings in a cluster. The fields of a policy are written as YAML,
// on top of one that is for all resources and denies by an expression that is false.
type situation struct {
	reason string
	// policy and binding are merged into the specs of the policy p and its binding; more are other
	// policies with bindings, in full.
	policy, binding string
	more            string
	// objects are in the cluster, besides the namespace shop.
	objects string
	// once makes one request in place of five.
	once bool
	// check is part of what upstream answers to one of the requests: the situation is one.
	check string
}

const settings = `{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: shop, labels: {for: p}}, data: {most: "3"}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: more, namespace: shop, labels: {for: p}}, data: {most: "3"}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: default}, data: {most: "5"}}
`

// limits are params of custom kinds, and the kinds.
var limits = definition("Limit", "Namespaced") + `---
` + definition("ClusterLimit", "Cluster") + `---
{apiVersion: limits.example/v1, kind: Limit, metadata: {name: few, namespace: shop}, most: "3"}
---
{apiVersion: limits.example/v1, kind: ClusterLimit, metadata: {name: few}, most: "4"}
`

func definition(kind, scope string) string {
	plural := strings.ToLower(kind) + "s"
	return `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: ` + plural + `.limits.example}, spec: {group: limits.example,
  names: {kind: ` + kind + `, plural: ` + plural + `}, scope: ` + scope + `,
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}
`
}

func customParams(kind string) string {
	return `paramKind: {apiVersion: limits.example/v1, kind: ` + kind + `}, validations: [{expression: "params != null && params.most == '9'", messageExpression: "'most ' + (params == null ? 'none' : params.most)"}]`
}

const roles = `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: r}, rules: [{apiGroups: [""], resources: [pods], verbs: [get, create]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: r}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: r}, subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: jane}]}
`

const (
	withParams  = `paramKind: {apiVersion: v1, kind: ConfigMap}, validations: [{expression: "params != null && params.data.most == '9'", messageExpression: "'most ' + (params == null ? 'none' : params.data.most)"}]`
	pods        = `matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [pods]}]}`
	denied      = "denied request"
	letThrough  = `"Admitted":true`
	outOfBudget = "validation failed due to running out of cost budget, no further validation rules will be run"
)

var situations = []situation{
	{reason: "a validation that is false", check: "failed expression: false"},
	{reason: "true", policy: `validations: [{expression: "true"}]`, check: letThrough},
	{reason: "message", policy: `validations: [{expression: "false", message: " because \t"}]`, check: "request: because"},
	{reason: "message expression", policy: `validations: [{expression: "false", message: m, messageExpression: "' of ' + object.metadata.name + ' '"}]`, check: "request: of web"},
	{reason: "message expression that is empty", policy: `validations: [{expression: "false", message: m, messageExpression: "'  '"}]`, check: "request: m"},
	{reason: "message expression with lines", policy: `validations: [{expression: "false", message: m, messageExpression: "'a\\nb'"}]`, check: "request: m"},
	{reason: "message expression that fails", policy: `validations: [{expression: "false", messageExpression: "object.nothing"}]`, check: "failed expression: false"},
	{reason: "message expression that is long", policy: `validations: [{expression: "false", messageExpression: "['` + strings.Repeat("x", 3000) + `', '` + strings.Repeat("y", 3000) + `'].join('')"}]`, check: "failed expression: false"},
	{reason: "message expression with authorizer", policy: `variables: [{name: may, expression: "authorizer.group('').resource('pods').check('get').allowed()"}], validations: [{expression: "variables.may && !variables.may", messageExpression: "'may ' + string(variables.may)"}]`, objects: roles, check: "failed expression: variables.may && !variables.may"},
	{reason: "reasons", policy: `validations: [{expression: "false", reason: Forbidden}]`, check: `"Code":403`},
	{reason: "reason Unauthorized", policy: `validations: [{expression: "false", reason: Unauthorized}]`, check: `"Code":401`},
	{reason: "reason RequestEntityTooLarge", policy: `validations: [{expression: "false", reason: RequestEntityTooLarge}]`, check: `"Code":413`},
	{reason: "the first of several validations", policy: `validations: [{expression: "true"}, {expression: "object.nothing == 1", message: a}, {expression: "false", message: b, reason: Forbidden}]`, check: "no such key: nothing"},
	{reason: "errors are ignored", policy: `failurePolicy: Ignore, validations: [{expression: "object.nothing == 1"}, {expression: "true"}]`, check: letThrough},
	{reason: "errors are ignored, what is false is not", policy: `failurePolicy: Ignore, validations: [{expression: "object.nothing == 1"}, {expression: "false"}]`, check: "failed expression: false"},
	{reason: "an expression that does not compile", policy: `validations: [{expression: "nothing"}]`, check: "compilation error"},
	{reason: "an expression that does not compile, ignored", policy: `failurePolicy: Ignore, validations: [{expression: "nothing"}]`, check: letThrough},

	{reason: "warn", binding: "validationActions: [Warn]", check: "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p-b': failed expression: false"},
	{reason: "audit", binding: "validationActions: [Audit]", check: "validation_failure"},
	{reason: "warn and audit", binding: "validationActions: [Warn, Audit]", policy: `validations: [{expression: "false"}, {expression: "object.nothing"}]`, check: "compilation"},
	{reason: "deny and audit", binding: "validationActions: [Audit, Deny]", policy: `validations: [{expression: "true"}, {expression: "object.nothing == 1"}]`, check: `\"expressionIndex\":1`},
	{reason: "errors are warnings", binding: "validationActions: [Warn]", policy: `validations: [{expression: "object.nothing == 1"}]`, check: "Validation failed"},

	{reason: "audit annotations", binding: "validationActions: [Warn]", policy: `auditAnnotations: [{key: who, valueExpression: "' ' + request.userInfo.username"}, {key: none, valueExpression: "null"}, {key: empty, valueExpression: "'  '"}]`, check: `"p/who":`},
	{reason: "an audit annotation that fails denies whatever the actions", binding: "validationActions: [Audit]", policy: `validations: [{expression: "true"}], auditAnnotations: [{key: a, valueExpression: "string(object.nothing)"}]`, check: denied},
	{reason: "an audit annotation that fails, ignored", policy: `failurePolicy: Ignore, validations: [{expression: "true"}], auditAnnotations: [{key: a, valueExpression: "string(object.nothing)"}]`, check: letThrough},
	{reason: "an audit annotation of another type", policy: `validations: [{expression: "true"}], auditAnnotations: [{key: a, valueExpression: "dyn(1)"}]`, check: "compilation error"},
	{reason: "an audit annotation with authorizer", policy: `validations: [{expression: "true"}], auditAnnotations: [{key: a, valueExpression: "string(authorizer.path('/x').check('get').allowed())"}]`, check: denied},
	{reason: "a long audit annotation", policy: `validations: [{expression: "true"}], auditAnnotations: [{key: a, valueExpression: "['` + strings.Repeat("x", 9000) + `', '` + strings.Repeat("y", 9000) + `'].join('')"}]`, check: "xyyy"},
	{reason: "audit annotations of several bindings", binding: "validationActions: [Audit]", policy: withParamsAnd(`auditAnnotations: [{key: a, valueExpression: "params == null ? 'none' : params.data.most"}]`), objects: settings,
		more: `{kind: ValidatingAdmissionPolicyBinding, metadata: {name: z}, spec: {policyName: p, validationActions: [Audit], paramRef: {selector: {matchLabels: {for: p}}, parameterNotFoundAction: Deny}}}`},

	{reason: "variables", policy: `variables: [{name: a, expression: "object.metadata.name"}, {name: b, expression: "variables.a + '!'"}], validations: [{expression: "variables.b == 'x'", messageExpression: "variables.b"}]`, check: "web!"},
	{reason: "a variable that fails", policy: `variables: [{name: a, expression: "object.nothing"}, {name: b, expression: "variables.a + '!'"}], validations: [{expression: "variables.b == 'x'"}, {expression: "true || variables.b == 'x'"}]`, check: `composited variable \"b\" fails to evaluate: composited variable \"a\" fails to evaluate`},
	{reason: "a variable that does not compile", policy: `variables: [{name: a, expression: "nothing"}], validations: [{expression: "variables.a == 'x'"}]`, check: `composited variable \"a\" fails to compile`},
	{reason: "a variable that is used before it is there", policy: `variables: [{name: a, expression: "variables.b"}, {name: b, expression: "1"}], validations: [{expression: "variables.a == 1"}]`, check: "undefined field"},
	{reason: "types of variables", policy: `variables: [{name: l, expression: "[1, 2]"}, {name: m, expression: "{'a': [1]}"}, {name: d, expression: "duration('1h')"}, {name: q, expression: "quantity('1Gi')"}, {name: o, expression: "optional.of(1)"}], validations: [{expression: "variables.l[0] == 2 || variables.m['a'][0] == 3 || variables.d > duration('2h') || variables.q.isLessThan(quantity('1Mi')) || variables.o.value() == 2", messageExpression: "string(variables.d)"}, {expression: "variables.l == ['a']"}, {expression: "has(variables.nothing)"}]`, check: "3600s"},

	{reason: "a condition that is true", policy: `matchConditions: [{name: a, expression: "true"}]`, check: denied},
	{reason: "a condition that is false", policy: `matchConditions: [{name: a, expression: "true"}, {name: b, expression: "request.operation == 'X'"}]`, check: letThrough},
	{reason: "a condition that fails", policy: `matchConditions: [{name: a, expression: "object.nothing == 1"}]`, check: "no such key: nothing"},
	{reason: "two conditions that fail", policy: `matchConditions: [{name: a, expression: "object.nothing == 1"}, {name: b, expression: "object.nothing.more == 1"}]`, check: "["},
	{reason: "a condition that fails and one that is false", policy: `matchConditions: [{name: a, expression: "object.nothing == 1"}, {name: b, expression: "false"}]`, check: letThrough},
	{reason: "a condition that fails, ignored", policy: `failurePolicy: Ignore, matchConditions: [{name: a, expression: "object.nothing == 1"}]`, check: letThrough},
	{reason: "conditions see no namespace", policy: `matchConditions: [{name: a, expression: "namespaceObject == null"}], validations: [{expression: "namespaceObject == null"}]`, check: denied},
	{reason: "conditions with variables and params", policy: withParamsAnd(`variables: [{name: which, expression: "params == null ? 'none' : params.metadata.name"}], matchConditions: [{name: a, expression: "variables.which == 'settings'"}]`), binding: `paramRef: {name: settings, namespace: shop, parameterNotFoundAction: Deny}`, objects: settings, check: "most 3"},

	{reason: "params by name", policy: withParams, binding: `paramRef: {name: settings, namespace: shop, parameterNotFoundAction: Deny}`, objects: settings, check: "most 3"},
	{reason: "params by name in the namespace of the object", policy: withParams, binding: `paramRef: {name: settings, parameterNotFoundAction: Deny}`, objects: settings, check: "most 3"},
	{reason: "params by selector", policy: withParams, binding: `validationActions: [Audit], paramRef: {selector: {matchLabels: {for: p}}, parameterNotFoundAction: Deny}`, objects: settings, check: "most "},
	{reason: "params by a selector that selects one", policy: withParams, binding: `paramRef: {namespace: default, selector: {}, parameterNotFoundAction: Deny}`, objects: settings, check: "most 5"},
	{reason: "no params, denied", policy: withParams, binding: `paramRef: {name: none, namespace: shop, parameterNotFoundAction: Deny}`, check: "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"},
	{reason: "no params, allowed", policy: withParams, binding: `paramRef: {name: none, namespace: shop, parameterNotFoundAction: Allow}`, check: letThrough},
	{reason: "no params, denied but ignored", policy: `failurePolicy: Ignore, ` + withParams, binding: `paramRef: {name: none, namespace: shop, parameterNotFoundAction: Deny}`, check: letThrough},
	{reason: "no params selected", policy: withParams, binding: `paramRef: {namespace: shop, selector: {matchLabels: {for: nothing}}, parameterNotFoundAction: Deny}`, objects: settings, check: "no params found"},
	{reason: "custom params by selector, in no namespace for what is in none", policy: customParams("Limit"), binding: `validationActions: [Audit], paramRef: {selector: {}, parameterNotFoundAction: Allow}`, objects: limits, check: "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"},
	{reason: "custom params by name, in no namespace for what is in none", policy: customParams("Limit"), binding: `paramRef: {name: few, parameterNotFoundAction: Allow}`, objects: limits, check: "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"},
	{reason: "custom params of another namespace", policy: customParams("Limit"), binding: `paramRef: {name: few, namespace: shop, parameterNotFoundAction: Deny}`, objects: limits, check: "most 3"},
	{reason: "cluster-scoped params", policy: customParams("ClusterLimit"), binding: `paramRef: {name: few, parameterNotFoundAction: Deny}`, objects: limits, check: "most 4"},
	{reason: "cluster-scoped params by selector", policy: customParams("ClusterLimit"), binding: `paramRef: {selector: {}, parameterNotFoundAction: Deny}`, objects: limits, check: "most 4"},
	{reason: "cluster-scoped params in a namespace", policy: customParams("ClusterLimit"), binding: `paramRef: {name: few, namespace: shop, parameterNotFoundAction: Allow}`, objects: limits, check: "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"},
	{reason: "a binding without params", policy: withParams, objects: settings, check: "most none"},

	{reason: "another resource", policy: `matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: ["*"], operations: ["*"], resources: ["*"]}]}`, check: letThrough},
	{reason: "pods", policy: pods, check: denied},
	{reason: "subresources", policy: `matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [pods/log, "*/status", pods/exec]}]}`, check: letThrough},
	{reason: "an operation", policy: `matchConstraints: {resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: [DELETE], resources: ["*"]}]}`, check: denied},
	{reason: "the scope Cluster", policy: `matchConstraints: {resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"], scope: Cluster}]}`, check: denied},
	{reason: "the scope Namespaced", policy: `matchConstraints: {resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"], scope: Namespaced}]}`, check: denied},
	{reason: "names", policy: `matchConstraints: {resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"], resourceNames: [web, new]}]}`, check: denied},
	{reason: "exclusions", policy: `matchConstraints: {resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"]}], excludeResourceRules: [{apiGroups: [""], apiVersions: ["*"], operations: [CREATE], resources: [pods]}]}`, check: denied},
	{reason: "namespaces by label", policy: `matchConstraints: {namespaceSelector: {matchLabels: {env: prod}}, resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"]}]}`, check: letThrough},
	{reason: "namespaces by expression", policy: `matchConstraints: {namespaceSelector: {matchExpressions: [{key: env, operator: NotIn, values: [prod]}]}, resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"]}]}`, check: denied},
	{reason: "objects by label", policy: `matchConstraints: {objectSelector: {matchLabels: {app: old}}, resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"]}]}`, check: denied},
	{reason: "objects without a label", policy: `matchConstraints: {objectSelector: {matchExpressions: [{key: app, operator: DoesNotExist}]}, resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"]}]}`, check: denied},
	{reason: "the binding narrows down", binding: `matchResources: {resourceRules: [{apiGroups: [""], apiVersions: ["*"], operations: [CREATE], resources: [pods]}], objectSelector: {matchLabels: {app: web}}}`, check: denied},
	{reason: "the binding leaves out", binding: `matchResources: {excludeResourceRules: [{apiGroups: [""], apiVersions: ["*"], operations: ["*"], resources: [pods]}]}`, check: letThrough},
	{reason: "the binding selects namespaces", binding: `matchResources: {namespaceSelector: {matchLabels: {env: test}}}`, check: denied},
	{reason: "exactly", policy: `matchConstraints: {matchPolicy: Exact, resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: ["*"]}]}`, check: denied},

	{reason: "the policy that comes first tells", more: `{kind: ValidatingAdmissionPolicy, metadata: {name: a}, spec: {` + pods + `, validations: [{expression: "false", message: from a, reason: Forbidden}]}}
---
{kind: ValidatingAdmissionPolicyBinding, metadata: {name: a-b}, spec: {policyName: a, validationActions: [Deny]}}`, check: "from a"},
	{reason: "two bindings, of which the second denies", binding: "validationActions: [Warn]", more: `{kind: ValidatingAdmissionPolicyBinding, metadata: {name: z}, spec: {policyName: p, validationActions: [Deny]}}`, check: "with binding 'z' denied"},
	{reason: "a policy without binding", more: `{kind: ValidatingAdmissionPolicy, metadata: {name: a}, spec: {` + pods + `, validations: [{expression: "false", message: from a}]}}`, check: "failed expression: false"},
	{reason: "a binding without policy", more: `{kind: ValidatingAdmissionPolicyBinding, metadata: {name: a}, spec: {policyName: none, validationActions: [Deny]}}`, check: denied},

	{reason: "authorizer", policy: `validations: [{expression: "authorizer.group('').resource('pods').namespace('shop').check('get').allowed()"}, {expression: "authorizer.requestResource.check('delete').allowed()"}, {expression: "!authorizer.group('').resource('pods').check('create').denied()"}, {expression: "authorizer.path('/x').check('get').reason() == 'x'"}, {expression: "authorizer.serviceAccount('shop', 'a').group('').resource('pods').labelSelector('a=b').check('list').errored()"}]`, objects: roles, check: "denied"},

	{once: true, reason: "an expression over its limit", policy: `validations: [{expression: "` + costly + ` && ` + costly + ` && ` + costly + `"}]`, check: "cost limit exceeded"},
	{once: true, reason: "all expressions over the budget", policy: `validations: [` + strings.Repeat(`{expression: "`+costly+`"}, `, 26) + `{expression: "true"}]`, check: outOfBudget},
	{once: true, reason: "all expressions over the budget, ignored", policy: `failurePolicy: Ignore, validations: [` + strings.Repeat(`{expression: "`+costly+`"}, `, 26) + `{expression: "false"}]`, check: letThrough},
	{once: true, reason: "conditions over the budget", policy: `matchConditions: [` + conditions(7) + `]`, check: outOfBudget},
	{once: true, reason: "conditions over the budget, ignored", policy: `failurePolicy: Ignore, matchConditions: [` + conditions(7) + `]`, check: letThrough},
	{once: true, reason: "messages over the budget deny what is true", policy: `validations: [` + strings.Repeat(`{expression: "`+costly+`", messageExpression: "string(`+costly+`)"}, `, 15) + `{expression: "true"}]`, check: "failed messageExpression: " + outOfBudget},
	{once: true, reason: "variables count", policy: `variables: [{name: a, expression: "` + costly + `"}, {name: b, expression: "variables.a && ` + costly + `"}], validations: [` + strings.Repeat(`{expression: "variables.b && `+costly+`"}, `, 20) + `{expression: "false"}]`, check: "denied"},
}

// costly takes some 400,000 units of cost, and little time.
var costly = "!'" + strings.Repeat("x", 4000) + "'.matches('" + strings.Repeat("y", 4000) + "')"

func withParamsAnd(more string) string { return withParams + ", " + more }

func conditions(n int) string {
	var all []string
	for i := range n {
		all = append(all, `{name: `+string(rune('a'+i))+`, expression: "`+costly+`"}`)
	}
	return strings.Join(all, ", ")
}

func TestSituations(t *testing.T) {
	t.Parallel()
	for _, s := range situations {
		t.Run(s.reason, func(t *testing.T) {
			t.Parallel()
			tryAll(t, &s, newTwin(t, append(decode(t, s.objects), tree(t, shop)), s.policies(t)...).compare)
		})
	}
}

// tryAll asks about the requests of a situation, one of which must show what the situation is about.
// Each of more is created, too.
func tryAll[A any](t *testing.T, s *situation, ask func(*testing.T, simulate.Request) A, more ...map[string]any) {
	t.Helper()
	requests := []simulate.Request{{Operation: usher.Create, Object: tree(t, pod), User: usher.User{Name: "jane", Groups: []string{"devs"}}}}
	if !s.once {
		old := tree(t, strings.Replace(pod, "app: web, ", "app: old, ", 1))
		requests = append(requests, simulate.Request{Operation: usher.Update, Object: tree(t, pod), OldObject: old}, simulate.Request{Operation: usher.Delete, OldObject: old})
		more = append(more, tree(t, `{apiVersion: v1, kind: Namespace, metadata: {name: new, labels: {env: test}}}`),
			tree(t, `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: cr}, rules: []}`))
		for _, object := range more {
			requests = append(requests, simulate.Request{Operation: usher.Create, Object: object})
		}
	}
	answers := make([]string, 0, len(requests))
	for _, request := range requests {
		text, err := json.Marshal(ask(t, request))
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(text)))
	}
	if all := strings.Join(answers, "\n"); !strings.Contains(all, s.check) {
		t.Errorf("upstream's answers do not show %q:\n%s", s.check, all)
	}
}

// policies are those of the situation, with their bindings.
func (s *situation) policies(t *testing.T) []api.Object {
	t.Helper()
	p := policyOf("p", func(spec *admissionv1.ValidatingAdmissionPolicySpec) {
		spec.Validations = []admissionv1.Validation{{Expression: "false"}}
	})
	merge(t, s.policy, &p.Spec)
	b := bindingOf("p", nil, "Deny")
	merge(t, s.binding, &b.Spec)
	return append([]api.Object{p, b}, s.others(t)...)
}

// others are the policies and bindings that are written in full.
func (s *situation) others(t *testing.T) []api.Object {
	t.Helper()
	var all []api.Object
	for more := range strings.SplitSeq(s.more, "---") {
		if strings.TrimSpace(more) == "" {
			continue
		}
		all = append(all, policyIn(t, tree(t, strings.Replace(strings.TrimSpace(more), "{kind", "{apiVersion: admissionregistration.k8s.io/v1, kind", 1))))
	}
	return all
}

// policyIn decodes a policy or a binding.
func policyIn(t *testing.T, tree map[string]any) api.Object {
	t.Helper()
	raw, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := api.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	return decoded.Object
}

// merge decodes fields, written as those of a flow mapping, into a spec.
func merge(t testing.TB, fields string, into any) {
	t.Helper()
	if fields == "" {
		return
	}
	if err := yaml.Unmarshal([]byte("{"+fields+"}"), into); err != nil {
		t.Fatalf("%v in %s", err, fields)
	}
}
