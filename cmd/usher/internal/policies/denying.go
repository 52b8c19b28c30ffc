package policies

import (
	"context"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
)

// Denying returns the set as if every binding denied.
func (p Set) Denying(ctx context.Context) (Set, error) {
	var all []api.Policy
	theirs := map[usher.PolicyRef]bool{}
	for i := range p.compiled {
		policy := p.compiled[i].Policy
		if policy.Proof.State == api.Unproven {
			continue
		}
		policy.Object = denying(policy.Object)
		all = append(all, policy)
		theirs[p.compiled[i].Ref] = p.compiled[i].Elsewhere
	}
	compiled, err := p.compiler.All(ctx, all)
	if err != nil {
		return Set{}, err
	}
	return setOf(p.compiler, compiled, theirs), nil
}

// denying returns a copy of a policy, or of a binding, that denies.
func denying(object api.Object) api.Object {
	deny := []admissionv1.ValidationAction{admissionv1.Deny}
	bound := func(bindings []v1alpha1.Binding) {
		for i := range bindings {
			bindings[i].ValidationActions = deny
		}
	}
	copied, ok := runtime.Object(object).DeepCopyObject().(api.Object)
	if !ok {
		return object
	}
	switch o := copied.(type) {
	case *v1alpha1.ClusterObjectPolicy:
		bound(o.Spec.Bindings)
	case *v1alpha1.ObjectPolicy:
		bound(o.Spec.Bindings)
	case *admissionv1.ValidatingAdmissionPolicyBinding:
		o.Spec.ValidationActions = deny
	}
	return copied
}
