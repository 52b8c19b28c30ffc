package guard

import (
	"context"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
)

// confirmation refuses to change when a Deny ends if the user may not write the policy: two
// annotations set that time, so the spec stays the same.
func (g *guard) confirmation(ctx context.Context, r *usher.Request) (d usher.Decision, refused bool) {
	if g.options.May == nil || !writesPolicy(r) || r.Phase != usher.Validate || r.OldObject == nil {
		return usher.Decision{}, false
	}
	policy, err := decode(r)
	if err != nil {
		return usher.Decision{}, false
	}
	written, ok := policy.Object.(*v1alpha1.ClusterAuthorizationPolicy)
	old, known := oldPolicy(r).(*v1alpha1.ClusterAuthorizationPolicy)
	if !ok || !known || written.Spec.ConfirmWithin == nil || written.DeletionTimestamp != nil || endsAlike(written, old) {
		return usher.Decision{}, false
	}
	compiled := g.options.Compile.Policy(ctx, policy)
	why := broken(&compiled)
	if why == (refusal{}) {
		why = g.missing(ctx, r, compiled)
	}
	if why == (refusal{}) {
		return usher.Decision{}, false
	}
	why.why = "its annotations " + v1alpha1.AnnotationConfirmed + " and " + v1alpha1.AnnotationSince + " say when it ends: " + why.why
	return why.denial(usher.Finding{Policy: compiled.Ref, Written: true, Rule: "metadata.annotations"}), true
}

// endsAlike reports whether two versions of a policy with the same spec end at the same time.
func endsAlike(a, b *v1alpha1.ClusterAuthorizationPolicy) bool {
	for _, key := range []string{v1alpha1.AnnotationConfirmed, v1alpha1.AnnotationSince} {
		first, there := a.Annotations[key]
		second, known := b.Annotations[key]
		if first != second || there != known {
			return false
		}
	}
	return true
}
