// Package object compiles the object policies of usher.dev/v1alpha1: what they validate and change, for
// which users and bindings, with which params.
package object

import (
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/compile/spec"
	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// The names of the rules of an object policy.
const (
	validationsRule = "spec.validations"
	mutationsRule   = "spec.mutations"
)

// The passes of rules that mutate: after the kinds of kinitiras. Rules that run again see what
// everybody else has changed.
const (
	passCluster    = 3
	passNamespaced = 4
	passAgain      = 9
)

// A Policy is an object policy, compiled. It is immutable.
type Policy struct {
	ref                usher.PolicyRef
	match              spec.Match
	subjects, excluded []authz.Subject
	paramKind          *admissionv1.ParamKind
	ignore, again      bool
	bindings           []binding
	validations        []validation
	// validate and mutate are nil if there is nothing to do.
	validate, mutate *admission.Program
	// pods says what follows if the pod of a workload fails validations.
	pods v1alpha1.PodTemplates
	// existing says which objects are validated when their namespace changes; nil if none are.
	existing *existing
	facts    *fact.Bounds
	data     *spec.Data
	kinds    *rule.Excluded
}

// A binding puts a policy into force for some of its requests.
type binding struct {
	name string
	// match is nil for all requests of the policy.
	match   *spec.Match
	actions actions
	params  *spec.Params
	// values are the params unless they are read: one that is written in place, which bindings with
	// equal ones share, or nil.
	values []map[string]any
	// size and digest are those of a value that is written in place.
	size   cel.Size
	digest rule.Digest
}

// A validation is what a validation of a policy has besides its expressions.
type validation struct {
	name, field string
	severity    usher.Severity
}

// Ref returns the reference of the policy.
func (o *Policy) Ref() usher.PolicyRef { return o.ref }

// Rules returns the rules of the policy.
func (o *Policy) Rules() []rule.Rule {
	var rules []rule.Rule
	if o.ref.Kind == "ObjectPolicy" && o.ref.Namespace == "" {
		return nil
	}
	if o.mutate != nil {
		r := o.rule(mutationsRule, usher.Mutate, newMutator(o))
		r.Match.Resources = []rule.ResourceMatch{spec.Changing(o.match.Resources)}
		r.Pass, r.Reinvoked = passCluster, o.again
		switch {
		case o.again:
			r.Pass = passAgain
		case o.ref.Namespace != "":
			r.Pass = passNamespaced
		}
		rules = append(rules, r)
	}
	if o.validate != nil {
		v := newValidator(o)
		r := o.rule(validationsRule, usher.Validate, v)
		r.NotForCleanup = !readsOwners(v.ReadPaths())
		rules = append(rules, r)
	}
	if o.pods != v1alpha1.PodTemplatesOff {
		rules = append(rules, o.podRule())
	}
	if o.existing != nil {
		rules = append(rules, o.existingRule())
	}
	return rules
}

// readsOwners reports whether one of paths leads to finalizers or owners.
func readsOwners(paths ...*usher.Paths) bool {
	return slices.ContainsFunc(paths, func(p *usher.Paths) bool {
		return p.Meets("metadata", "finalizers") || p.Meets("metadata", "ownerReferences")
	})
}

func (o *Policy) rule(name string, phase usher.Phase, program rule.Program) rule.Rule {
	r := rule.Rule{
		Policy: o.ref, Name: name, Phase: phase, FailurePolicy: usher.Fail, Facts: o.facts,
		Match: rule.Match{
			Namespace: o.ref.Namespace, Namespaces: namespaces(o), Excluded: o.kinds, Resources: []rule.ResourceMatch{o.match.Resources},
		},
		Steps: []rule.Step{{Name: "cel", Program: program}},
	}
	if o.ignore {
		r.FailurePolicy = usher.Ignore
	}
	if len(o.bindings) == 1 && o.bindings[0].match != nil {
		if own := o.bindings[0].match.Own(); own != nil {
			r.Match.Resources = append(r.Match.Resources, *own)
		}
	}
	return r
}

// namespaces returns those of the objects in namespaces that the policy may be for with one of its bindings.
func namespaces(o *Policy) rule.Namespaces {
	all, bound := o.match.Namespaces(), rule.Namespaces{Only: true}
	for i := range o.bindings {
		if o.bindings[i].match == nil {
			return all
		}
		bound = bound.Or(o.bindings[i].match.Namespaces())
	}
	return all.And(bound)
}

// Matches returns what requests the policy is for, whatever its bindings say.
func (o *Policy) Matches() *rule.ResourceMatch { return &o.match.Resources }

// Narrowed returns what requests the bindings are for, of those of the policy, by the field where that is
// written.
func (o *Policy) Narrowed() map[string]*rule.ResourceMatch {
	all := map[string]*rule.ResourceMatch{}
	for i := range o.bindings {
		if match := o.bindings[i].match; match != nil {
			all[fmt.Sprintf("spec.bindings[%d].matchResources", i)] = &match.Resources
		}
	}
	return all
}

// Params returns the kind of the params; empty if there are none.
func (o *Policy) Params() schema.GroupVersionKind {
	if o.paramKind == nil {
		return schema.GroupVersionKind{}
	}
	return schema.FromAPIVersionAndKind(o.paramKind.APIVersion, o.paramKind.Kind)
}

// Expressions returns the expressions of the policy, to check their types.
func (o *Policy) Expressions() []admission.Expression {
	var all []admission.Expression
	for _, program := range []*admission.Program{o.validate, o.mutate} {
		if program == nil {
			continue
		}
		for _, e := range program.Expressions() {
			if !slices.Contains(all, e) {
				all = append(all, e)
			}
		}
	}
	return all
}

// Unbound returns the rules of the policy as if a binding put it into force for everything that it
// matches, by anyone, with the params that are written in place.
func (o *Policy) Unbound() []rule.Rule {
	var bindings []binding
	for i := range o.bindings {
		if values := o.bindings[i].values; values[0] != nil {
			bindings = append(bindings, binding{actions: deny, values: values, size: o.bindings[i].size})
		}
	}
	return o.unbound(bindings)
}

// Paramless returns the field of a binding without params beside others that have some in place, and the
// rules as [Policy.Unbound] returns them for that binding; none if there is no such binding.
func (o *Policy) Paramless() (field string, rules []rule.Rule) {
	has := func(b binding) bool { return b.values[0] != nil }
	bare := slices.IndexFunc(o.bindings, func(b binding) bool { return !has(b) })
	if o.paramKind != nil || bare < 0 || !slices.ContainsFunc(o.bindings, has) {
		return "", nil
	}
	return fmt.Sprintf("spec.bindings[%d].params", bare), o.unbound(nil)
}

// unbound returns the rules of the policy with other bindings, or one without params.
func (o *Policy) unbound(bindings []binding) []rule.Rule {
	unbound := *o
	unbound.subjects, unbound.excluded = nil, nil
	unbound.bindings, unbound.pods, unbound.existing = bindings, v1alpha1.PodTemplatesOff, nil
	if len(bindings) == 0 {
		unbound.bindings = []binding{{actions: deny, values: []map[string]any{nil}}}
	}
	return unbound.Rules()
}
