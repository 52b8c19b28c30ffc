package compile

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/rule"
)

// Twice returns a warning for every admission policy of cs that API servers enforce, too: known are
// the policies and bindings that they have.
func Twice(cs []Compiled, known []api.Policy) []rule.Problem {
	enforced := map[usher.PolicyRef]bool{}
	bound := map[usher.PolicyRef]bool{}
	for _, p := range known {
		if policy, ok := boundBy(p.Object); ok {
			bound[policy] = true
		} else {
			enforced[Ref(p.Object)] = true
		}
	}
	var problems []rule.Problem
	for i := range cs {
		c := &cs[i]
		if !enforced[c.Ref] || !bound[c.Ref] {
			continue
		}
		position := c.Policy.Position("metadata.name")
		problems = append(problems, rule.Problem{
			Policy: c.Ref, Severity: rule.Warning, Field: "metadata.name", File: position.File, Line: position.Line,
			What: fmt.Sprintf("the API server has a %s of this name, too, and enforces it: requests are decided twice", c.Ref.Kind),
			Do:   "delete that of the cluster, or this one",
		})
	}
	return problems
}

// boundBy returns the policy that a binding puts into force, if the object is a binding.
func boundBy(object api.Object) (usher.PolicyRef, bool) {
	switch b := object.(type) {
	case *admissionv1.ValidatingAdmissionPolicyBinding:
		return usher.PolicyRef{Kind: "ValidatingAdmissionPolicy", Name: b.Spec.PolicyName}, true
	case *admissionv1.MutatingAdmissionPolicyBinding:
		return usher.PolicyRef{Kind: "MutatingAdmissionPolicy", Name: b.Spec.PolicyName}, true
	}
	return usher.PolicyRef{}, false
}
