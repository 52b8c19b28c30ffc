package spec

import (
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/rule"
)

// Ref names the params of a kind. It is false if there are none, or if every request has other
// ones.
func (p *Params) Ref(kind *admissionv1.ParamKind) (*fact.Object, bool) {
	if kind == nil || p == nil || p.name == "" && p.selector == nil {
		return nil, false
	}
	o := p.object(kind, "")
	return o, o.Namespace != "" || !isNamespaced(kind)
}

// Absent returns the problem that params do not exist, or cannot be read, given the value or error
// of the fact that [Params.Ref] names. Otherwise it is false. Ignore is whether the failurePolicy is
// Ignore. The problem has no Policy and no File; its field is that of the paramRef.
func (p *Params) Absent(paramKind *admissionv1.ParamKind, ignore bool, value any, err error) (rule.Problem, bool) {
	_, absent := errors.AsType[*fact.NotFound](err)
	scope, misplaced := errors.AsType[*fact.WrongScope](err)
	kind, unknown := errors.AsType[*fact.NoKind](err)
	// What params do that cannot be read; parameterNotFoundAction is not about that.
	effect := "every request that the binding is for is denied"
	if ignore {
		effect = "the binding does nothing"
	}
	problem := rule.Problem{Severity: rule.Warning, Field: p.field}
	switch {
	case unknown:
		problem.What = fmt.Sprintf("there is no kind %s in %s: %s", kind.Kind, kind.APIVersion, effect)
		problem.Do = "correct spec.paramKind of the policy, or have its CustomResourceDefinition created"
	case misplaced && scope.Namespaced:
		// Each request has those of its own namespace.
		return rule.Problem{}, false
	case misplaced:
		problem.Field = p.field + ".namespace"
		problem.What = fmt.Sprintf("objects of the kind %s are in no namespace: %s", paramKind.Kind, effect)
		problem.Do = "remove the namespace"
	case err != nil && !absent:
		problem.What = fmt.Sprintf("the params cannot be read: %v: %s", err, effect)
		problem.Do = "see that they can be read: every request that the binding is for needs them"
	case len(objectsOf(value)) > 0:
		return rule.Problem{}, false
	default:
		if !p.required {
			effect = "the binding does nothing"
		}
		problem.What = fmt.Sprintf("there is no %s: %s", p.object(paramKind, ""), effect)
		problem.Do = "create the object, or correct " + p.field
	}
	return problem, true
}
