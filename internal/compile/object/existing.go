package object

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/compile/spec"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/rule"
)

// existingRule is the name of the rule about the objects that exist in a namespace.
const existingRule = "spec.existingObjects"

// maxExisting is how many objects of a namespace are validated: as many as the admission plugin
// PodSecurity validates.
const maxExisting = 3000

// An existing is spec.existingObjects, compiled.
type existing struct {
	kind     schema.GroupVersionKind
	resource schema.GroupVersionResource
	// changes has the conditions; nil without any.
	changes     *admission.Program
	requirement string
	// header and message are indexes of the texts of the program; -1 for defaults.
	header, message int
}

// existing compiles spec.existingObjects, and returns the texts that the program of the
// validations has for it.
func (c *compilation) existing(s *v1alpha1.ObjectPolicySpec, written *v1alpha1.ExistingObjects) []admission.Text {
	if written == nil {
		return nil
	}
	o := c.policy
	x := &existing{kind: schema.FromAPIVersionAndKind(written.APIVersion, written.Kind), requirement: written.Requirement, header: -1, message: -1}
	if x.requirement == "" {
		x.requirement = o.ref.String()
	}
	x.resource, _ = meta.UnsafeGuessKindToResource(x.kind)
	creation := x.creation()
	creation.Namespace = "any"
	if !o.match.Resources.Matches(&creation) {
		c.Fail(
			existingRule, fmt.Sprintf("the policy is not for %s that are created", x.resource.Resource),
			"name a kind that spec.matchConstraints.resourceRules select with the operation CREATE",
		)
	}
	if len(s.Validations) == 0 {
		c.Fail(existingRule, "the policy has no validations: existing objects are not changed", "add validations, or remove existingObjects")
	}
	if !slices.ContainsFunc(o.bindings, func(b binding) bool { return b.actions&deny != 0 }) {
		c.Problems = append(c.Problems, rule.Problem{
			Severity: rule.Warning, Field: existingRule, What: "no binding has the action Deny: nobody is warned",
			Do: "add Deny to the validationActions of a binding, or remove existingObjects",
		})
	}
	if len(written.MatchConditions) > 0 {
		x.changes = c.changes(written)
	}
	o.existing = x
	var texts []admission.Text
	for _, t := range []struct {
		field, expression string
		index             *int
	}{{"messageExpression", written.MessageExpression, &x.header}, {"objectMessageExpression", written.ObjectMessageExpression, &x.message}} {
		if t.expression != "" {
			*t.index = len(texts)
			texts = append(texts, admission.Text{Field: existingRule + "." + t.field, Expression: t.expression})
		}
	}
	return texts
}

// changes compiles the conditions. They are about namespaces, and so do without the variables of the
// policy.
func (c *compilation) changes(written *v1alpha1.ExistingObjects) *admission.Program {
	own := &spec.Compilation{}
	program, problems := admission.CompileWithin(&c.Budget, admission.Code{Params: c.hasParams(), Conditions: own.Conditions(written.MatchConditions)})
	for _, p := range slices.Concat(own.Problems, problems) {
		p.Field = strings.Replace(p.Field, "spec.", existingRule+".", 1)
		c.Problems = append(c.Problems, p)
	}
	return program
}

// creation is a request that creates one of the objects, without the object.
func (x *existing) creation() usher.Request {
	return usher.Request{Phase: usher.Validate, Operation: usher.Create, Kind: x.kind, Resource: x.resource}
}

// objects returns the fact that the objects of a namespace are.
func (x *existing) objects(namespace string, most int, paths *usher.Paths) *fact.Object {
	apiVersion, kind := x.kind.ToAPIVersionAndKind()
	return &fact.Object{
		APIVersion: apiVersion, Kind: kind, Namespace: namespace, Selector: everything{}, All: true,
		Sample: &fact.Sample{Most: most, Paths: paths},
	}
}

// everything selects all objects.
type everything struct{}

// Matches implements [fact.Selector].
func (everything) Matches(map[string]any) bool { return true }

// String implements [fact.Selector].
func (everything) String() string { return labels.Everything().String() }

// probe returns a fact that shows whether the objects can be read.
func (x *existing) probe() fact.Ref {
	return x.objects("default", 1, &usher.Paths{})
}

// absentExisting returns the problem that existing objects cannot be read.
func (o *Policy) absentExisting(_ any, err error) (rule.Problem, bool) {
	return rule.Problem{
		Severity: rule.Warning, Field: existingRule, What: fmt.Sprintf("existing objects cannot be read: %v", err),
		Do: "see that they can be read: usher check --reads prints the rights",
	}, err != nil
}

// Existing returns the kind of the existing objects that are validated; empty if none are.
func (o *Policy) Existing() schema.GroupVersionKind {
	if o.existing == nil {
		return schema.GroupVersionKind{}
	}
	return o.existing.kind
}

// existingRule is the rule for changes of namespaces. It denies nothing, not even if it fails.
func (o *Policy) existingRule() rule.Rule {
	i := newInspector(o)
	r := o.rule(existingRule, usher.Validate, i)
	r.FailurePolicy, r.Inspects = usher.Ignore, true
	// The request is for a namespace, not for objects in it, and refuses nothing.
	r.Match.Namespaces = rule.Namespaces{}
	r.Match.Resources = []rule.ResourceMatch{{Rules: []rule.ResourceRule{{
		Operations: []usher.Operation{usher.Update}, Groups: []string{""}, Versions: []string{"v1"}, Resources: []string{"namespaces"},
		Scope: rule.Cluster,
	}}}}
	return r
}
