package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/rule"
)

// A binding of either kind.
type binding struct {
	object  api.Object
	policy  string
	matches *admissionv1.MatchResources
	actions []admissionv1.ValidationAction
	params  *admissionv1.ParamRef
}

// From converts each ValidatingAdmissionPolicy and MutatingAdmissionPolicy with its bindings to a
// ClusterObjectPolicy. Params that are among objects are written into the bindings where a binding
// names exactly one object; kinds say which kinds have namespaces.
func From(policies []api.Policy, objects []map[string]any, kinds *kind.Set) ([]Conversion, error) {
	var conversions []Conversion
	var bindings []binding
	for i := range policies {
		if err := checkUnknown(&policies[i]); err != nil {
			return nil, err
		}
		if b, ok := bindingOf(policies[i].Object); ok {
			bindings = append(bindings, b)
		}
	}
	names := map[string]string{}
	for i := range policies {
		of := refOf(policies[i].Object)
		if of.Kind != validatingKind && of.Kind != mutatingKind {
			continue
		}
		if other, ok := names[of.Name]; ok {
			return nil, fmt.Errorf("convert %s: a %s has the same name, and both would be %s %s: rename one of them", of, other, objectKind, of.Name)
		}
		names[of.Name] = of.Kind
		own := slices.DeleteFunc(slices.Clone(bindings), func(b binding) bool {
			return b.policy != of.Name || refOf(b.object).Kind != of.Kind+"Binding"
		})
		conversion, err := from(policies[i].Object, own, inPlace{objects, kinds})
		if err != nil {
			return nil, fmt.Errorf("convert %s: %w", of, err)
		}
		conversions = append(conversions, conversion)
	}
	if len(conversions) == 0 {
		return nil, errors.New("there is no ValidatingAdmissionPolicy and no MutatingAdmissionPolicy to convert")
	}
	return conversions, nil
}

func bindingOf(o api.Object) (binding, bool) {
	switch b := o.(type) {
	case *admissionv1.ValidatingAdmissionPolicyBinding:
		return binding{b, b.Spec.PolicyName, b.Spec.MatchResources, b.Spec.ValidationActions, b.Spec.ParamRef}, true
	case *admissionv1.MutatingAdmissionPolicyBinding:
		return binding{b, b.Spec.PolicyName, b.Spec.MatchResources, nil, b.Spec.ParamRef}, true
	}
	return binding{}, false
}

// ErrUnbound is the error for a policy that is not in force.
var ErrUnbound = errors.New("no binding of it is among the files: without one it is not in force, but a " + objectKind +
	" is; name the files with its bindings, too")

func from(o api.Object, bindings []binding, params inPlace) (Conversion, error) {
	if len(bindings) == 0 {
		return Conversion{}, ErrUnbound
	}
	c := Conversion{From: []api.Object{o}}
	converted := &v1alpha1.ClusterObjectPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: objectKind},
		ObjectMeta: metav1.ObjectMeta{Name: o.GetName(), Labels: maps.Clone(o.GetLabels()), Annotations: maps.Clone(o.GetAnnotations())},
	}
	said := notes{policy: refOf(converted)}
	spec := &converted.Spec
	switch p := o.(type) {
	case *admissionv1.ValidatingAdmissionPolicy:
		validating(&p.Spec, spec)
		said.messages(converted.Name, spec)
	case *admissionv1.MutatingAdmissionPolicy:
		mutating(&p.Spec, spec)
	}
	if len(spec.Validations) > 0 && selectsOnlyPods(&spec.MatchConstraints) {
		// As before, nobody is warned of a workload whose pods would be refused.
		spec.PodTemplates = v1alpha1.PodTemplatesOff
		said.add(rule.Warning, "spec.podTemplates", "workloads are not validated, as before", "remove podTemplates to warn of those whose pods would be refused")
	}
	ReadAnnotations(converted)
	for i := range bindings {
		c.From = append(c.From, bindings[i].object)
		spec.Bindings = append(spec.Bindings, inline(&bindings[i], spec.Bindings))
	}
	said.rename(bindings, spec.Bindings)
	params.write(spec, &said)
	if slices.ContainsFunc(spec.MatchConstraints.ResourceRules, deletes) && len(spec.Validations) > 0 {
		said.add(rule.Warning, "spec.matchConstraints", "deletions by the namespace controller and the garbage collector are no longer denied", "")
	}
	c.To, c.Changed = []api.Object{converted}, said.all
	return c, nil
}

// deletes reports whether a rule is for deletions.
func deletes(r admissionv1.NamedRuleWithOperations) bool {
	return slices.Contains(r.Operations, admissionv1.Delete) || slices.Contains(r.Operations, admissionv1.OperationAll)
}

func validating(from *admissionv1.ValidatingAdmissionPolicySpec, spec *v1alpha1.ClusterObjectPolicySpec) {
	if from.MatchConstraints != nil {
		spec.MatchConstraints = *from.MatchConstraints
	}
	spec.MatchConditions, spec.Variables, spec.ParamKind = from.MatchConditions, from.Variables, from.ParamKind
	spec.AuditAnnotations = from.AuditAnnotations
	if from.FailurePolicy != nil {
		spec.FailurePolicy = *from.FailurePolicy
	}
	for _, v := range from.Validations {
		validation := v1alpha1.Validation{Expression: v.Expression, Message: v.Message, MessageExpression: v.MessageExpression}
		if v.Reason != nil {
			validation.Reason = *v.Reason
		}
		spec.Validations = append(spec.Validations, validation)
	}
}

func mutating(from *admissionv1.MutatingAdmissionPolicySpec, spec *v1alpha1.ClusterObjectPolicySpec) {
	if from.MatchConstraints != nil {
		spec.MatchConstraints = *from.MatchConstraints
	}
	spec.MatchConditions, spec.Variables, spec.ParamKind = from.MatchConditions, from.Variables, from.ParamKind
	spec.ReinvocationPolicy = from.ReinvocationPolicy
	if from.FailurePolicy != nil {
		spec.FailurePolicy = *from.FailurePolicy
	}
	for _, m := range from.Mutations {
		spec.Mutations = append(spec.Mutations, v1alpha1.Mutation{
			PatchType: v1alpha1.PatchType(m.PatchType), ApplyConfiguration: m.ApplyConfiguration, JSONPatch: m.JSONPatch,
		})
	}
}

// messages says how refusals change.
func (n *notes) messages(name string, spec *v1alpha1.ClusterObjectPolicySpec) {
	if len(spec.Validations) == 0 {
		return
	}
	n.add(rule.Warning, "spec.validations", fmt.Sprintf("refusals read %q, no longer \"%s '%s' with binding '…' denied request: …\"", "… ("+objectKind+" "+name+")", validatingKind, name),
		"adapt what searches for the text")
	if len(spec.Validations) > 1 {
		n.add(rule.Warning, "spec.validations", "a refusal reports all validations that fail, no longer the first one alone", "")
	}
}

// ReadAnnotations moves what Kyverno's annotations say into the fields for it.
func ReadAnnotations(p *v1alpha1.ClusterObjectPolicy) {
	delete(p.Annotations, lastApplied)
	for key, field := range annotated(&p.Spec) {
		value, ok := p.Annotations[key]
		if !ok || field == (*string)(&p.Spec.Severity) && !slices.Contains(severities(), v1alpha1.Severity(value)) {
			continue
		}
		*field = strings.TrimSpace(value)
		delete(p.Annotations, key)
	}
	if len(p.Annotations) == 0 {
		p.Annotations = nil
	}
}

// inline returns a binding as one in a policy that has others.
func inline(b *binding, others []v1alpha1.Binding) v1alpha1.Binding {
	name := BindingName(b.object.GetName(), func(name string) bool {
		return slices.ContainsFunc(others, func(o v1alpha1.Binding) bool { return o.Name == name })
	})
	return v1alpha1.Binding{Name: name, MatchResources: b.matches, ValidationActions: b.actions, ParamRef: b.params}
}

// BindingName returns the name of a binding in a policy for an object of that name, one that is not taken.
func BindingName(name string, taken func(string) bool) string {
	name = strings.ReplaceAll(name, ".", "-")
	if len(name) > maxBindingName {
		name = strings.TrimRight(name[:maxBindingName-suffixLength], "-")
	}
	unique := name
	for n := 2; taken(unique); n++ {
		unique = fmt.Sprintf("%s-%d", name, n)
	}
	return unique
}

// maxBindingName is how long names of bindings can be, and suffixLength what is left for a number.
const (
	maxBindingName = 63
	suffixLength   = 4
)

// rename says which bindings have other names.
func (n *notes) rename(before []binding, after []v1alpha1.Binding) {
	for i := range before {
		if was := before[i].object.GetName(); was != after[i].Name {
			n.add(rule.Warning, fmt.Sprintf("spec.bindings[%d].name", i), fmt.Sprintf("the binding %s is called %s: names of bindings have no dots, and at most %d characters", was, after[i].Name, maxBindingName), "")
		}
	}
}

// inPlace writes params into bindings.
type inPlace struct {
	objects []map[string]any
	kinds   *kind.Set
}

// write writes the params of each binding in place that refers to one object that is known, and
// removes the kind of params if no binding needs it any more.
func (p inPlace) write(spec *v1alpha1.ClusterObjectPolicySpec, said *notes) {
	if spec.ParamKind == nil {
		return
	}
	written, referring := false, false
	for i := range spec.Bindings {
		b := &spec.Bindings[i]
		if b.ParamRef == nil {
			continue
		}
		raw, err := p.object(spec.ParamKind, b.ParamRef)
		if err != nil {
			said.add(rule.Warning, fmt.Sprintf("spec.bindings[%d].paramRef", i), fmt.Sprintf("the params stay in the cluster: %v", err), "")
			referring = true
			continue
		}
		said.add(rule.Warning, fmt.Sprintf("spec.bindings[%d].params", i),
			fmt.Sprintf("the params are those of the file: later changes of the %s %s have no effect", spec.ParamKind.Kind, b.ParamRef.Name), "change them in the policy, or keep paramKind and paramRef")
		b.Params, b.ParamRef, written = raw, nil, true
	}
	if written && !referring {
		spec.ParamKind = nil
	}
}

// object returns the object to which a reference refers, or why it is not exactly one that is known.
func (p inPlace) object(of *admissionv1.ParamKind, ref *admissionv1.ParamRef) (*apiextensionsv1.JSON, error) {
	gvk := schema.FromAPIVersionAndKind(of.APIVersion, of.Kind)
	switch {
	case ref.Name == "":
		return nil, errors.New("a selector may select others later")
	case !p.kinds.Has(gvk):
		return nil, fmt.Errorf("the kind %s of %s is not known: name the file with its CustomResourceDefinition, too", of.Kind, of.APIVersion)
	case ref.Namespace == "" && !p.kinds.ClusterScoped(gvk):
		return nil, errors.New("each request has those of its own namespace")
	}
	for _, object := range p.objects {
		namespace, name := nameIn(object)
		if kindIn(object) != gvk || name != ref.Name || namespace != ref.Namespace {
			continue
		}
		object = maps.Clone(object)
		if metadata, ok := object["metadata"].(map[string]any); ok {
			object["metadata"] = withoutServer(metadata)
		}
		raw, err := json.Marshal(object)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", name, err)
		}
		return &apiextensionsv1.JSON{Raw: raw}, nil
	}
	return nil, fmt.Errorf("the %s %s is not among the files", of.Kind, strings.TrimPrefix(ref.Namespace+"/"+ref.Name, "/"))
}

// withoutServer returns metadata without what API servers and kubectl write.
func withoutServer(metadata map[string]any) map[string]any {
	metadata = maps.Clone(metadata)
	for _, key := range []string{"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp", "selfLink"} {
		delete(metadata, key)
	}
	annotations, ok := metadata["annotations"].(map[string]any)
	if !ok {
		return metadata
	}
	annotations = maps.Clone(annotations)
	delete(annotations, lastApplied)
	if metadata["annotations"] = annotations; len(annotations) == 0 {
		delete(metadata, "annotations")
	}
	return metadata
}
