package compile

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/rule"
)

// A Typed is a policy whose expressions have types: an admission policy or an object policy.
type Typed interface {
	// Matches returns what requests the policy is for, whatever its bindings say.
	Matches() *rule.ResourceMatch
	// Params returns the kind of the params; empty if there are none.
	Params() schema.GroupVersionKind
	// Data returns the sources of data whose kinds are known.
	Data() []admission.Data
	// Expressions returns the expressions of the policy.
	Expressions() []admission.Expression
	// Unbound returns the rules of the policy as if a binding put it into force for everything that
	// it matches, without params.
	Unbound() []rule.Rule
}

// Narrowed returns what narrows the requests that a policy or an exemption is for, besides the
// constraints of a [Typed], by the field where it is written.
func (c *Compiled) Narrowed() map[string]*rule.ResourceMatch {
	switch {
	case c.Binding != nil:
		return map[string]*rule.ResourceMatch{"spec.matchResources": c.Binding.Matches()}
	case c.Exemption != nil && c.Exemption.Resources != nil:
		return map[string]*rule.ResourceMatch{"spec.matchConstraints": c.Exemption.Resources}
	case c.Object != nil:
		return c.Object.Narrowed()
	}
	return nil
}

// Typed returns the policy if its expressions have types, and nil otherwise.
func (c *Compiled) Typed() Typed {
	switch {
	case c.Admission != nil:
		return c.Admission
	case c.Object != nil:
		return c.Object
	}
	return nil
}
