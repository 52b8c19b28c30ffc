package guard

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/jsonpatch"
	"github.com/usher-dev/usher/internal/rule"
)

// sign adds to the patch of d the annotation that says who has suspended a policy, and when. It
// removes any other value that the request has.
func (g *guard) sign(r *usher.Request, d usher.Decision) (usher.Decision, error) {
	tree, err := r.Object.Tree()
	if err != nil {
		return d, nil //nolint:nilerr // It has been decoded before d, which is a denial otherwise.
	}
	if tree, _, err = jsonpatch.Apply(tree, d.Patch); err != nil {
		return usher.Decision{}, err
	}
	written, err := decodeObject(r, usher.TreeObject(tree))
	if err != nil {
		return d, nil //nolint:nilerr // What the patch of d makes of it is refused when it is validated.
	}
	who, old := "", oldPolicy(r)
	if !api.Suspended(written.Object) && (old == nil || !api.Suspended(old)) && written.Object.GetAnnotations()[api.AnnotationSuspended] != "" {
		// It is removed: no later check can tell.
		d.Warnings = append(slices.Clip(d.Warnings), warningsOf(compile.NotSuspending(written.Object))...)
	}
	if api.Suspended(written.Object) {
		who = r.User.Name + " at " + g.options.Now().UTC().Format(time.RFC3339)
		if old != nil && api.Suspended(old) {
			who = old.GetAnnotations()[api.AnnotationSuspended]
		}
	}
	patch := annotate(written.Object, api.AnnotationSuspended, who)
	if len(patch) == 0 {
		return d, nil
	}
	d.Patch = append(slices.Clip(d.Patch), patch...)
	d.Findings = append(slices.Clip(d.Findings), usher.Finding{
		Policy: compile.Ref(written.Object), Written: true, Rule: "metadata.annotations", Outcome: usher.Changed, Patch: patch,
	})
	return d, nil
}

// others decides by the policies that select the written one: none does if the write only suspends it, as
// none does if it is deleted. A policy that denies everything can be suspended.
func (g *guard) others(ctx context.Context, r *usher.Request) (usher.Decision, error) {
	if onlySuspends(r) {
		return usher.Allowed(), nil
	}
	return g.judged(ctx, r)
}

// judged decides by the policies that select the written one. A denial says how one of them is turned off: a person who tries
// to would take it for a policy that protects itself.
func (g *guard) judged(ctx context.Context, r *usher.Request) (usher.Decision, error) {
	d, err := g.next.Decide(ctx, r)
	if err == nil && d.Verdict == usher.Deny && writesPolicy(r) && r.Operation == usher.Update {
		d.Warnings = append(slices.Clip(d.Warnings), fmt.Sprintf("a policy refuses this write: what is never refused is to set %s and nothing else, or to delete a policy", suspension(r)))
	}
	return d, err
}

// suspension is what suspends the policy that a request writes.
func suspension(r *usher.Request) string {
	if policy, err := decode(r); err == nil && api.SuspendField(policy.Object) != "spec.suspend" {
		return "the annotation " + api.AnnotationSuspend + `: "true"`
	}
	return "spec.suspend: true"
}

// onlySuspends reports whether an update suspends a policy and changes nothing else, but for what API
// servers and kubectl write along.
func onlySuspends(r *usher.Request) bool {
	if r.Operation != usher.Update || r.OldObject == nil {
		return false
	}
	old := oldPolicy(r)
	written, err := decodeObject(r, r.Object)
	if err != nil || old == nil || api.Suspended(old) || !api.Suspended(written.Object) {
		return false
	}
	object, err := r.Object.Tree()
	if err != nil {
		return false
	}
	before, err := r.OldObject.Tree()
	return err == nil && reflect.DeepEqual(unsuspended(object), unsuspended(before))
}

// unsuspended returns a policy without what suspends it, and without what writers do not write.
func unsuspended(tree map[string]any) map[string]any {
	all := maps.Clone(tree)
	delete(all, "status")
	if spec, ok := all["spec"].(map[string]any); ok {
		spec = maps.Clone(spec)
		delete(spec, "suspend")
		all["spec"] = spec
	}
	metadata, ok := all["metadata"].(map[string]any)
	if !ok {
		return all
	}
	metadata = maps.Clone(metadata)
	for _, field := range []string{"managedFields", "generation", "resourceVersion"} {
		delete(metadata, field)
	}
	annotations, _ := metadata["annotations"].(map[string]any)
	annotations = maps.Clone(annotations)
	for _, name := range []string{api.AnnotationSuspend, api.AnnotationSuspended, corev1.LastAppliedConfigAnnotation} {
		delete(annotations, name)
	}
	delete(metadata, "annotations")
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	all["metadata"] = metadata
	return all
}

// annotationIn returns an annotation of an object; empty if it has none.
func annotationIn(object map[string]any, name string) string {
	value, _, _ := unstructured.NestedString(object, "metadata", "annotations", name)
	return value
}

// whileSuspended returns the problems of a suspended policy as warnings: its errors count when it is to decide something.
func whileSuspended(problems []rule.Problem) []rule.Problem {
	for i, p := range problems {
		if p.Severity == rule.Error {
			problems[i] = rule.Problem{Policy: p.Policy, What: "cannot be put into force again: " + sentence(p)}
		}
	}
	return asWarnings(problems)
}

// asWarnings returns problems as warnings.
func asWarnings(problems []rule.Problem) []rule.Problem {
	for i := range problems {
		problems[i].Severity = rule.Warning
	}
	return problems
}
