package kyverno

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
)

// A conversion is that of one policy.
type conversion struct {
	Options

	i          *convert.Import
	p          *syntax.Policy
	exceptions []exception
	// templates says what follows for workloads from a rule for pods.
	templates v1alpha1.PodTemplates
	// workloads are those for which rules for pods are repeated.
	workloads []string
	// unchanged says that a rule is missing that changes the object of the request.
	unchanged bool
}

// A piece is what a rule becomes. Pieces for the same requests are one policy.
type piece struct {
	name      string
	selection *selection
	bindings  []v1alpha1.Binding
	templates v1alpha1.PodTemplates

	paramKind   *admissionv1.ParamKind
	annotations []admissionv1.AuditAnnotation
	data        []v1alpha1.DataSource
	variables   []admissionv1.Variable
	validations []v1alpha1.Validation
	mutations   []v1alpha1.Mutation
}

// leave records why something is left out. An error that refuses something knows its place.
func (c *conversion) leave(field string, err error) {
	if r, ok := errors.AsType[*refusal](err); ok {
		c.i.Leave(c.i.Of, r.field, r.what, r.do)
		return
	}
	c.i.Leave(c.i.Of, field, err.Error(), "write it as a ClusterObjectPolicy")
}

func (c *conversion) note(field, what, do string) {
	n := len(c.i.Notes)
	c.i.Note(c.i.Of, field, what, do)
	if slices.Contains(c.i.Notes[:n], c.i.Notes[n]) {
		c.i.Notes = c.i.Notes[:n]
	}
}

// convert makes policies of all rules.
func (c *conversion) convert() {
	s := &c.p.Spec
	if len(s.Rules) == 0 {
		c.i.Leave(c.i.Of, "spec.rules", "there are none", "leave it out")
	}
	if s.Admission != nil && !*s.Admission {
		c.i.Leave(c.i.Of, "spec.admission", "the policy does not decide requests", "write a ClusterObjectPolicy with the action Audit")
	}
	if strings.EqualFold(s.ApplyRules, "One") && len(s.Rules) > 1 {
		c.i.Leave(c.i.Of, "spec.applyRules", "only the first rule that applies counts", "write conditions that exclude each other")
	}
	c.autogen()
	var pieces []*piece
	for n := range s.Rules {
		pieces = append(pieces, part(c, &s.Rules[n])...)
	}
	if len(c.i.Left) > 0 {
		return
	}
	c.assemble(joinedPieces(pieces))
}

// part converts a rule. If parts of policies are converted, one that cannot be is missing, and so are those that are about
// what it would have made of an object.
func part(c *conversion, r *syntax.Rule) []*piece {
	mark := c.i.Mark()
	if c.unchanged {
		c.leave("", refuse(r.Field, "it is about what a rule that is missing makes of objects", "write it as a ClusterObjectPolicy"))
	}
	pieces := c.rule(r)
	if !c.Partial || !c.i.Miss(r.Name, mark) {
		return pieces
	}
	c.unchanged = c.unchanged || r.Mutate != nil && len(r.Mutate.Targets) == 0
	return nil
}

// joinedPieces returns pieces of which those for the same requests are one.
func joinedPieces(pieces []*piece) []*piece {
	var all []*piece
	for _, p := range pieces {
		at := slices.IndexFunc(all, func(o *piece) bool { return o.fits(p) })
		if at < 0 {
			all = append(all, p)
			continue
		}
		all[at].add(p)
	}
	return all
}

// fits reports whether another piece can be in the same policy.
func (p *piece) fits(o *piece) bool {
	if !reflect.DeepEqual(p.selection, o.selection) || !reflect.DeepEqual(p.bindings, o.bindings) || p.templates != o.templates || !reflect.DeepEqual(p.paramKind, o.paramKind) {
		return false
	}
	for i := range o.variables {
		if slices.ContainsFunc(p.variables, func(v admissionv1.Variable) bool {
			return v.Name == o.variables[i].Name && v.Expression != o.variables[i].Expression
		}) {
			return false
		}
	}
	return !slices.ContainsFunc(o.data, func(d v1alpha1.DataSource) bool {
		return slices.ContainsFunc(p.data, func(is v1alpha1.DataSource) bool { return is.Name == d.Name && !reflect.DeepEqual(is, d) })
	})
}

func (p *piece) add(o *piece) {
	for _, v := range o.variables {
		if !slices.Contains(p.variables, v) {
			p.variables = append(p.variables, v)
		}
	}
	for i := range o.data {
		if !slices.ContainsFunc(p.data, func(is v1alpha1.DataSource) bool { return reflect.DeepEqual(is, o.data[i]) }) {
			p.data = append(p.data, o.data[i])
		}
	}
	p.validations = append(p.validations, o.validations...)
	p.mutations = append(p.mutations, o.mutations...)
	p.annotations = append(p.annotations, o.annotations...)
}

// assemble makes a policy of each piece.
func (c *conversion) assemble(pieces []*piece) {
	for n, p := range pieces {
		name := c.p.Name
		if len(pieces) > 1 {
			name = unused(name+"-"+p.name, c.i.To)
			if n == 1 {
				c.note("spec.rules", "rules that are not for the same requests, or that have other actions, are policies of their own", "")
			}
		}
		spec := c.spec(p)
		if c.p.Kind == "Policy" {
			c.i.To = append(c.i.To, &v1alpha1.ObjectPolicy{
				TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ObjectPolicy"},
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: c.namespace()}, Spec: spec,
			})
			continue
		}
		c.i.To = append(c.i.To, &v1alpha1.ClusterObjectPolicy{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ClusterObjectPolicy"},
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ClusterObjectPolicySpec{ObjectPolicySpec: spec},
		})
	}
}

// unused returns a name that no policy has.
func unused(name string, policies []api.Object) string {
	for base, n := name, 2; slices.ContainsFunc(policies, func(o api.Object) bool { return o.GetName() == name }); n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	return name
}

func (c *conversion) namespace() string {
	if c.p.Namespace == "" {
		return "default"
	}
	return c.p.Namespace
}

// spec returns what a piece says.
func (c *conversion) spec(p *piece) v1alpha1.ObjectPolicySpec {
	s := v1alpha1.ObjectPolicySpec{
		Description: c.p.Annotations["policies.kyverno.io/description"],
		Category:    c.p.Annotations["policies.kyverno.io/category"],
		MatchConstraints: admissionv1.MatchResources{
			ResourceRules: p.selection.rules, ExcludeResourceRules: p.selection.excluded, NamespaceSelector: p.selection.namespaces,
		},
		MatchConditions: p.selection.conditions, Subjects: p.selection.subjects, ExcludeSubjects: p.selection.excludeSubjects,
		ParamKind: p.paramKind, AuditAnnotations: p.annotations, Data: p.data, Variables: p.variables, Validations: p.validations, Mutations: p.mutations,
		PodTemplates: p.templates, Bindings: p.bindings,
	}
	if severity := v1alpha1.Severity(c.p.Annotations["policies.kyverno.io/severity"]); slices.Contains(severities, severity) {
		s.Severity = severity
	}
	policy := c.p.Spec.FailurePolicy
	if w := c.p.Spec.WebhookConfiguration; w != nil {
		if w.FailurePolicy != "" {
			policy = w.FailurePolicy
		}
		s.MatchConditions = append(slices.Clone(w.MatchConditions), s.MatchConditions...)
	}
	if policy == "Ignore" {
		s.FailurePolicy = admissionv1.Ignore
	}
	return s
}

var severities = []v1alpha1.Severity{v1alpha1.SeverityCritical, v1alpha1.SeverityHigh, v1alpha1.SeverityMedium, v1alpha1.SeverityLow, v1alpha1.SeverityInfo}
