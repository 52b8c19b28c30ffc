package guard

import (
	"context"
	"fmt"
	"strings"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// stamp records when a policy that has to be confirmed was written: the time to confirm it starts
// again with every change of its spec.
func (g *guard) stamp(object api.Object) usher.Patch {
	p, ok := object.(*v1alpha1.ClusterAuthorizationPolicy)
	if !ok || p.Spec.ConfirmWithin == nil {
		return nil
	}
	now := g.options.Now().UTC().Format(time.RFC3339)
	if p.Annotations == nil {
		return usher.Patch{{Op: "add", Path: "/metadata/annotations", Value: map[string]any{v1alpha1.AnnotationSince: now}}}
	}
	path := "/metadata/annotations/" + strings.ReplaceAll(v1alpha1.AnnotationSince, "/", "~1")
	return usher.Patch{{Op: "add", Path: path, Value: now}}
}

// authorize decides on a policy that compiles: whether a Deny would harm the cluster, and whether
// the writer has the rights that the policy needs. If it refuses the policy, d says why.
func (g *guard) authorize(ctx context.Context, r *usher.Request, c compile.Compiled) (warnings []string, d usher.Decision, refused bool) {
	var why refusal
	if len(c.Access) > 0 {
		var harm string
		warnings, harm = g.replay(ctx, c.Access[0].Policy, c.Access)
		why = because(harm)
	}
	if why == (refusal{}) {
		why = g.missing(ctx, r, c)
	}
	if why == (refusal{}) {
		if len(c.Access) > 0 {
			warnings = append(warnings, beginning(c.Access[0].Policy)...)
		}
		return warnings, usher.Decision{}, false
	}
	return warnings, why.denial(usher.Finding{Policy: c.Ref, Written: true, Rule: "spec"}), true
}

// missing returns the right that the writer of a policy lacks; nothing if there is none, or if rights
// are not checked. Nobody has the right to an exemption that ends too late.
func (g *guard) missing(ctx context.Context, r *usher.Request, c compile.Compiled) refusal {
	if why := g.latePart(c); why != "" {
		return because(why)
	}
	if g.options.May == nil {
		return refusal{}
	}
	rights, err := RightsOf(ctx, r.User, c, g.options.Places)
	if err != nil {
		return unless("", fmt.Errorf("could not check which rights it needs: %w, try again", err))
	}
	if r.Operation == usher.Update && deniesForPlatform(r.OldObject) != nil {
		// A change of the tier or the effect deletes the platform denial.
		rights = append(rights, useTier(r.User, authz.Platform))
	}
	return unless(rights.Missing(ctx, g.options.May))
}

// beginning returns advice for users who start to deny.
func beginning(p *authz.Policy) []string {
	if p.Effect != authz.Deny || p.Audit || !p.Confirm.IsZero() {
		return nil
	}
	return []string{"spec.enforcement: the policy denies at once (begin with Audit, or set confirmWithin, to see whom it would deny)"}
}

// shown is the number of requests that a message names.
const shown = 5

// replay evaluates a Deny on the requests that a cluster needs. If the policy would deny some of
// them and is not in Audit mode, replay returns the reason to refuse it.
func (g *guard) replay(ctx context.Context, p *authz.Policy, rules []*authz.Rule) (warnings []string, why string) {
	if g.options.Judge == nil || p.Effect != authz.Deny {
		return nil, ""
	}
	inForce := *p
	inForce.Audit, inForce.Confirm, inForce.Until = false, time.Time{}, time.Time{}
	tried := make([]*authz.Rule, len(rules))
	for i, r := range rules {
		copied := *r
		copied.Policy = &inForce
		tried[i] = &copied
	}
	denied, protected := tally(ctx, g.options.Judge(tried))
	if protected > 0 {
		warnings = append(warnings, fmt.Sprintf("spec.subjects: %d requests of the control plane match; they are never denied (add the control plane to excludeSubjects to keep them out of the log)", protected))
	}
	if len(denied) == 0 {
		return warnings, ""
	}
	why = fmt.Sprintf("it would deny %d requests without which the cluster cannot be operated: %s", len(denied), some(denied))
	if p.Audit {
		return append(warnings, "spec: once enforced, "+why), ""
	}
	return warnings, why + " (add these users to excludeSubjects, or narrow the rules)"
}

// tally returns the critical requests that are denied, and how many would be if their users
// were not protected.
func tally(ctx context.Context, judge usher.Decider) (denied []string, protected int) {
	for _, r := range critical() {
		d, err := judge.Decide(ctx, r)
		switch {
		case err != nil || d.Verdict == usher.Deny:
			denied = append(denied, describe(r))
		case len(d.Findings) > 0:
			protected++
		}
	}
	return denied, protected
}

func some(texts []string) string {
	if len(texts) <= shown {
		return strings.Join(texts, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(texts[:shown], "; "), len(texts)-shown)
}

// describe summarizes a request to authorize.
func describe(r *usher.Request) string {
	return r.User.Name + " " + asked(r)
}

// asked describes the verb and target of a request.
func asked(r *usher.Request) string { return r.Access.Verb + target(r) }

// target describes what a request is for, after the verb.
func target(r *usher.Request) string {
	if r.Access.NonResource {
		return " " + r.Access.Path
	}
	text := " " + r.Resource.Resource
	if r.Subresource != "" {
		text += "/" + r.Subresource
	}
	if r.Resource.Group != "" {
		text += "." + r.Resource.Group
	}
	if r.Name != "" {
		text += " " + r.Name
	}
	if r.Namespace != "" {
		text += " in " + r.Namespace
	}
	return text
}
