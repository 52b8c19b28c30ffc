package convert

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/rule"
)

// A Target is a kind of admission policy to which policies are converted.
type Target string

// The targets.
const (
	Validating Target = "vap"
	Mutating   Target = "map"
)

// To converts a ClusterObjectPolicy to the admission policies of the targets, with a binding for
// each of its own. Others are all policies: exemptions among them are lost.
func To(p *api.Policy, targets []Target, others []api.Policy) (Conversion, error) {
	if err := checkUnknown(p); err != nil {
		return Conversion{}, err
	}
	policy, ok := p.Object.(*v1alpha1.ClusterObjectPolicy)
	if !ok {
		return Conversion{}, fmt.Errorf("convert %s: only a %s can be exported", refOf(p.Object), objectKind)
	}
	e := export{policy: policy.DeepCopy(), said: notes{policy: refOf(policy)}}
	e.lose(others)
	e.params()
	c := Conversion{From: []api.Object{policy}, Params: e.objects}
	for _, target := range targets {
		switch target {
		case Validating:
			c.To = append(c.To, e.validating()...)
		case Mutating:
			c.To = append(c.To, e.mutating()...)
		}
	}
	e.forgotten(targets)
	c.Lost = e.said.all
	e.said.all = nil
	e.changes()
	c.Changed = e.said.all
	return c, nil
}

// An export is a policy on its way to other kinds. What they cannot express is removed from the copy.
type export struct {
	policy  *v1alpha1.ClusterObjectPolicy
	objects []map[string]any
	said    notes
}

func (e *export) lost(field, what, do string) { e.said.add(rule.Error, field, what, do) }

// lose reports the features that neither kind has.
func (e *export) lose(others []api.Policy) {
	spec := &e.policy.Spec
	if spec.Suspend {
		e.lost("spec.suspend", "admission policies cannot be suspended: this one would be in force", "convert it without suspend, and leave out the bindings until it is to be in force")
	}
	if len(spec.Links) > 0 {
		e.lost("spec.links", "admission policies have no links", "")
	}
	if len(spec.Data) > 0 {
		e.lost("spec.data", "admission policies read no data: expressions with data do not compile there", "use params, if the object is the same for all requests")
	}
	for i := range spec.Validations {
		e.loseValidation(fmt.Sprintf("spec.validations[%d]", i), &spec.Validations[i])
	}
	spec.Validations = slices.DeleteFunc(spec.Validations, func(v v1alpha1.Validation) bool { return v.Cue != "" })
	for i := range spec.Mutations {
		field := fmt.Sprintf("spec.mutations[%d]", i)
		if m := &spec.Mutations[i]; !isUpstream(m.PatchType) {
			e.lost(field+".patchType", fmt.Sprintf("admission policies have no patchType %s", m.PatchType), "write the change as a JSONPatch or an ApplyConfiguration")
		}
		if spec.Mutations[i].Name != "" {
			e.lost(field+".name", "mutations of admission policies have no name", "")
		}
	}
	spec.Mutations = slices.DeleteFunc(spec.Mutations, func(m v1alpha1.Mutation) bool { return !isUpstream(m.PatchType) })
	switch {
	case len(spec.Validations) == 0 || spec.PodTemplates == v1alpha1.PodTemplatesOff:
	case spec.PodTemplates != "":
		e.lost("spec.podTemplates", "admission policies do not see the pods of workloads: a Deployment whose pods are refused is accepted", `write podTemplates: "Off"`)
	case selectsOnlyPods(&spec.MatchConstraints):
		e.lost("spec.podTemplates", "the default is Warn: admission policies do not warn of workloads whose pods are refused", `write podTemplates: "Off"`)
	}
	if spec.ExistingObjects != nil {
		e.lost("spec.existingObjects", "admission policies do not see the objects that exist in a namespace which changes", "remove existingObjects")
	}
	if spec.NamespaceExemptions == v1alpha1.NamespaceExemptionsAllow {
		e.lost("spec.namespaceExemptions", "admission policies have no exemptions", "")
	}
	e.exemptions(others)
}

func isUpstream(t v1alpha1.PatchType) bool {
	return t == v1alpha1.PatchTypeJSONPatch || t == v1alpha1.PatchTypeApplyConfiguration
}

func (e *export) loseValidation(field string, v *v1alpha1.Validation) {
	if v.Cue != "" {
		e.lost(field+".cue", "admission policies have no CUE", "write the validation as an expression")
	}
	for _, one := range []struct{ name, value string }{{"severity", string(v.Severity)}, {"fieldPath", v.FieldPath}} {
		if one.value != "" {
			e.lost(field+"."+one.name, "validations of admission policies have no "+one.name, "")
		}
	}
}

// exemptions reports those that name the policy.
func (e *export) exemptions(others []api.Policy) {
	for i := range others {
		x, ok := api.Spec(others[i].Object).(*v1alpha1.PolicyExemptionSpec)
		if ok && slices.ContainsFunc(x.PolicyRefs, func(r v1alpha1.PolicyRef) bool { return r.Kind == objectKind && covers(r.Name, e.policy.Name) }) {
			of := refOf(others[i].Object)
			of.Namespace = others[i].Object.GetNamespace()
			e.lost("", fmt.Sprintf("admission policies have no exemptions: the %s does not apply", of), "add a matchCondition")
		}
	}
}

// covers reports whether a pattern with at most one * matches a name.
func covers(pattern, name string) bool {
	prefix, suffix, star := strings.Cut(pattern, "*")
	return pattern == name || star && len(name) >= len(prefix)+len(suffix) && strings.HasPrefix(name, prefix) && strings.HasSuffix(name, suffix)
}

// params turns params in place into objects, if they are objects of one kind.
func (e *export) params() {
	spec := &e.policy.Spec
	for i := range spec.Bindings {
		b := &spec.Bindings[i]
		if b.Params == nil {
			continue
		}
		field := fmt.Sprintf("spec.bindings[%d].params", i)
		var object map[string]any
		if err := json.Unmarshal(b.Params.Raw, &object); err != nil {
			e.lost(field, fmt.Sprintf("not an object: %v", err), "correct it")
			continue
		}
		b.Params = nil
		namespace, name := nameIn(object)
		of := kindIn(object)
		apiVersion, kind := of.ToAPIVersionAndKind()
		switch {
		case of.Kind == "" || of.Version == "" || name == "":
			e.lost(field, "params of admission policies are objects of the cluster", "add apiVersion, kind and metadata, such as those of a ConfigMap, and adapt the expressions, or write the values into the expressions")
			continue
		case spec.ParamKind != nil && (spec.ParamKind.APIVersion != apiVersion || spec.ParamKind.Kind != kind):
			e.lost(field, fmt.Sprintf("all params of an admission policy are of one kind: %s of %s", spec.ParamKind.Kind, spec.ParamKind.APIVersion), "use one kind")
			continue
		}
		spec.ParamKind = &admissionv1.ParamKind{APIVersion: apiVersion, Kind: kind}
		deny := admissionv1.DenyAction
		b.ParamRef = &admissionv1.ParamRef{Name: name, Namespace: namespace, ParameterNotFoundAction: &deny}
		e.objects = append(e.objects, object)
	}
}

// forgotten reports the parts for which there is no target.
func (e *export) forgotten(targets []Target) {
	spec := &e.policy.Spec
	if len(spec.Validations)+len(spec.AuditAnnotations) > 0 && !slices.Contains(targets, Validating) {
		e.lost("spec.validations", "a MutatingAdmissionPolicy validates nothing", "export to vap, too")
	}
	if len(spec.Mutations) > 0 && !slices.Contains(targets, Mutating) {
		e.lost("spec.mutations", "a ValidatingAdmissionPolicy changes nothing", "export to map, too")
	}
}

func (e *export) validating() []api.Object {
	spec := &e.policy.Spec
	if len(spec.Validations)+len(spec.AuditAnnotations) == 0 {
		return nil
	}
	vap := &admissionv1.ValidatingAdmissionPolicy{TypeMeta: typeOf(validatingKind), ObjectMeta: e.metadata()}
	vap.Spec = admissionv1.ValidatingAdmissionPolicySpec{
		ParamKind: spec.ParamKind, MatchConstraints: spec.MatchConstraints.DeepCopy(), MatchConditions: e.conditions(), Variables: spec.Variables,
		AuditAnnotations: spec.AuditAnnotations, FailurePolicy: orNil(spec.FailurePolicy),
	}
	for i := range spec.Validations {
		v := &spec.Validations[i]
		vap.Spec.Validations = append(vap.Spec.Validations, admissionv1.Validation{
			Expression: v.Expression, Message: v.Message, MessageExpression: v.MessageExpression, Reason: orNil(v.Reason),
		})
	}
	all := []api.Object{vap}
	for _, b := range e.bindings() {
		actions := b.ValidationActions
		if len(actions) == 0 {
			actions = []admissionv1.ValidationAction{admissionv1.Deny}
		}
		all = append(all, &admissionv1.ValidatingAdmissionPolicyBinding{
			TypeMeta: typeOf(validatingKind + "Binding"), ObjectMeta: metav1.ObjectMeta{Name: e.bindingName(&b)},
			Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: vap.Name, ParamRef: b.ParamRef, MatchResources: b.MatchResources, ValidationActions: actions},
		})
	}
	return all
}

func (e *export) mutating() []api.Object {
	spec := &e.policy.Spec
	if len(spec.Mutations) == 0 {
		return nil
	}
	m := &admissionv1.MutatingAdmissionPolicy{TypeMeta: typeOf(mutatingKind), ObjectMeta: e.metadata()}
	m.Spec = admissionv1.MutatingAdmissionPolicySpec{
		ParamKind: spec.ParamKind, MatchConstraints: writes(&spec.MatchConstraints), MatchConditions: e.conditions(), Variables: spec.Variables,
		FailurePolicy: orNil(spec.FailurePolicy), ReinvocationPolicy: spec.ReinvocationPolicy,
	}
	if m.Spec.ReinvocationPolicy == "" {
		m.Spec.ReinvocationPolicy = admissionv1.NeverReinvocationPolicy
	}
	for i := range spec.Mutations {
		from := &spec.Mutations[i]
		m.Spec.Mutations = append(m.Spec.Mutations, admissionv1.Mutation{
			PatchType: admissionv1.PatchType(from.PatchType), ApplyConfiguration: from.ApplyConfiguration, JSONPatch: from.JSONPatch,
		})
	}
	all := []api.Object{m}
	for _, b := range e.bindings() {
		resources := b.MatchResources
		if resources != nil {
			resources = writes(resources)
			if len(resources.ResourceRules) == 0 && len(b.MatchResources.ResourceRules) > 0 {
				// It was for deletions alone. Without rules it would be for everything.
				continue
			}
		}
		all = append(all, &admissionv1.MutatingAdmissionPolicyBinding{
			TypeMeta: typeOf(mutatingKind + "Binding"), ObjectMeta: metav1.ObjectMeta{Name: e.bindingName(&b)},
			Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: m.Name, ParamRef: b.ParamRef, MatchResources: resources},
		})
	}
	return all
}

// changes says what users notice.
func (e *export) changes() {
	if n := len(e.policy.Spec.Validations); n > 0 {
		e.said.add(rule.Warning, "spec.validations", fmt.Sprintf("refusals read \"%s '%s' with binding '…' denied request: …\"", validatingKind, e.policy.Name), "")
		for i := range e.policy.Spec.Validations {
			if name := e.policy.Spec.Validations[i].Name; name != "" {
				e.said.add(rule.Warning, fmt.Sprintf("spec.validations[%d].name", i), "validations of admission policies have no name: "+name+" is left out", "")
			}
		}
		if n > 1 {
			e.said.add(rule.Warning, "spec.validations", "a refusal reports the first validation that fails, no longer all of them", "")
		}
	}
	for _, object := range e.objects {
		_, name := nameIn(object)
		e.said.add(rule.Warning, "spec.bindings", fmt.Sprintf("the params are the %s %s, which must be in the cluster, and which those who may write it can change", kindIn(object).Kind, name), "")
	}
}

// metadata returns the metadata of the new policy, with what it has no fields for as annotations.
func (e *export) metadata() metav1.ObjectMeta {
	m := metav1.ObjectMeta{Name: e.policy.Name, Labels: maps.Clone(e.policy.Labels), Annotations: maps.Clone(e.policy.Annotations)}
	delete(m.Annotations, lastApplied)
	for key, field := range annotated(&e.policy.Spec) {
		if *field == "" {
			continue
		}
		if m.Annotations == nil {
			m.Annotations = map[string]string{}
		}
		m.Annotations[key] = *field
	}
	return m
}

// conditions returns the match conditions, with subjects as conditions on the user.
func (e *export) conditions() []admissionv1.MatchCondition {
	spec := &e.policy.Spec
	all := slices.Clone(spec.MatchConditions)
	add := func(name, expression string) {
		for slices.ContainsFunc(all, func(c admissionv1.MatchCondition) bool { return c.Name == name }) {
			name += "-of-policy"
		}
		all = append(all, admissionv1.MatchCondition{Name: name, Expression: expression})
	}
	if len(spec.Subjects) > 0 {
		add("subjects", anyOf(spec.Subjects))
	}
	if len(spec.ExcludeSubjects) > 0 {
		add("exclude-subjects", "!("+anyOf(spec.ExcludeSubjects)+")")
	}
	return all
}

// bindings returns those of the policy, or the one that it has without any.
func (e *export) bindings() []v1alpha1.Binding {
	if len(e.policy.Spec.Bindings) > 0 {
		return e.policy.Spec.Bindings
	}
	return []v1alpha1.Binding{{}}
}

// bindingName returns a name that no binding of another policy has.
func (e *export) bindingName(b *v1alpha1.Binding) string {
	switch {
	case b.Name == "" || b.Name == e.policy.Name:
		return e.policy.Name
	case strings.HasPrefix(b.Name, e.policy.Name+"-"):
		return b.Name
	}
	return e.policy.Name + "-" + b.Name
}

// writes returns constraints without deletions, which change no object.
func writes(m *admissionv1.MatchResources) *admissionv1.MatchResources {
	m = m.DeepCopy()
	for i := range m.ResourceRules {
		r := &m.ResourceRules[i]
		r.Operations = slices.DeleteFunc(r.Operations, func(o admissionv1.OperationType) bool { return o == admissionv1.Delete })
	}
	m.ResourceRules = slices.DeleteFunc(m.ResourceRules, func(r admissionv1.NamedRuleWithOperations) bool { return len(r.Operations) == 0 })
	return m
}

// selectsOnlyPods reports whether constraints are for pods that are created, and for nothing else: the
// pods of workloads are validated by default then.
func selectsOnlyPods(m *admissionv1.MatchResources) bool {
	creates := slices.ContainsFunc(m.ResourceRules, func(r admissionv1.NamedRuleWithOperations) bool {
		return slices.Contains(r.Resources, "pods") && (slices.Contains(r.Operations, admissionv1.Create) || slices.Contains(r.Operations, admissionv1.OperationAll))
	})
	return creates && !slices.ContainsFunc(m.ResourceRules, func(r admissionv1.NamedRuleWithOperations) bool {
		return !slices.Equal(r.APIGroups, []string{""}) || slices.ContainsFunc(r.Resources, func(name string) bool {
			return !slices.Contains([]string{"pods", "pods/ephemeralcontainers", "pods/resize"}, name)
		})
	})
}

func typeOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: kind}
}

// orNil returns a pointer to a value, nil if it is empty.
func orNil[T ~string](value T) *T {
	if value == "" {
		return nil
	}
	return &value
}
