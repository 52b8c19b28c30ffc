package usher

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/compile/kcloudlabs"
	"github.com/usher-dev/usher/internal/compile/spec"
	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/lang/cel/typecheck"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// The names of the rules of an object policy.
const (
	validationsRule = "spec.validations"
	mutationsRule   = "spec.mutations"
)

// The passes of rules that mutate: after the kinds of kinitiras. Rules that run again see what
// everybody else has changed.
const (
	passCluster    = 3
	passNamespaced = 4
	passAgain      = 9
)

// An Object is an object policy, compiled. It is immutable.
type Object struct {
	ref                usher.PolicyRef
	match              spec.Match
	subjects, excluded []authz.Subject
	paramKind          *admissionv1.ParamKind
	ignore, again      bool
	bindings           []binding
	validations        []validation
	// validate and mutate are nil if there is nothing to do.
	validate, mutate *admission.Program
	// pods says what follows if the pod of a workload fails validations.
	pods v1alpha1.PodTemplates
	// existing says which objects are validated when their namespace changes; nil if none are.
	existing *existing
	facts    *fact.Bounds
	data     *spec.Data
	kinds    *rule.Excluded
}

// A binding puts a policy into force for some of its requests.
type binding struct {
	name string
	// match is nil for all requests of the policy.
	match   *spec.Match
	actions actions
	params  *spec.Params
	// values are the params unless they are read: one that is written in place, which bindings with
	// equal ones share, or nil.
	values []map[string]any
	// size and digest are those of a value that is written in place.
	size   cel.Size
	digest rule.Digest
}

// A validation is what a validation of a policy has besides its expressions.
type validation struct {
	name, field string
	severity    usher.Severity
}

// ClusterObjectPolicy compiles a policy for the objects of the whole cluster. Problems have no
// Policy and no File.
func ClusterObjectPolicy(ctx context.Context, p *v1alpha1.ClusterObjectPolicy, compiler kcloudlabs.Compiler) (*Object, []rule.Problem) {
	o := &Object{ref: usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: p.Name}}
	return o, o.compile(ctx, &p.Spec.ObjectPolicySpec, p.Spec.ExistingObjects, p.Annotations, &compiler)
}

// ObjectPolicy compiles a policy for the objects of its own namespace; one without namespace has no
// rules. Problems have no Policy and no File.
func ObjectPolicy(ctx context.Context, p *v1alpha1.ObjectPolicy, compiler kcloudlabs.Compiler) (*Object, []rule.Problem) {
	o := &Object{
		ref:   usher.PolicyRef{Kind: "ObjectPolicy", Namespace: p.Namespace, Name: p.Name},
		kinds: compiler.Limits.Namespaced.Excluded(),
	}
	return o, o.compile(ctx, &p.Spec, nil, p.Annotations, &compiler)
}

// Ref returns the reference of the policy.
func (o *Object) Ref() usher.PolicyRef { return o.ref }

// compile compiles the spec, and returns the problems.
func (o *Object) compile(
	ctx context.Context, s *v1alpha1.ObjectPolicySpec, existing *v1alpha1.ExistingObjects, annotations map[string]string, compiler *kcloudlabs.Compiler,
) []rule.Problem {
	c := composer{Compilation: &spec.Compilation{Budget: cel.Budget{Context: ctx, Namespace: o.ref.Namespace}}, object: o, compiler: compiler}
	limits := &compiler.Limits
	o.match = c.Constraints(&s.MatchConstraints)
	o.noteExcluded(c.Compilation, &s.MatchConstraints)
	if s.FailurePolicy != "" {
		o.ignore = c.FailurePolicy(&s.FailurePolicy)
	}
	o.paramKind = s.ParamKind
	c.ParamKind(s.ParamKind)
	for _, users := range []struct {
		field   string
		written []v1alpha1.Subject
		into    *[]authz.Subject
	}{{"spec.subjects", s.Subjects, &o.subjects}, {"spec.excludeSubjects", s.ExcludeSubjects, &o.excluded}} {
		compiled, problems := Subjects(users.field, users.written)
		*users.into, c.Problems = compiled, append(c.Problems, problems...)
	}
	o.compileBindings(c.Compilation, s.Bindings)
	o.data = c.Data(s.Data, o.ref.Namespace, limits)
	if len(s.Validations)+len(s.Mutations)+len(s.AuditAnnotations) == 0 {
		c.Fail("spec", "the policy does nothing", "add validations, mutations or auditAnnotations")
	}
	common := admission.Source{
		Params: o.hasParams(), Data: o.data.Sources, Ignore: o.ignore, Variables: c.Variables(s.Variables), Conditions: c.Conditions(s.MatchConditions),
		LazyMessages: true,
	}
	if len(s.Validations)+len(s.AuditAnnotations) > 0 {
		source := common
		source.Validations = o.compileValidations(ctx, &c, s, annotations)
		source.Annotations = c.Annotations(s.AuditAnnotations)
		source.Texts = o.compileExisting(c.Compilation, s, existing)
		o.validate = o.program(c.Compilation, source)
	}
	o.pods = o.podTemplates(c.Compilation, s)
	if len(s.Mutations) > 0 {
		source := common
		source.Mutations = o.compileMutations(ctx, &c, s)
		o.mutate = o.program(c.Compilation, source)
	}
	o.facts = limits.Bounds(o.ref.Namespace, slices.Concat(o.paramReads(c.Compilation, s.Bindings), o.data.Reads, c.reads))
	rule.SortProblems(c.Problems)
	// Variables and conditions are part of both programs.
	return slices.Compact(c.Problems)
}

func (o *Object) program(c *spec.Compilation, source admission.Source) *admission.Program {
	program, problems := admission.CompileWithin(&c.Budget, source)
	for i := range problems {
		if !source.Params && strings.Contains(problems[i].What, "undeclared reference to 'params'") {
			problems[i].Do = "write the params in place, under spec.bindings[].params, or set spec.paramKind for those of other objects: without either there are no params"
		}
	}
	c.Problems = append(c.Problems, problems...)
	return program
}

func (o *Object) hasParams() bool {
	return o.paramKind != nil || slices.ContainsFunc(o.bindings, func(b binding) bool { return b.values[0] != nil })
}

// compileBindings compiles the bindings. Without any there is one with Deny.
func (o *Object) compileBindings(c *spec.Compilation, all []v1alpha1.Binding) {
	if len(all) == 0 {
		o.bindings = []binding{{actions: deny, values: []map[string]any{nil}}}
	}
	names := map[string]bool{}
	values := map[rule.Digest]map[string]any{}
	for i := range all {
		b, at := &all[i], fmt.Sprintf("spec.bindings[%d]", i)
		compiled := binding{name: cmp.Or(b.Name, fmt.Sprintf("bindings[%d]", i)), actions: deny, params: c.ParamRef(at+".paramRef", b.ParamRef), values: []map[string]any{nil}}
		if names[b.Name] && b.Name != "" {
			c.Fail(at+".name", fmt.Sprintf("there is another binding %q", b.Name), "rename one of them")
		}
		names[b.Name] = true
		if b.MatchResources != nil {
			match := c.Match(at+".matchResources", b.MatchResources)
			compiled.match = &match
		}
		if b.ValidationActions != nil {
			compiled.actions = actionsOf(c.Actions(at+".validationActions", b.ValidationActions))
		}
		if b.ParamRef != nil && o.paramKind == nil {
			c.Fail(at+".paramRef", "the policy has no paramKind", "set spec.paramKind, or write the params in place, under params")
		}
		if b.Params != nil {
			compiled.inPlace(c, at+".params", b, values)
		}
		o.bindings = append(o.bindings, compiled)
	}
}

// paramReads returns the objects of params that a policy of a namespace reads.
func (o *Object) paramReads(c *spec.Compilation, all []v1alpha1.Binding) []fact.Read {
	if o.ref.Namespace == "" || o.paramKind == nil {
		return nil
	}
	var reads []fact.Read
	for i := range all {
		ref := all[i].ParamRef
		if ref == nil {
			continue
		}
		if ref.Namespace != "" && ref.Namespace != o.ref.Namespace {
			c.Fail(fmt.Sprintf("spec.bindings[%d].paramRef.namespace", i), "an ObjectPolicy reads params of its own namespace only", "remove the namespace")
		}
		reads = append(reads, fact.Read{APIVersion: o.paramKind.APIVersion, Kind: o.paramKind.Kind, Name: ref.Name, Lists: ref.Name == ""})
	}
	return reads
}

// inPlace sets the params of a binding that has them in place. Equal ones are one map of values.
func (b *binding) inPlace(c *spec.Compilation, field string, written *v1alpha1.Binding, values map[rule.Digest]map[string]any) {
	if written.ParamRef != nil {
		c.Fail(field, "a binding has either params or paramRef", "remove one of them")
	}
	object := usher.RawObject(written.Params.Raw)
	tree, err := object.Tree()
	if err != nil || tree == nil {
		c.Fail(field, "params are not a map", "write fields, which expressions read as params.FIELD")
		return
	}
	// 1 and 1.0 are written in the same way once they are decoded, but have different types.
	var text bytes.Buffer
	if err := json.Compact(&text, written.Params.Raw); err != nil {
		c.Fail(field, err.Error(), "correct the params")
		return
	}
	b.digest = rule.DigestOf(text.String())
	if values[b.digest] == nil {
		values[b.digest] = tree
	}
	b.values[0] = values[b.digest]
	b.size = cel.SizeOf(b.values[0])
}

func (o *Object) compileValidations(ctx context.Context, c *composer, s *v1alpha1.ObjectPolicySpec, annotations map[string]string) []admission.Validation {
	severity := severityOf(s, annotations)
	names := map[string]bool{}
	var all []admission.Validation
	for i := range s.Validations {
		v, at := &s.Validations[i], fmt.Sprintf("spec.validations[%d]", i)
		if names[v.Name] && v.Name != "" {
			c.Fail(at+".name", fmt.Sprintf("there is another validation %q", v.Name), "rename one of them")
		}
		names[v.Name] = true
		all = append(all, c.validation(ctx, at, v))
		compiled := validation{name: v.Name, field: v.FieldPath, severity: severity}
		if v.Severity != "" {
			compiled.severity = usher.Severity(v.Severity)
		}
		o.validations = append(o.validations, compiled)
	}
	return all
}

// oneLine returns a message in one line.
func oneLine(message string) string { return strings.Join(strings.Fields(message), " ") }

func (o *Object) compileMutations(ctx context.Context, c *composer, s *v1alpha1.ObjectPolicySpec) []admission.Mutation {
	if s.ReinvocationPolicy != "" {
		o.again = c.Reinvocation(s.ReinvocationPolicy)
	}
	all := make([]admission.Mutation, len(s.Mutations))
	for i := range s.Mutations {
		all[i] = c.mutation(ctx, fmt.Sprintf("%s[%d]", mutationsRule, i), &s.Mutations[i])
	}
	if len(o.match.Resources.Rules) > 0 && len(spec.Changing(o.match.Resources).Rules) == 0 {
		c.Fail("spec.mutations", "the policy is for deletions, which change no object", "add CREATE or UPDATE to spec.matchConstraints.resourceRules[].operations")
	}
	return all
}

// Rules returns the rules of the policy.
func (o *Object) Rules() []rule.Rule {
	var rules []rule.Rule
	if o.ref.Kind == "ObjectPolicy" && o.ref.Namespace == "" {
		return nil
	}
	if o.mutate != nil {
		r := o.rule(mutationsRule, usher.Mutate, newMutator(o))
		r.Match.Resources = []rule.ResourceMatch{spec.Changing(o.match.Resources)}
		r.Pass, r.Reinvoked = passCluster, o.again
		switch {
		case o.again:
			r.Pass = passAgain
		case o.ref.Namespace != "":
			r.Pass = passNamespaced
		}
		rules = append(rules, r)
	}
	if o.validate != nil {
		rules = append(rules, o.rule(validationsRule, usher.Validate, newValidator(o)))
	}
	if o.pods != v1alpha1.PodTemplatesOff {
		rules = append(rules, o.podRule())
	}
	if o.existing != nil {
		rules = append(rules, o.existingRule())
	}
	return rules
}

func (o *Object) rule(name string, phase usher.Phase, program rule.Program) rule.Rule {
	r := rule.Rule{
		Policy: o.ref, Name: name, Phase: phase, FailurePolicy: usher.Fail, Facts: o.facts,
		Match: rule.Match{Namespace: o.ref.Namespace, Excluded: o.kinds, Resources: []rule.ResourceMatch{o.match.Resources}},
		Steps: []rule.Step{{Name: "cel", Program: program}},
	}
	if o.ignore {
		r.FailurePolicy = usher.Ignore
	}
	if len(o.bindings) == 1 && o.bindings[0].match != nil {
		if own := o.bindings[0].match.Own(); own != nil {
			r.Match.Resources = append(r.Match.Resources, *own)
		}
	}
	return r
}

// Matches returns what requests the policy is for, whatever its bindings say.
func (o *Object) Matches() *rule.ResourceMatch { return &o.match.Resources }

// Narrowed returns what requests the bindings are for, of those of the policy, by the field where that is
// written.
func (o *Object) Narrowed() map[string]*rule.ResourceMatch {
	all := map[string]*rule.ResourceMatch{}
	for i := range o.bindings {
		if match := o.bindings[i].match; match != nil {
			all[fmt.Sprintf("spec.bindings[%d].matchResources", i)] = &match.Resources
		}
	}
	return all
}

// Params returns the kind of the params; empty if there are none.
func (o *Object) Params() schema.GroupVersionKind {
	if o.paramKind == nil {
		return schema.GroupVersionKind{}
	}
	return schema.FromAPIVersionAndKind(o.paramKind.APIVersion, o.paramKind.Kind)
}

// Expressions returns the expressions of the policy, to check their types.
func (o *Object) Expressions() []typecheck.Expression {
	var all []typecheck.Expression
	for _, program := range []*admission.Program{o.validate, o.mutate} {
		if program == nil {
			continue
		}
		for _, e := range spec.Expressions(program.Source()) {
			if !slices.Contains(all, e) {
				all = append(all, e)
			}
		}
	}
	return all
}

// Unbound returns the rules of the policy as if a binding put it into force for everything that it
// matches, with the params that are written in place.
func (o *Object) Unbound() []rule.Rule {
	unbound := *o
	unbound.bindings, unbound.pods, unbound.existing = nil, v1alpha1.PodTemplatesOff, nil
	for i := range o.bindings {
		if values := o.bindings[i].values; values[0] != nil {
			unbound.bindings = append(unbound.bindings, binding{actions: deny, values: values, size: o.bindings[i].size})
		}
	}
	if len(unbound.bindings) == 0 {
		unbound.bindings = []binding{{actions: deny, values: []map[string]any{nil}}}
	}
	return unbound.Rules()
}
