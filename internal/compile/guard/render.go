package guard

import (
	"fmt"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/lang/condition"
	"github.com/usher-dev/usher/internal/lang/template"
	"github.com/usher-dev/usher/internal/rule"
)

// A rendering is the result of the templates of one policy. Its patch holds what the policy does
// not contain yet.
type rendering struct {
	templates int
	patch     usher.Patch
	problems  []rule.Problem
}

// render renders every template of a policy and fills in its defaults.
func render(object api.Object) *rendering {
	r := &rendering{}
	switch object := object.(type) {
	case *v1alpha1.OverridePolicy:
		r.overrides(object.Spec.OverrideRules)
	case *v1alpha1.ClusterOverridePolicy:
		r.overrides(object.Spec.OverrideRules)
	case *v1alpha1.ClusterValidatePolicy:
		r.validations(object.Spec.ValidateRules)
	}
	return r
}

func (r *rendering) overrides(rules []v1alpha1.OverrideRule) {
	for i := range rules {
		o := &rules[i].Overriders
		if o.Template == nil {
			continue
		}
		r.templates++
		source, problems := template.Render(o.Template)
		r.add(fmt.Sprintf("spec.overrideRules[%d].overriders.", i), problems)
		r.set(fmt.Sprintf("/spec/overrideRules/%d/overriders/renderedCue", i), o.RenderedCue, source)
	}
}

func (r *rendering) validations(rules []v1alpha1.ValidateRule) {
	for i := range rules {
		if rules[i].Template == nil {
			continue
		}
		r.templates++
		t, _ := condition.Default(rules[i].Template)
		path := fmt.Sprintf("/spec/validateRules/%d", i)
		r.defaults(path+"/template", rules[i].Template, t)
		source, problems := condition.Render(t)
		r.add(fmt.Sprintf("spec.validateRules[%d].", i), problems)
		r.set(path+"/renderedCue", rules[i].RenderedCue, source)
	}
}

// defaults adds to the patch the fields that t has and written lacks.
func (r *rendering) defaults(path string, written, t *v1alpha1.ValidateRuleTemplate) {
	if t.Condition != nil {
		r.set(path+"/condition/affectMode", string(written.Condition.AffectMode), string(t.Condition.AffectMode))
	}
	if t.PodAvailableBadge == nil || written.PodAvailableBadge.ReplicaReference != nil {
		return
	}
	if ref := t.PodAvailableBadge.ReplicaReference; ref != nil {
		r.patch = append(r.patch, usher.PatchOp{Op: "add", Path: path + "/podAvailableBadge/replicaReference", Value: map[string]any{
			"from":               string(ref.From),
			"targetReplicaPath":  ref.TargetReplicaPath,
			"currentReplicaPath": ref.CurrentReplicaPath,
		}})
	}
}

// set patches a text that differs from the wanted one: the operation add also replaces existing
// values.
func (r *rendering) set(path, is, want string) {
	if is != want {
		r.patch = append(r.patch, usher.PatchOp{Op: "add", Path: path, Value: want})
	}
}

func (r *rendering) add(prefix string, problems []rule.Problem) {
	for _, p := range problems {
		p.Field = prefix + p.Field
		r.problems = append(r.problems, p)
	}
}
