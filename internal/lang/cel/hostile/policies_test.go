//go:build unix

package hostile_test

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/usher-dev/usher/internal/lang/cel/hostile"
)

// A manifest is an object, decoded.
type manifest = map[string]any

// A use is one place of a kind of policy into which a program can be written.
type use struct {
	name string
	// policies has an honest one first.
	policies []string
	// tenant says that the policy is in a namespace, and hides that the honest policy may not have its say.
	tenant, hides bool
	// access says that the policy is about requests to authorize.
	access bool
}

// honest is a policy that denies each request.
var honest = document("usher.dev/v1alpha1", "ClusterObjectPolicy", "honest", "", manifest{
	"matchConstraints": configMaps(),
	"validations":      []any{manifest{"name": "v", "expression": "object.metadata.name != 'web'", "message": "honestly not"}},
})

func configMaps() manifest {
	return manifest{"resourceRules": []any{manifest{"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE", "UPDATE"}, "resources": []any{"configmaps"}}}}
}

func document(apiVersion, kind, name, namespace string, spec manifest) string {
	metadata := manifest{"name": name}
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	raw, err := json.Marshal(manifest{"apiVersion": apiVersion, "kind": kind, "metadata": metadata, "spec": spec})
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// uses returns the places into which a program can be written.
func uses(p *hostile.Expression, i int) []use {
	value := p.Text()
	if p.Function == "JSONPatch" || p.Function == "apply" {
		// Only mutations have these types.
		value = "dyn(object.metadata.name)"
	}
	text := []string{"string(dyn(%s))", "'%%s'.format([dyn(%s)])"}[i%2]
	holds := []string{"dyn(%s) == dyn(%[1]s)", "size('%%s'.format([dyn(%s)])) > 0", "type(dyn(%s)) != null_type"}[i%3]
	text, holds = fmt.Sprintf(text, value), fmt.Sprintf(holds, value)
	return append(append(validations(value, text, holds), mutations(p, text)...), conditions(text, holds)...)
}

// validations are in each kind of policy that validates.
func validations(value, text, holds string) []use {
	spec := func(more ...any) manifest {
		s := manifest{
			"matchConstraints": configMaps(), "variables": variables(value),
			"validations":      []any{manifest{"expression": holds}, manifest{"expression": "false", "messageExpression": text}},
			"auditAnnotations": []any{manifest{"key": "a", "valueExpression": text}},
		}
		for k := 0; k < len(more); k += 2 {
			s[more[k].(string)] = more[k+1] //nolint:forcetypeassert // it is written below
		}
		return s
	}
	data := []any{manifest{"name": "d", "object": manifest{"apiVersion": "v1", "kind": "ConfigMap", "nameExpression": text}, "onMissing": "Null"}}
	return []use{
		{name: "ObjectPolicy", tenant: true, policies: []string{honest, document("usher.dev/v1alpha1", "ObjectPolicy", "hostile", "shop", spec("matchConditions", conditionOf(hostile.Inline(holds))))}},
		{name: "ClusterObjectPolicy", policies: []string{honest, document("usher.dev/v1alpha1", "ClusterObjectPolicy", "hostile", "", spec())}},
		{name: "data", tenant: true, policies: []string{honest, document("usher.dev/v1alpha1", "ObjectPolicy", "hostile", "shop", manifest{
			"matchConstraints": configMaps(), "variables": variables(value), "data": data, "validations": []any{manifest{"expression": "data.d == null"}},
		})}},
		{name: "ValidatingAdmissionPolicy", policies: []string{
			honest, document("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "hostile", "", spec()),
			document("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", "hostile", "", manifest{"policyName": "hostile", "validationActions": []any{"Deny"}}),
		}},
	}
}

// mutations are those of object policies and of Kubernetes.
func mutations(p *hostile.Expression, text string) []use {
	patch := fmt.Sprintf("[JSONPatch{op: 'add', path: '/data/x', value: %s}, JSONPatch{op: 'add', path: '/metadata/annotations', value: {'a': %s}}]", p.Text(), text)
	apply := fmt.Sprintf("Object{data: {'x': %s}}", text)
	switch p.Function {
	case "JSONPatch":
		patch = p.Text()
	case "apply":
		apply, patch = p.Text(), "[JSONPatch{op: 'remove', path: '/data'}]"
	}
	both := []any{
		manifest{"patchType": "ApplyConfiguration", "applyConfiguration": manifest{"expression": apply}},
		manifest{"patchType": "JSONPatch", "jsonPatch": manifest{"expression": patch}},
	}
	spec := func(mutations ...any) manifest {
		return manifest{"matchConstraints": configMaps(), "variables": variables(patch + apply), "mutations": mutations}
	}
	ofKubernetes := spec(both...)
	ofKubernetes["reinvocationPolicy"] = "Never"
	return []use{
		{name: "JSONPatch", tenant: true, policies: []string{honest, document("usher.dev/v1alpha1", "ObjectPolicy", "hostile", "shop", spec(both[1]))}},
		{name: "ApplyConfiguration", tenant: true, policies: []string{honest, document("usher.dev/v1alpha1", "ObjectPolicy", "hostile", "shop", spec(both[0]))}},
		{name: "MutatingAdmissionPolicy", policies: []string{
			honest, document("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy", "hostile", "", ofKubernetes),
			document("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicyBinding", "hostile", "", manifest{"policyName": "hostile"}),
		}},
	}
}

// conditions are those of exemptions and of authorization policies.
func conditions(text, holds string) []use {
	all := []use{{name: "exemption", hides: true, policies: []string{honest, document("usher.dev/v1alpha1", "ClusterPolicyExemption", "hostile", "", manifest{
		"policyRefs": []any{manifest{"kind": "ClusterObjectPolicy", "name": "honest"}}, "reason": "r", "owner": "o", "expiresAt": "2099-01-01T00:00:00Z",
		"matchConditions": conditionOf(hostile.Inline(holds)),
	})}}}
	var when []any
	for _, condition := range []string{holds, text + " != ''"} {
		if about, ok := hostile.ForAccess(condition); ok {
			when = append(when, manifest{"cel": about})
		}
	}
	if when == nil {
		return all
	}
	return append(all, use{name: "authorization", access: true, policies: []string{
		document("usher.dev/v1alpha1", "ClusterAuthorizationPolicy", "hostile", "", manifest{
			"effect": "Deny", "subjects": []any{manifest{"groups": []any{"*"}}}, "when": when,
			"rules": []any{manifest{"verbs": []any{"*"}, "apiGroups": []any{"*"}, "resources": []any{"*"}}},
		}),
		document("usher.dev/v1alpha1", "ClusterAuthorizationPolicy", "honest", "", manifest{
			"effect": "Deny", "subjects": []any{manifest{"users": []any{"jane"}}}, "message": "honestly not",
			"rules": []any{manifest{"verbs": []any{"*"}, "apiGroups": []any{"*"}, "resources": []any{"*"}}},
		}),
	}})
}

func conditionOf(expression string) []any {
	return []any{manifest{"name": "c", "expression": expression}}
}

func variables(text string) []any {
	all := []any{}
	for _, v := range hostile.Needed(text) {
		all = append(all, manifest{"name": v[0], "expression": v[1]})
	}
	return all
}

// long is a text for objects.
func long(part string, n int) string { return strings.Repeat(part, n/len(part)) }
