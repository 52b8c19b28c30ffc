package object

import (
	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/compile/authorization"
	"github.com/usher-dev/usher/internal/compile/spec"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/rule"
)

// Pending returns a policy whose expressions are not compiled yet: for all requests that its match
// constraints and its bindings select, it fails, so that its failure policy applies. It compiles none
// of what takes long.
func Pending(p *v1alpha1.ObjectPolicy, limits rule.Limits) *Policy {
	o := &Policy{
		ref:   usher.PolicyRef{Kind: "ObjectPolicy", Namespace: p.Namespace, Name: p.Name},
		kinds: limits.Namespaced.Excluded(), pods: v1alpha1.PodTemplatesOff,
	}
	c := compilation{Compilation: &spec.Compilation{}, policy: o, options: &Options{Limits: limits}}
	o.match = c.Constraints(&p.Spec.MatchConstraints)
	o.ignore = p.Spec.FailurePolicy != "" && c.FailurePolicy(&p.Spec.FailurePolicy)
	o.subjects, _ = authorization.Subjects("spec.subjects", p.Spec.Subjects)
	o.excluded, _ = authorization.Subjects("spec.excludeSubjects", p.Spec.ExcludeSubjects)
	bindings := make([]v1alpha1.Binding, len(p.Spec.Bindings))
	for i := range bindings {
		bindings[i] = p.Spec.Bindings[i]
		bindings[i].ParamRef, bindings[i].Params = nil, nil
	}
	c.bindings(bindings)
	o.data = c.Data(nil, p.Namespace, &limits)
	fails := spec.Failing("the policy is not compiled yet")
	if len(p.Spec.Validations)+len(p.Spec.AuditAnnotations) > 0 {
		o.validations = []validation{{severity: severityOf(&p.Spec, p.Annotations)}}
		o.validate = c.program(admission.Code{Ignore: o.ignore, Validations: []admission.Validation{{Program: fails}}})
	}
	if len(p.Spec.Mutations) > 0 {
		o.mutate = c.program(admission.Code{Ignore: o.ignore, Mutations: []admission.Mutation{{Type: admission.JSONPatch, Program: fails}}})
	}
	return o
}
