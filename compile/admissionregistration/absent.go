package admissionregistration

import (
	"errors"
	"fmt"

	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/rule"
)

// HasParams reports whether the policy has a kind of params.
func (p *Policy) HasParams() bool { return p.params != nil }

// HasParams reports whether the binding names params.
func (b *Binding) HasParams() bool { return b.params != nil }

// Params names the params of a binding of p. It is false if there are none, or if every request
// has other ones.
func (b *Binding) Params(p *Policy) (fact.Ref, bool) {
	if p.params == nil || b.params == nil || b.params.name == "" && b.params.selector == nil {
		return fact.Ref{}, false
	}
	o := b.params.object(p.params, "")
	return fact.Ref{Object: o}, o.Namespace != "" || !isNamespaced(p.params)
}

// Absent returns the problem that the params of a binding of p do not exist, or cannot be read,
// given the value or error of the fact that [Binding.Params] names. Otherwise it is false. The
// problem has no Policy and no File; its field is one of the binding.
func (b *Binding) Absent(p *Policy, value any, err error) (rule.Problem, bool) {
	_, absent := errors.AsType[*fact.NotFound](err)
	scope, misplaced := errors.AsType[*fact.WrongScope](err)
	kind, unknown := errors.AsType[*fact.NoKind](err)
	// What params do that cannot be read; parameterNotFoundAction is not about that.
	effect := "every request that the binding is for is denied"
	if p.ignore {
		effect = "the binding does nothing"
	}
	problem := rule.Problem{Severity: rule.Warning, Field: "spec.paramRef"}
	switch {
	case unknown:
		problem.What = fmt.Sprintf("there is no kind %s in %s: %s", kind.Kind, kind.APIVersion, effect)
		problem.Do = "create its CustomResourceDefinition, or correct spec.paramKind of the policy"
	case misplaced && scope.Namespaced:
		// Each request has those of its own namespace.
		return rule.Problem{}, false
	case misplaced:
		problem.Field = "spec.paramRef.namespace"
		problem.What = fmt.Sprintf("objects of the kind %s are in no namespace: %s", p.params.Kind, effect)
		problem.Do = "remove the namespace"
	case err != nil && !absent:
		problem.What = fmt.Sprintf("the params cannot be read: %v: %s", err, effect)
		problem.Do = "see that they can be read: every request that the binding is for needs them"
	case len(objectsOf(value)) > 0:
		return rule.Problem{}, false
	default:
		if !b.params.required {
			effect = "the binding does nothing"
		}
		problem.What = fmt.Sprintf("there is no %s: %s", b.params.object(p.params, ""), effect)
		problem.Do = "create the object, or correct spec.paramRef"
	}
	return problem, true
}
