package guard

import (
	"context"
	"net/http"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/compile"
	"github.com/usher-dev/usher/rule"
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
	why := ""
	if errs := rule.Errors(compiled.Problems); len(errs) > 0 {
		why = sentence(errs[0])
	} else {
		why = g.missing(ctx, r, compiled)
	}
	if why == "" {
		return usher.Decision{}, false
	}
	why = "its annotations " + v1alpha1.AnnotationConfirmed + " and " + v1alpha1.AnnotationSince + " say when it ends: " + why
	d = usher.Denied("%s: %s", compile.Ref(policy.Object), why)
	d.Code, d.Reason = http.StatusForbidden, d.Message
	d.Findings = []usher.Finding{{Policy: compiled.Ref, Written: true, Rule: "metadata.annotations", Outcome: usher.Rejected, Message: why}}
	return d, true
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
