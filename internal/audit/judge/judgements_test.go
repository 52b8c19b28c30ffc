package judge_test

import "github.com/usher-dev/usher/internal/audit/result"

// A judgement has policies judge an object.
type judgement struct {
	reason, policies string
	// kind is that of pods unless set.
	kind   result.Kind
	object string
}

func judgements() []judgement {
	deployments := kind("apps", "deployments", "Deployment", true)
	validation := "  validations: [{name: host, expression: '" + hostNetwork + "', message: no host network}]\n"
	return []judgement{
		{reason: "all validations that fail", policies: objectPolicy("p", "CREATE", "pods", `
  category: Pods
  severity: high
  validations:
  - {name: host, expression: '`+hostNetwork+`', message: no host network}
  - {name: fine, expression: 'true'}
  - {name: tag, severity: low, expression: 'object.spec.containers.all(c, !c.image.endsWith(":latest"))', message: no latest}`), object: onHost},
		{reason: "a warning", policies: objectPolicy("p", "CREATE", "pods", "  bindings: [{validationActions: [Warn]}]\n"+validation), object: onHost},
		{reason: "an audit", policies: objectPolicy("p", "CREATE", "pods", "  bindings: [{validationActions: [Warn, Audit]}]\n"+validation), object: onHost},
		{reason: "no objection", policies: objectPolicy("p", "CREATE", "pods", validation), object: plainPod},
		{reason: "not for the object: nothing is said", policies: objectPolicy("p", "CREATE", "pods", validation+"  matchConditions: [{name: never, expression: 'false'}]"), object: onHost},
		{reason: "two rules of a policy, although the first one denies", policies: `
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: ClusterValidatePolicy
metadata: {name: two}
spec:
  resourceSelectors: [{apiVersion: v1, kind: Pod}]
  validateRules:
  - {targetOperations: [CREATE], cue: 'validate: {valid: false, reason: "first"}'}
  - {targetOperations: [CREATE], cue: 'validate: {valid: false, reason: "second"}'}
  - {targetOperations: [DELETE], cue: 'validate: {valid: false, reason: "third"}'}
`, object: onHost},
		{reason: "two bindings say the same", policies: admissionPolicy("p", "CREATE", "pods", hostNetwork) + `---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: q}
spec: {policyName: p, validationActions: [Audit]}
`, object: onHost},
		{reason: "the user is not known", policies: admissionPolicy("p", "CREATE", "pods", hostNetwork) + admissionPolicy("q", "CREATE", "pods", `request.userInfo.username == "joe"`), object: onHost},
		{reason: "only rules that need a user", policies: admissionPolicy("q", "CREATE", "pods", `request.userInfo.username == "joe"`), object: onHost},
		{reason: "what the user may do", policies: admissionPolicy("p", "CREATE", "pods", hostNetwork) +
			admissionPolicy("q", "CREATE", "pods", `authorizer.group("").resource("pods").check("get").allowed()`), object: onHost},
		{reason: "options, but a dry run is none", policies: admissionPolicy("p", "CREATE", "pods", `!request.dryRun`) +
			admissionPolicy("q", "CREATE", "pods", `request.options.fieldManager == "kubectl"`), object: onHost},
		{reason: "all of the request", policies: admissionPolicy("p", "CREATE", "pods", hostNetwork) + admissionPolicy("q", "CREATE", "pods", `[request].size() == 1`), object: onHost},
		{reason: "subjects", policies: objectPolicy("p", "CREATE", "pods", validation) + objectPolicy("q", "CREATE", "pods", "  subjects: [{groups: [devs]}]\n"+validation) +
			objectPolicy("r", "CREATE", "pods", "  excludeSubjects: [{groups: [devs]}]\n"+validation), object: onHost},
		{reason: "one binding in force for the object, and one that is not", policies: objectPolicy("p", "CREATE", "pods", validation+`  bindings:
  - {name: prod, validationActions: [Deny], matchResources: {namespaceSelector: {matchLabels: {tier: prod}}}}
  - {name: test, validationActions: [Warn], matchResources: {namespaceSelector: {matchLabels: {tier: test}}}}`), object: onHost},
		{reason: "updates only", policies: admissionPolicy("p", "UPDATE", "pods", `request.operation != "UPDATE"`), object: onHost},
		{reason: "updates that compare", policies: admissionPolicy("p", "CREATE", "pods", hostNetwork) +
			admissionPolicy("q", "UPDATE", "pods", `object.metadata.labels == oldObject.metadata.labels`), object: onHost},
		{reason: "creations and updates, as a creation", policies: admissionPolicy("p", "CREATE, UPDATE", "pods", `oldObject != null`), object: onHost},
		{reason: "deletions, connections and subresources", policies: admissionPolicy("p", "CREATE", "pods", hostNetwork) + admissionPolicy("q", "DELETE", "pods", "false") +
			admissionPolicy("r", "CONNECT", "pods/exec", "false") + admissionPolicy("s", "UPDATE", "pods/status", "false") + admissionPolicy("u", "DELETE", "services", "false"), object: onHost},
		{reason: "deletions only", policies: admissionPolicy("p", "DELETE", "pods", "false"), object: onHost},
		{reason: "created under a name, updated under all", policies: `
apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: p}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods], resourceNames: [db]}
    - {apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [pods]}
  validations: [{expression: 'false', messageExpression: 'request.operation'}]
`, object: onHost},
		{reason: "mutations name fields and no values", policies: objectPolicy("p", "CREATE", "pods", `
  mutations:
  - patchType: MergePatch
    mergePatch: {metadata: {labels: {example.com/token: hunter2}}, spec: {hostNetwork: false}}`), object: onHost},
		{reason: "mutations that change nothing", policies: objectPolicy("p", "CREATE", "pods", `
  mutations:
  - patchType: MergePatch
    mergePatch: {metadata: {labels: {app: web}, annotations: null}, spec: {hostNetwork: true}}`), object: onHost},
		{reason: "each mutation is of the stored object", policies: mutation("a") + mutation("b"), object: onHost},
		{reason: "overrides of kinitiras", policies: `
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: ClusterOverridePolicy
metadata: {name: p}
spec:
  resourceSelectors: [{apiVersion: v1, kind: Pod}]
  overrideRules:
  - {targetOperations: [CREATE], overriders: {plaintext: [{path: /spec/hostNetwork, op: replace, value: true}]}}
  - {targetOperations: [CREATE], overriders: {plaintext: [{path: /spec/containers/0/image, op: replace, value: b}]}}
  - {targetOperations: [CREATE], overriders: {template: {type: annotations, operation: add, path: owner, value: {string: me}}}}
  - {targetOperations: [CREATE], overriders: {cue: "object: _ @tag(object)\npatches: [{op: \"add\", path: \"/metadata/labels/name\", value: object.metadata.name}]"}}
`, object: onHost},
		{reason: "the pod of a workload", kind: deployments, policies: objectPolicy("p", "CREATE", "pods", "  podTemplates: Deny\n"+validation),
			object: "{metadata: {name: web, namespace: shop}, spec: {template: {spec: {hostNetwork: true}}}}"},
		{reason: "a warning about the pod of a workload", kind: deployments, policies: objectPolicy("p", "CREATE", "pods", "  podTemplates: Warn\n"+validation),
			object: "{metadata: {name: web, namespace: shop}, spec: {template: {spec: {hostNetwork: true}}}}"},
		{reason: "the pod of a workload that a controller owns", kind: kind("apps", "replicasets", "ReplicaSet", true), policies: objectPolicy("p", "CREATE", "pods", "  podTemplates: Warn\n"+validation),
			object: "{metadata: {name: web, namespace: shop, ownerReferences: [{controller: true}]}, spec: {template: {spec: {hostNetwork: true}}}}"},
		{reason: "the pod of a workload as mutations leave it", kind: deployments, policies: objectPolicy("p", "CREATE", "pods", "  podTemplates: Deny\n"+validation) + objectPolicy("q", "CREATE", "pods", `
  mutations: [{patchType: MergePatch, mergePatch: {spec: {hostNetwork: false}}}]`),
			object: "{metadata: {name: web, namespace: shop}, spec: {template: {spec: {hostNetwork: true}}}}"},
		{reason: "mutations of the pod that need a user", kind: deployments, policies: objectPolicy("p", "CREATE", "pods, deployments", "  podTemplates: Warn\n"+validation) +
			objectPolicy("q", "CREATE", "pods", `
  matchConditions: [{name: joe, expression: 'request.userInfo.username == "joe"'}]
  mutations: [{patchType: MergePatch, mergePatch: {spec: {hostNetwork: false}}}]`),
			object: "{metadata: {name: web, namespace: shop}, spec: {template: {spec: {hostNetwork: true}}}}"},
		{reason: "data over HTTP", policies: objectPolicy("p", "CREATE", "pods", validation) + objectPolicy("q", "CREATE", "pods", `
  data: [{name: teams, http: {url: "https://cmdb.example/teams", method: GET}}]
  validations: [{expression: 'data.teams.open == true'}]`), object: onHost},
		{reason: "data that nothing reads", policies: objectPolicy("q", "CREATE", "pods", `
  data: [{name: teams, http: {url: "https://cmdb.example/teams", method: GET}}]
  validations: [{expression: 'true'}]`), object: onHost},
		{reason: "exempt", policies: objectPolicy("p", "CREATE", "pods", validation) + exemption("x", "2026-06-01T00:00:00Z", "{kind: ClusterObjectPolicy, name: p}", ""), object: onHost},
		{reason: "exempt from one of two", policies: objectPolicy("p", "CREATE", "pods", `
  validations:
  - {name: host, expression: '`+hostNetwork+`', message: no host network}
  - {name: never, expression: 'false', message: never}`) + exemption("x", "2026-06-01T00:00:00Z", "{kind: ClusterObjectPolicy, name: p, validations: [host]}", ""), object: onHost},
		{reason: "exempt from each of two by one", policies: objectPolicy("p", "CREATE", "pods", `
  bindings: [{validationActions: [Warn]}, {validationActions: [Audit]}]
  validations:
  - {name: host, expression: '`+hostNetwork+`', message: no host network}
  - {name: never, severity: low, expression: 'false', message: never}`) +
			exemption("x", "2026-06-01T00:00:00Z", "{kind: ClusterObjectPolicy, name: p, validations: [host]}", "") +
			exemption("z", "2026-06-01T00:00:00Z", "{kind: ClusterObjectPolicy, name: p, validations: [never]}", ""), object: onHost},
		{reason: "exempt from an error", policies: objectPolicy("p", "CREATE", "pods", "  validations: [{expression: 'object.spec.priority > 0'}]") +
			exemption("x", "2026-06-01T00:00:00Z", "{kind: ClusterObjectPolicy, name: p}", ""), object: onHost},
		{reason: "exempt from a rule without parts, and from changes", policies: `
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: ClusterValidatePolicy
metadata: {name: p}
spec:
  resourceSelectors: [{apiVersion: v1, kind: Pod}]
  validateRules: [{targetOperations: [CREATE], cue: 'validate: {valid: false, reason: "never"}'}]
---
apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: q}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  mutations: [{patchType: JSONPatch, jsonPatch: {expression: '[JSONPatch{op: "add", path: "/spec/priority", value: 1}]'}}]
` + exemption("x", "2026-06-01T00:00:00Z", "{kind: ClusterValidatePolicy, name: p}, {kind: ClusterObjectPolicy, name: q}", ""), object: onHost},
		{reason: "no longer exempt", policies: objectPolicy("p", "CREATE", "pods", validation) + exemption("x", "2026-02-01T00:00:00Z", "{kind: ClusterObjectPolicy, name: p}", ""), object: onHost},
		{reason: "exempt are the requests of some users", policies: objectPolicy("p", "CREATE", "pods", validation) +
			exemption("x", "2026-06-01T00:00:00Z", "{kind: ClusterObjectPolicy, name: p}", "  subjects: [{users: [joe]}]"), object: onHost},
		{reason: "an error", policies: objectPolicy("p", "CREATE", "pods", "  validations: [{expression: 'object.spec.priority > 0'}]"), object: onHost},
		{reason: "an error that admission ignores", policies: objectPolicy("p", "CREATE", "pods", "  failurePolicy: Ignore\n  validations: [{expression: 'object.spec.priority > 0'}]"), object: onHost},
		{reason: "messages about Secrets repeat nothing of them", kind: kind("", "secrets", "Secret", true),
			policies: objectPolicy("p", "CREATE", "secrets", "  validations: [{expression: 'false', messageExpression: '\"data is \" + object.data.password'}]"),
			object:   "{metadata: {name: db, namespace: shop}, data: {password: aHVudGVyMg==}}"},
		{reason: "params", policies: objectPolicy("p", "CREATE", "pods", `
  paramKind: {apiVersion: v1, kind: ConfigMap}
  bindings: [{paramRef: {name: limits, parameterNotFoundAction: Deny}}]
  validations: [{expression: 'object.spec.containers.size() > int(params.data.most)', message: few}]`), object: onHost},
		{reason: "params that are missing", policies: objectPolicy("p", "CREATE", "pods", `
  paramKind: {apiVersion: v1, kind: ConfigMap}
  bindings: [{paramRef: {name: none, parameterNotFoundAction: Deny}}]
  validations: [{expression: 'object.spec.containers.size() > int(params.data.most)', message: few}]`), object: onHost},
		{reason: "a Namespace is in itself for requests", kind: kind("", "namespaces", "Namespace", false), policies: admissionPolicy("p", "CREATE", "namespaces", `request.namespace != "lab"`),
			object: "{metadata: {name: lab}}"},
		{reason: "what is cluster-scoped is in no namespace, whatever it says", kind: kind("", "nodes", "Node", false),
			policies: objectPolicy("p", "CREATE", "nodes", "  validations: [{expression: 'has(request.namespace)', message: none}]"), object: "{metadata: {name: a, namespace: shop}}"},
		{reason: "policies in a namespace", policies: `
apiVersion: usher.dev/v1alpha1
kind: ObjectPolicy
metadata: {name: p, namespace: lab}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
` + validation, object: onHost},
		{reason: "kinds that policies in a namespace are never for", kind: kind("", "secrets", "Secret", true), policies: `
apiVersion: usher.dev/v1alpha1
kind: ObjectPolicy
metadata: {name: p, namespace: shop}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: ["*"]}]}
  validations: [{expression: 'false'}]
`},
		{reason: "kinds that API servers ask nobody about", kind: kind("admissionregistration.k8s.io", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", false),
			policies: objectPolicy("p", "CREATE", `"*"`, "  validations: [{expression: 'false'}]")},
	}
}

func mutation(name string) string {
	return `---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: ` + name + `}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  matchConditions: [{name: no-team, expression: '!("team" in object.metadata.labels)'}]
  mutations: [{patchType: JSONPatch, jsonPatch: {expression: '[JSONPatch{op: "add", path: "/metadata/labels/team", value: "` + name + `"}]'}}]
  reinvocationPolicy: Never
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: ` + name + `}
spec: {policyName: ` + name + `}
`
}

func exemption(name, expires, policy, more string) string {
	return `---
apiVersion: usher.dev/v1alpha1
kind: ClusterPolicyExemption
metadata: {name: ` + name + `}
spec:
  policyRefs: [` + policy + `]
  reason: a migration
  owner: ops
  expiresAt: "` + expires + `"
` + more + "\n"
}
