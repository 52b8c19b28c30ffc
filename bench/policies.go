package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/library"
)

const (
	override = `{"apiVersion":"policy.kcloudlabs.io/v1alpha1","kind":"ClusterOverridePolicy","metadata":{"name":"%s-%05d"},"spec":{
 "resourceSelectors":[{"apiVersion":"v1","kind":"Pod"%s}],"overrideRules":[{"targetOperations":["CREATE","UPDATE"],"overriders":%s}]}}`
	validate = `{"apiVersion":"policy.kcloudlabs.io/v1alpha1","kind":"ClusterValidatePolicy","metadata":{"name":"%s-%05d"},"spec":{
 "resourceSelectors":[{"apiVersion":"v1","kind":"Pod"%s}],"validateRules":[%s]}}`
	// Kubernetes' own policies are in force by a binding.
	ownRules = `"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE","UPDATE"],"resources":["pods"]}]}`
	ownHead  = `{"apiVersion":"admissionregistration.k8s.io/v1","metadata":{"name":"%[1]s-%05[2]d"},`
	vap      = ownHead + `"kind":"ValidatingAdmissionPolicy","spec":{` + ownRules + `,"validations":%[4]s}}
---
` + ownHead + `"kind":"ValidatingAdmissionPolicyBinding","spec":{"policyName":"%[1]s-%05[2]d","validationActions":["Deny"]}}`
	mutating = ownHead + `"kind":"MutatingAdmissionPolicy","spec":{` + ownRules + `,"reinvocationPolicy":"Never","mutations":%[4]s}}
---
` + ownHead + `"kind":"MutatingAdmissionPolicyBinding","spec":{"policyName":"%[1]s-%05[2]d"}}`
	// Object policies have their bindings within: all are warned, and some are denied.
	object = `{"apiVersion":"usher.dev/v1alpha1","kind":"ClusterObjectPolicy","metadata":{"name":"%[1]s-%05[2]d"},"spec":{` + ownRules + `,
 "bindings":[{"name":"all","validationActions":["Warn"],"params":{"name":"bench-%[2]d"}},
  {"name":"some","params":{"name":"bench-%[2]d"},"matchResources":{"objectSelector":{"matchExpressions":[{"key":"app","operator":"Exists"}]}}}],
 "validations":%[4]s}}`
)

// A language is a way to write a policy for pods.
type language struct {
	name string
	// envelope is override, validate, vap, mutating or object, body what goes into it, with the number of the
	// policy for every %d.
	envelope, body string
}

// languages are one rule each, of the simplest useful sort.
var languages = []language{
	{name: "plaintext", envelope: override,
		body: `{"plaintext":[{"path":"/metadata/labels/bench-%[1]d","op":"add","value":"on"}]}`},
	{name: "template", envelope: override,
		body: `{"template":{"type":"labels","operation":"add","path":"bench-%[1]d","value":{"string":"on"}}}`},
	{name: "cue", envelope: override,
		body: `{"cue":"object: _ @tag(object)\npatches: [if object.metadata.labels[\"bench-%[1]d\"] == _|_ {{op: \"add\", path: \"/metadata/labels/bench-%[1]d\", value: \"on\"}}]"}`},
	{name: "cue outside the subset", envelope: override,
		body: `{"cue":"object: _ @tag(object)\n#Patch: {op: \"add\" | \"replace\", path: string, value: string}\npatches: [if object.metadata.labels[\"bench-%[1]d\"] == _|_ {#Patch & {op: \"add\", path: \"/metadata/labels/bench-%[1]d\", value: \"on\"}}]"}`},
	{name: "validate template", envelope: validate,
		body: `{"targetOperations":["CREATE","UPDATE"],"template":{"type":"condition","condition":{"cond":"Equal","dataRef":{"from":"current","path":"/spec/schedulerName"},"value":{"string":"bench-%[1]d"},"message":"no"}}}`},
	{name: "validate cue", envelope: validate,
		body: `{"targetOperations":["CREATE","UPDATE"],"cue":"object: _ @tag(object)\nvalidate: {valid: object.spec.schedulerName != \"bench-%[1]d\", reason: \"no\"}"}`},
	{name: "validate cue outside the subset", envelope: validate,
		body: `{"targetOperations":["CREATE","UPDATE"],"cue":"object: _ @tag(object)\n#Answer: {valid: bool, reason: string}\nvalidate: #Answer & {valid: object.spec.schedulerName != \"bench-%[1]d\", reason: \"no\"}"}`},
	{name: "ValidatingAdmissionPolicy", envelope: vap,
		body: `[{"expression":"object.spec.schedulerName != 'bench-%[1]d'","message":"no"}]`},
	{name: "ClusterObjectPolicy", envelope: object,
		body: `[{"name":"v%[1]d","expression":"object.spec.schedulerName != params.name","message":"no"}]`},
	{name: "MutatingAdmissionPolicy", envelope: mutating,
		body: `[{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: 'add', path: '/metadata/labels/bench-%[1]d', value: 'on'}]"}}]`},
	{name: "apply configuration", envelope: mutating,
		body: `[{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":"Object{metadata: Object.metadata{labels: {'bench-%[1]d': 'on'}}}"}}]`},
}

// validates reports whether the policies change nothing.
func (l language) validates() bool {
	return l.envelope == validate || l.envelope == vap || l.envelope == object
}

func (l language) policies(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, l.envelope+"\n---\n", "bench", i, "", fmt.Sprintf(l.body, i))
	}
	return b.String()
}

// packPolicies returns the policies of a pack, which deny, and how many these are. They are for all
// namespaces: a server that no cluster belongs to knows no labels of namespaces.
func packPolicies(pack string) (text string, count int, err error) {
	packs, err := library.Packs()
	if err != nil {
		return "", 0, err
	}
	policies, err := library.Select(packs, []string{pack})
	if err != nil {
		return "", 0, err
	}
	var b strings.Builder
	for i := range policies {
		spec := policies[i].Spec
		spec.MatchConstraints.NamespaceSelector = nil
		spec.Bindings = slices.Clone(spec.Bindings)
		for j := range spec.Bindings {
			spec.Bindings[j].ValidationActions = []admissionv1.ValidationAction{admissionv1.Deny}
		}
		written, err := json.Marshal(v1alpha1.ClusterObjectPolicy{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ClusterObjectPolicy"},
			ObjectMeta: metav1.ObjectMeta{Name: policies[i].Name}, Spec: spec,
		})
		if err != nil {
			return "", 0, err
		}
		b.WriteString(string(written) + "\n---\n")
	}
	return b.String(), len(policies), nil
}

// missing returns n policies for pods that do not match the one of the review.
func missing(n int) string {
	var b strings.Builder
	for i := range n {
		labels := fmt.Sprintf(`,"labelSelector":{"matchLabels":{"tenant":"t%d"}}`, i)
		fmt.Fprintf(&b, override+"\n---\n", "miss", i, labels, fmt.Sprintf(languages[i%2].body, i))
	}
	return b.String()
}
