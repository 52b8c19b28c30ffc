package spec

import (
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/rule"
)

// secretKind is the kind whose data is not for everyone.
var secretKind = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}

// NoteSecrets warns of expressions that tell what is in a Secret: messages, audit annotations, and
// mutations of other objects. A policy of a namespace does not act on the kinds in excluded.
func (c *Compilation) NoteSecrets(program *admission.Program, m *Match, excluded *rule.Excluded, params *admissionv1.ParamKind, data []admission.Data) {
	if program == nil {
		return
	}
	all, only := actsOnSecrets(m, excluded)
	for _, t := range program.Tellings() {
		if name := toldBy(&t, all && !t.Mutates, !only || !t.Mutates, params, data); name != "" {
			c.Problems = append(c.Problems, rule.TellsSecret(t.Field, name, t.Mutates))
		}
	}
}

// toldBy returns what an expression reads of a Secret: of the object if it may be one, or of others.
func toldBy(t *admission.Telling, object, others bool, params *admissionv1.ParamKind, data []admission.Data) string {
	for _, field := range []string{"data", "stringData"} {
		for _, variable := range []string{"object", "oldObject"} {
			if object && t.ReadsBelow(variable, field) {
				return variable + "." + field
			}
		}
		if others && params != nil && schema.FromAPIVersionAndKind(params.APIVersion, params.Kind) == secretKind && t.ReadsBelow("params", field) {
			return "params." + field
		}
		for i := range data {
			if others && data[i].Kind == secretKind && t.ReadsBelow("data", data[i].Name, field) {
				return "data." + data[i].Name
			}
		}
	}
	return ""
}

// actsOnSecrets reports whether a policy acts on Secrets, and whether it acts on nothing else.
func actsOnSecrets(m *Match, excluded *rule.Excluded) (secrets, only bool) {
	resources := m.Resources
	resources.Rules = slices.Clone(resources.Rules)
	only = len(resources.Rules) > 0
	for i := range resources.Rules {
		r := &resources.Rules[i]
		// A rule for some names is for Secrets, too.
		r.Names = nil
		only = only && slices.Equal(r.Groups, []string{""}) && slices.Equal(r.Resources, []string{"secrets"})
	}
	if excluded.HasResource("", "secrets") {
		return false, only
	}
	return slices.ContainsFunc(usher.Operations(), func(o usher.Operation) bool {
		return resources.Matches(&usher.Request{
			Phase: usher.Validate, Operation: o, Namespace: "any", Name: "any",
			Kind: secretKind, Resource: secretKind.GroupVersion().WithResource("secrets"),
		})
	}), only
}
