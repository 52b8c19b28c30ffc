package celkinds

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/convert"
)

// A conversion is that of one policy.
type conversion struct {
	Options

	i          *convert.Import
	exceptions []*exception
	// mutates says that the policy changes objects.
	mutates bool
}

// A variant is a policy for some of the resources that Kyverno applies a policy to.
type variant struct {
	// suffix is that of the name.
	suffix string
	spec   *specification
	pods   v1alpha1.PodTemplates
}

// convert converts the policy. If parts of policies are converted, validations that cannot be are missing.
func (c *conversion) convert() {
	s := c.read()
	if s == nil {
		return
	}
	mark := c.i.Mark()
	c.all(s)
	if c.Partial && c.reduce(s, mark) {
		c.all(s)
	}
}

var ofValidation = regexp.MustCompile(`^spec\.validations\[([0-9]+)\]`)

// reduce removes the validations that could not be converted, and reports whether others are left and nothing else could
// not be.
func (c *conversion) reduce(s *specification, since convert.Mark) bool {
	lost := map[int]bool{}
	for _, p := range c.i.Left {
		match := ofValidation.FindStringSubmatch(p.Field)
		if match == nil {
			return false
		}
		n, err := strconv.Atoi(match[1])
		if err != nil {
			return false
		}
		lost[n] = true
	}
	if len(lost) == 0 || len(lost) >= len(s.Validations) {
		return false
	}
	c.i.To = nil
	c.i.Miss("spec.validations", since)
	all := s.Validations
	s.Validations = nil
	for n := range all {
		if !lost[n] {
			s.Validations = append(s.Validations, all[n])
		}
	}
	return true
}

// all makes the policies.
func (c *conversion) all(s *specification) {
	for _, v := range c.variants(s) {
		spec := c.specOf(v.spec)
		if len(c.i.Left) > 0 {
			return
		}
		spec.PodTemplates = v.pods
		c.i.To = append(c.i.To, c.object(v.suffix, spec))
	}
	if s.FailurePolicy == admissionv1.Ignore && !c.mutates {
		c.i.Note(c.i.Of, "spec.failurePolicy", "an error of a validation is ignored: with Kyverno it had the effect of one that fails", "")
	}
	c.filtered(s)
}

// kyvernos are the annotations and labels that mean something to Kyverno alone.
const kyvernos = "kyverno.io/"

// namespaceOf returns the namespace of a policy: its kind says whether it has one, as in Kyverno's definitions.
func namespaceOf(f *convert.Foreign) string {
	of := f.Ref()
	switch {
	case of.Kind != namespacedValidatingKind && of.Kind != namespacedMutatingKind:
		return ""
	case of.Namespace == "":
		return metav1.NamespaceDefault
	}
	return of.Namespace
}

// object returns a policy with a spec.
func (c *conversion) object(suffix string, spec v1alpha1.ObjectPolicySpec) api.Object {
	f := c.i.Of
	metadata := struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}{}
	// What is no metadata of an object is not kept.
	_ = recode(map[string]any{"metadata": f.Object["metadata"]}, &metadata, false)
	p := &v1alpha1.ClusterObjectPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ClusterObjectPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: f.Ref().Name + suffix, Labels: metadata.Metadata.Labels, Annotations: metadata.Metadata.Annotations},
	}
	p.Spec.ObjectPolicySpec = spec
	convert.ReadAnnotations(p)
	maps.DeleteFunc(p.Annotations, func(key, _ string) bool { return strings.Contains(key, kyvernos) })
	if len(p.Annotations) == 0 {
		p.Annotations = nil
	}
	in := namespaceOf(f)
	if in == "" {
		return p
	}
	own := &v1alpha1.ObjectPolicy{TypeMeta: p.TypeMeta, ObjectMeta: p.ObjectMeta, Spec: p.Spec.ObjectPolicySpec}
	own.Kind, own.Namespace = "ObjectPolicy", in
	return own
}

// specOf returns the spec of a policy for a specification, whose expressions are rewritten.
func (c *conversion) specOf(s *specification) v1alpha1.ObjectPolicySpec {
	s = s.clone()
	c.except(s)
	for n := range s.MatchConditions {
		s.MatchConditions[n].Name = conditionName(s.MatchConditions[n].Name)
	}
	data := c.rewrite(s)
	spec := v1alpha1.ObjectPolicySpec{
		MatchConstraints: *s.MatchConstraints, MatchConditions: s.MatchConditions, Variables: s.Variables, Data: data,
		AuditAnnotations: s.AuditAnnotations, FailurePolicy: s.FailurePolicy, ReinvocationPolicy: s.Reinvocation,
	}
	c.exclude(&spec)
	for _, v := range s.Validations {
		to := v1alpha1.Validation{Expression: v.Expression, Message: strings.TrimSpace(v.Message), MessageExpression: v.MessageExpression}
		if v.Reason != nil {
			to.Reason = *v.Reason
		}
		spec.Validations = append(spec.Validations, to)
	}
	for _, m := range s.Mutations {
		spec.Mutations = append(spec.Mutations, v1alpha1.Mutation{
			PatchType: v1alpha1.PatchType(m.PatchType), ApplyConfiguration: m.ApplyConfiguration, JSONPatch: m.JSONPatch,
		})
	}
	if !c.mutates {
		spec.Bindings = []v1alpha1.Binding{{ValidationActions: c.actions(s)}}
	}
	return spec
}

var unnamed = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// conditionName returns a name that a condition can have. Kyverno lets in any text.
func conditionName(name string) string {
	name = unnamed.ReplaceAllString(name, "-")
	if most := validation.LabelValueMaxLength; len(name) > most {
		name = name[:most]
	}
	return strings.Trim(name, "-_.")
}

// actions returns what follows from a validation that fails.
func (c *conversion) actions(s *specification) []admissionv1.ValidationAction {
	actions := s.ValidationActions
	if len(actions) == 0 {
		actions = []admissionv1.ValidationAction{admissionv1.Deny}
	}
	if c.Enforce || !slices.Contains(actions, admissionv1.Deny) {
		return actions
	}
	c.note("spec.validationActions", "the policy warns where it denied", "write validationActions: [Deny] in the binding when its warnings are as expected, or import with --enforce")
	warns := []admissionv1.ValidationAction{admissionv1.Warn}
	for _, a := range actions {
		if a == admissionv1.Audit {
			warns = append(warns, a)
		}
	}
	return warns
}

// note records a difference, once.
func (c *conversion) note(field, what, do string) {
	before := len(c.i.Notes)
	c.i.Note(c.i.Of, field, what, do)
	if slices.Contains(c.i.Notes[:before], c.i.Notes[before]) {
		c.i.Notes = c.i.Notes[:before]
	}
}

// nameLabel is the label of namespaces that has their name.
const nameLabel = "kubernetes.io/metadata.name"

// exclude leaves out the requests of which Kyverno's webhook is not asked.
func (c *conversion) exclude(spec *v1alpha1.ObjectPolicySpec) {
	spec.ExcludeSubjects = []v1alpha1.Subject{{Groups: []string{"system:nodes"}}}
	if namespaceOf(c.i.Of) != "" {
		return
	}
	selector := spec.MatchConstraints.NamespaceSelector.DeepCopy()
	if selector == nil {
		selector = &metav1.LabelSelector{}
	}
	selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
		Key: nameLabel, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"kube-system", "kube-public", "kube-node-lease"},
	})
	spec.MatchConstraints.NamespaceSelector = selector
}

// unasked are resources about which Kyverno's webhook is not asked, unless its configuration is changed.
var unasked = []string{"events", "nodes", "bindings", "pods/binding", "replicasets", "replicasets/scale", "replicasets/status", "apiservices", "tokenreviews", "subjectaccessreviews", "selfsubjectaccessreviews"}

// filtered notes which resources Kyverno's default configuration keeps from a policy that names them.
func (c *conversion) filtered(s *specification) {
	for n, r := range s.MatchConstraints.ResourceRules {
		for _, name := range r.Resources {
			if slices.Contains(unasked, name) {
				c.note(fmt.Sprintf("spec.matchConstraints.resourceRules[%d].resources", n), "the policy decides requests about "+name+", of which Kyverno is not asked unless resourceFilters of its configuration let them in", "")
			}
		}
	}
}
