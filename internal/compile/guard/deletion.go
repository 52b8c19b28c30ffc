package guard

import (
	"context"
	"slices"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// deletion decides on requests that delete policies. All policies may be deleted, except denials in
// the tier platform: deleting these needs the same rights as writing them. The second result
// reports whether the guard decides the request; if so, other policies are not evaluated.
func (g *guard) deletion(ctx context.Context, r *usher.Request) (usher.Decision, bool) {
	if r.Phase != usher.Validate || r.Operation != usher.Delete || r.Subresource != "" {
		return usher.Decision{}, false
	}
	at, _ := rule.ParseEntry(r.Entry)
	asked := at.Part == rule.Deletions
	denial := deniesForPlatform(r.OldObject)
	if denial == nil || g.options.May == nil || exemptFromDeletion(r.User) {
		return usher.Allowed(), asked
	}
	why := unless((Rights{useTier(r.User, authz.Platform)}).Missing(ctx, g.options.May))
	if why == (refusal{}) {
		return usher.Allowed(), asked
	}
	why.why = "to delete it: " + why.why
	return why.denial(usher.Finding{Policy: compile.Ref(denial), Written: true, Rule: "spec.tier"}), true
}

// deniesForPlatform decodes an object and returns the policy if it denies in the tier platform; nil
// otherwise.
func deniesForPlatform(object *usher.Object) *v1alpha1.ClusterAuthorizationPolicy {
	raw, err := object.Raw()
	if err != nil || raw == nil {
		return nil
	}
	policy, err := api.Decode(raw)
	if err != nil {
		return nil
	}
	p, ok := policy.Object.(*v1alpha1.ClusterAuthorizationPolicy)
	if !ok || string(p.Spec.Tier) != authz.Platform.String() || p.Spec.Effect != v1alpha1.EffectDeny {
		return nil
	}
	return p
}

// exemptFromDeletion reports whether the user is exempt: controllers that delete namespaces and
// objects without owners, and users who rescue a cluster.
func exemptFromDeletion(user usher.User) bool {
	switch user.Name {
	case "system:serviceaccount:kube-system:namespace-controller", "system:serviceaccount:kube-system:generic-garbage-collector":
		return true
	}
	return slices.Contains(user.Groups, "system:masters")
}
