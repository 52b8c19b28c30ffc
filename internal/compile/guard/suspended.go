package guard

import (
	"slices"
	"time"

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
	who := ""
	if api.Suspended(written.Object) {
		who = r.User.Name + " at " + g.options.Now().UTC().Format(time.RFC3339)
		if old := oldPolicy(r); old != nil && api.Suspended(old) {
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

// annotationIn returns an annotation of an object; empty if it has none.
func annotationIn(object map[string]any, name string) string {
	value, _, _ := unstructured.NestedString(object, "metadata", "annotations", name)
	return value
}

// asWarnings returns problems as warnings.
func asWarnings(problems []rule.Problem) []rule.Problem {
	for i := range problems {
		problems[i].Severity = rule.Warning
	}
	return problems
}
