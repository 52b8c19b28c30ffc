package admissionregistration

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/rule"
)

// Matches returns what requests the policy is for, whatever its bindings say.
func (p *Policy) Matches() *rule.ResourceMatch { return &p.match.Resources }

// Matches returns what requests the binding is for, of those of its policy.
func (b *Binding) Matches() *rule.ResourceMatch { return &b.match.Resources }

// Data returns nothing: admission policies have no data.
func (*Policy) Data() []admission.Data { return nil }

// Params returns the kind of the parameters; empty if there are none.
func (p *Policy) Params() schema.GroupVersionKind {
	if p.params == nil {
		return schema.GroupVersionKind{}
	}
	return schema.FromAPIVersionAndKind(p.params.APIVersion, p.params.Kind)
}

// Expressions returns the expressions of the policy, to check their types.
func (p *Policy) Expressions() []admission.Expression { return p.program.Expressions() }

// Unbound returns the rule of the policy as if a binding put it into force for everything that it
// matches, without parameters.
func (p *Policy) Unbound() []rule.Rule {
	unbound := bind(p, &Binding{kind: p.kind, policy: p.name, actions: []usher.Action{usher.ActDeny}})
	return []rule.Rule{unbound}
}
