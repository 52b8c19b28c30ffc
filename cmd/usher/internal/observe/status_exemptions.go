package observe

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/served"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/printable"
)

// endsSoon is how long before its end status names an exemption.
const endsSoon = 24 * time.Hour

// exempting returns the exemptions to look at, those of the cluster first: what no replica takes although it has not
// ended, and what is in force, and from all policies of a kind or about to end.
func exempting(policies []api.Policy, now time.Time) (notes []lookAt) {
	type exemption struct {
		note lookAt
		ends time.Time
	}
	var all []exemption
	for i := range policies {
		object := policies[i].Object
		spec, ok := api.Spec(object).(*usherv1alpha1.PolicyExemptionSpec)
		if !ok || spec.Suspend || !now.Before(spec.ExpiresAt.Time) {
			continue
		}
		ref := compile.Ref(object)
		run := "kubectl get " + served.Object(ref.Kind, ref.Namespace, ref.Name) + " -o yaml"
		if reason, why := notInForce(object); why != "" {
			if reason == v1alpha1.ReasonUnproven {
				why += "; if it is right: usher authz adopt " + served.Object(ref.Kind, ref.Namespace, ref.Name)
			}
			all = append(all, exemption{lookAt{ref, printable.Line(why), run}, time.Time{}})
			continue
		}
		var kinds []string
		for _, ref := range spec.PolicyRefs {
			if ref.Name == "*" && len(ref.Validations) == 0 {
				kinds = append(kinds, ref.Kind)
			}
		}
		from := "from all policies of kind " + some(slices.Compact(kinds))
		if len(kinds) == 0 {
			if spec.ExpiresAt.Sub(now) > endsSoon {
				continue
			}
			from = "from some policies"
		}
		what := fmt.Sprintf("exempts %s %s until %s: %s (owner: %s)", exempted(spec, ref.Namespace), from, spec.ExpiresAt.UTC().Format(time.RFC3339), spec.Reason, spec.Owner)
		all = append(all, exemption{lookAt{ref, printable.Line(what), run}, spec.ExpiresAt.Time})
	}
	slices.SortStableFunc(all, func(a, b exemption) int {
		return cmp.Or(clusterFirst(a.note.Policy, b.note.Policy), a.ends.Compare(b.ends))
	})
	for _, one := range all[:min(len(all), mostNotes)] {
		notes = append(notes, one.note)
	}
	return notes
}

// notInForce returns why no replica takes an exemption, with the reason in its status, or that it is not known whether they
// do; "" if they do.
func notInForce(object api.Object) (reason, why string) {
	var conditions []metav1.Condition
	switch e := object.(type) {
	case *usherv1alpha1.ClusterPolicyExemption:
		conditions = e.Status.Conditions
	case *usherv1alpha1.PolicyExemption:
		conditions = e.Status.Conditions
	}
	for _, condition := range []string{v1alpha1.ConditionProven, usherv1alpha1.ConditionValid} {
		c := meta.FindStatusCondition(conditions, condition)
		if c != nil && c.Status == metav1.ConditionFalse && !meta.IsStatusConditionTrue(conditions, usherv1alpha1.ConditionValid) {
			return c.Reason, "exempts nothing: " + c.Reason + ": " + c.Message
		}
	}
	switch c := meta.FindStatusCondition(conditions, usherv1alpha1.ConditionValid); {
	case c == nil:
		return "", "not known whether it is in force: Usher has not written its status"
	case c.ObservedGeneration < object.GetGeneration():
		return "", fmt.Sprintf("not known whether it is in force: Usher has not seen generation %d", object.GetGeneration())
	}
	return "", ""
}

// exempted says which requests an exemption is for.
func exempted(spec *usherv1alpha1.PolicyExemptionSpec, namespace string) string {
	some := len(spec.Subjects)+len(spec.Images)+len(spec.MatchConditions) > 0
	if m := spec.MatchConstraints; m != nil {
		if s := m.NamespaceSelector; s != nil && namespace == "" && len(s.MatchLabels) == 1 && len(s.MatchExpressions) == 0 {
			namespace = s.MatchLabels[corev1.LabelMetadataName]
		}
		some = some || len(m.ResourceRules)+len(m.ExcludeResourceRules) > 0 || selects(m, namespace)
	}
	which := "all requests"
	if some {
		which = "some requests"
	}
	if namespace == "" {
		return which
	}
	return which + " of namespace " + namespace
}

// selects reports whether selectors leave out requests of a namespace, or of the cluster if it is empty.
func selects(m *admissionv1.MatchResources, namespace string) bool {
	selects := func(s *metav1.LabelSelector) bool { return s != nil && len(s.MatchLabels)+len(s.MatchExpressions) > 0 }
	return selects(m.ObjectSelector) || namespace == "" && selects(m.NamespaceSelector)
}

// excludedFrom are the subjects that a policy excludes, whatever they do.
type excludedFrom struct {
	Policy   usher.PolicyRef         `json:"policy"`
	Subjects []usherv1alpha1.Subject `json:"subjects"`
}

// excluding returns the subjects that a policy which can refuse excludes.
func excluding(object api.Object) []usherv1alpha1.Subject {
	if api.Suspended(object) {
		return nil
	}
	switch spec := api.Spec(object).(type) {
	case *usherv1alpha1.ClusterObjectPolicySpec:
		return spec.ExcludeSubjects
	case *usherv1alpha1.ObjectPolicySpec:
		return spec.ExcludeSubjects
	case *usherv1alpha1.ClusterAuthorizationPolicySpec:
		// Whom an Allow excludes has less.
		if spec.Effect == usherv1alpha1.EffectDeny {
			return spec.ExcludeSubjects
		}
	}
	return nil
}

// excludedText says which policies exclude whom.
func excludedText(excluded []excludedFrom) string {
	var all []string
	for _, one := range excluded {
		var whom []string
		for i := range one.Subjects {
			whom = append(whom, served.Subject(&one.Subjects[i]))
		}
		all = append(all, fmt.Sprintf("%s (%s)", one.Policy, some(whom)))
	}
	return cli.Count(len(all), "policy excludes", "policies exclude") + " subjects: " + printable.Line(some(all))
}
