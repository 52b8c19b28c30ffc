package object

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/compile/authorization"
	"github.com/usher-dev/usher/internal/compile/spec"
	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// Options say what policies may do, and how what is not CEL is compiled.
type Options struct {
	Limits rule.Limits
	// Languages are necessary for policies with templates or CUE programs.
	Languages Languages
}

// Cluster compiles a policy for the objects of the whole cluster. Problems have no
// Policy and no File.
func Cluster(ctx context.Context, p *v1alpha1.ClusterObjectPolicy, options Options) (*Policy, []rule.Problem) {
	c := newCompilation(ctx, &Policy{ref: usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: p.Name}}, &options)
	return c.policy, c.compile(ctx, &p.Spec.ObjectPolicySpec, p.Spec.ExistingObjects, p.Annotations)
}

// Namespaced compiles a policy for the objects of its own namespace; one without namespace has no
// rules. Problems have no Policy and no File.
func Namespaced(ctx context.Context, p *v1alpha1.ObjectPolicy, options Options) (*Policy, []rule.Problem) {
	c := newCompilation(ctx, &Policy{
		ref:   usher.PolicyRef{Kind: "ObjectPolicy", Namespace: p.Namespace, Name: p.Name},
		kinds: options.Limits.Namespaced.Excluded(),
	}, &options)
	return c.policy, c.compile(ctx, &p.Spec, nil, p.Annotations)
}

// A compilation compiles one policy. Besides CEL it has validations and mutations in other languages.
type compilation struct {
	*spec.Compilation

	policy  *Policy
	options *Options
	// reads are the objects that parts in other languages read.
	reads []fact.Read
}

func newCompilation(ctx context.Context, p *Policy, options *Options) *compilation {
	return &compilation{Compilation: &spec.Compilation{Budget: cel.Budget{Context: ctx, Namespace: p.ref.Namespace}}, policy: p, options: options}
}

// compile compiles the spec, and returns the problems.
func (c *compilation) compile(
	ctx context.Context, s *v1alpha1.ObjectPolicySpec, existing *v1alpha1.ExistingObjects, annotations map[string]string,
) []rule.Problem {
	o, limits := c.policy, &c.options.Limits
	o.match = c.Constraints(&s.MatchConstraints)
	c.noteExcluded(&s.MatchConstraints)
	c.noteNamespace(s.MatchConstraints.NamespaceSelector)
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
		compiled, problems := authorization.Subjects(users.field, users.written)
		*users.into, c.Problems = compiled, append(c.Problems, problems...)
	}
	c.bindings(s.Bindings)
	o.data = c.Data(s.Data, o.ref.Namespace, limits)
	if len(s.Validations)+len(s.Mutations)+len(s.AuditAnnotations) == 0 {
		c.Fail("spec", "the policy does nothing", "add validations, mutations or auditAnnotations")
	}
	common := admission.Code{
		Params: c.hasParams(), Data: o.data.Sources, Ignore: o.ignore, Variables: c.Variables(s.Variables), Conditions: c.Conditions(s.MatchConditions),
		LazyMessages: true,
		ShortErrors:  true,
	}
	if len(s.Validations)+len(s.AuditAnnotations) > 0 {
		source := common
		source.Validations = c.validations(ctx, s, annotations)
		source.Annotations = c.Annotations(s.AuditAnnotations)
		source.Texts = c.existing(s, existing)
		o.validate = c.program(source)
	}
	o.pods = c.podTemplates(s)
	if len(s.Mutations) > 0 {
		source := common
		source.Mutations = c.mutations(ctx, s)
		o.mutate = c.program(source)
	}
	for _, program := range []*admission.Program{o.validate, o.mutate} {
		c.NoteSecrets(program, &o.match, o.kinds, o.paramKind, o.data.Sources)
	}
	o.facts = limits.Bounds(o.ref.Namespace, slices.Concat(c.paramReads(s.Bindings), o.data.Reads, c.reads))
	rule.SortProblems(c.Problems)
	// Variables and conditions are part of both programs.
	return slices.Compact(c.Problems)
}

func (c *compilation) program(source admission.Code) *admission.Program {
	program, problems := admission.CompileWithin(&c.Budget, source)
	for i := range problems {
		if !source.Params && strings.Contains(problems[i].What, "undeclared reference to 'params'") {
			problems[i].Do = "write the params in place, under spec.bindings[].params, or set spec.paramKind for those of other objects: without either there are no params"
		}
	}
	c.Problems = append(c.Problems, problems...)
	return program
}

func (c *compilation) hasParams() bool {
	return c.policy.paramKind != nil || slices.ContainsFunc(c.policy.bindings, func(b binding) bool { return b.values[0] != nil })
}

// bindings compiles the bindings. Without any there is one with Deny.
func (c *compilation) bindings(all []v1alpha1.Binding) {
	o := c.policy
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
			compiled.inPlace(c.Compilation, at+".params", b, values)
		}
		o.bindings = append(o.bindings, compiled)
	}
}

// paramReads returns the objects of params that a policy of a namespace reads.
func (c *compilation) paramReads(all []v1alpha1.Binding) []fact.Read {
	o := c.policy
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

func (c *compilation) validations(ctx context.Context, s *v1alpha1.ObjectPolicySpec, annotations map[string]string) []admission.Validation {
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
		c.policy.validations = append(c.policy.validations, compiled)
	}
	return all
}

// oneLine returns a message in one line.
func oneLine(message string) string { return strings.Join(strings.Fields(message), " ") }

func (c *compilation) mutations(ctx context.Context, s *v1alpha1.ObjectPolicySpec) []admission.Mutation {
	o := c.policy
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
