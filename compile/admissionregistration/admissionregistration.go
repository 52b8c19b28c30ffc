// Package admissionregistration compiles Kubernetes' admission policies of
// admissionregistration.k8s.io, with their bindings.
//
// A policy says what to do and a binding puts it into force: neither has rules alone. [Link] makes
// a rule of each pair. It decides as an API server does, with the same texts.
package admissionregistration

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/lang/cel/admission"
	"github.com/usher-dev/usher/rule"
)

// A Policy is a ValidatingAdmissionPolicy or a MutatingAdmissionPolicy, compiled. It is immutable.
type Policy struct {
	kind, name string
	match      matching
	params     *admissionv1.ParamKind
	ignore     bool
	// again says that a policy that mutates is evaluated again after other changes.
	again   bool
	program *admission.Program
}

// Ref returns the reference of the policy.
func (p *Policy) Ref() usher.PolicyRef { return usher.PolicyRef{Kind: p.kind, Name: p.name} }

// A Binding is a binding of a [Policy], compiled. It is immutable.
type Binding struct {
	// kind is that of the policy.
	kind, name, policy string
	match              matching
	params             *params
	actions            []usher.Action
}

// Policy returns the reference of the policy that the binding puts into force.
func (b *Binding) Policy() usher.PolicyRef { return usher.PolicyRef{Kind: b.kind, Name: b.policy} }

// A matching is a MatchResources. What depends on the labels of objects and namespaces is told by
// the program of the rule: namespaces are facts.
type matching struct {
	resources          rule.ResourceMatch
	namespaces, labels labels.Selector
}

// ValidatingAdmissionPolicy compiles a policy. Problems have no Policy and no File.
func ValidatingAdmissionPolicy(p *admissionv1.ValidatingAdmissionPolicy) (*Policy, []rule.Problem) {
	var c compilation
	compiled := &Policy{kind: validatingKind, name: p.Name, params: p.Spec.ParamKind}
	compiled.match = c.constraints(p.Spec.MatchConstraints)
	compiled.ignore = c.failurePolicy(p.Spec.FailurePolicy)
	c.paramKind(p.Spec.ParamKind)
	source := c.source(&p.Spec)
	source.Ignore = compiled.ignore
	program, problems := admission.Compile(source)
	c.problems = append(c.problems, problems...)
	compiled.program = program
	return compiled, c.problems
}

// ValidatingAdmissionPolicyBinding compiles a binding. Problems have no Policy and no File.
func ValidatingAdmissionPolicyBinding(b *admissionv1.ValidatingAdmissionPolicyBinding) (*Binding, []rule.Problem) {
	var c compilation
	compiled := &Binding{kind: validatingKind, name: b.Name, policy: b.Spec.PolicyName}
	c.policyName(validatingKind, b.Spec.PolicyName)
	if b.Spec.MatchResources != nil {
		compiled.match = c.matching("spec.matchResources", b.Spec.MatchResources)
	}
	compiled.params = c.paramRef(b.Spec.ParamRef)
	compiled.actions = c.actions(b.Spec.ValidationActions)
	return compiled, c.problems
}

// A compilation gathers what is wrong with one object.
type compilation struct{ problems []rule.Problem }

func (c *compilation) fail(field, what, do string) {
	c.problems = append(c.problems, rule.Problem{Severity: rule.Error, Field: field, What: what, Do: do})
}

func (c *compilation) constraints(m *admissionv1.MatchResources) matching {
	if m == nil {
		c.fail("spec.matchConstraints", "missing: the policy is for no request", "name resources in spec.matchConstraints.resourceRules")
		return matching{}
	}
	if len(m.ResourceRules) == 0 {
		c.fail("spec.matchConstraints.resourceRules", "missing: the policy is for no request", "add a rule with apiGroups, apiVersions, operations and resources")
	}
	return c.matching("spec.matchConstraints", m)
}

func (c *compilation) policyName(kind, name string) {
	if name == "" {
		c.fail("spec.policyName", "missing: the binding puts no policy into force", "name a "+kind)
	}
}

func (c *compilation) variables(all []admissionv1.Variable) []admission.Named {
	var named []admission.Named
	names := map[string]bool{}
	for i, v := range all {
		field := fmt.Sprintf("spec.variables[%d].name", i)
		switch {
		case !isIdentifier(v.Name):
			c.fail(field, fmt.Sprintf("%q is not a CEL identifier", v.Name), "use letters, digits and _, beginning with a letter")
		case names[v.Name]:
			c.fail(field, fmt.Sprintf("there is another variable %q", v.Name), "rename one of them")
		}
		names[v.Name] = true
		c.present(fmt.Sprintf("spec.variables[%d].expression", i), v.Expression)
		named = append(named, admission.Named{Name: v.Name, Expression: v.Expression})
	}
	return named
}

// source returns the expressions of a policy.
func (c *compilation) source(spec *admissionv1.ValidatingAdmissionPolicySpec) admission.Source {
	s := admission.Source{
		Params: spec.ParamKind != nil, Variables: c.variables(spec.Variables), Conditions: c.conditions(spec.MatchConditions),
	}
	if len(spec.Validations) == 0 && len(spec.AuditAnnotations) == 0 {
		c.fail("spec.validations", "validations or auditAnnotations must be set: the policy does nothing", "add a validation")
	}
	for i, v := range spec.Validations {
		s.Validations = append(s.Validations, c.validation(fmt.Sprintf("spec.validations[%d]", i), v))
	}
	if len(spec.AuditAnnotations) > maxAuditAnnotations {
		c.fail("spec.auditAnnotations", fmt.Sprintf("%d annotations: API servers accept %d", len(spec.AuditAnnotations), maxAuditAnnotations), "remove some of them")
	}
	keys := map[string]bool{}
	for i, a := range spec.AuditAnnotations {
		field := fmt.Sprintf("spec.auditAnnotations[%d].key", i)
		if whats := utilvalidation.IsQualifiedName(a.Key); len(whats) > 0 || strings.Contains(a.Key, "/") {
			c.fail(field, fmt.Sprintf("%q cannot be the key of an annotation", a.Key), "use letters, digits, -, _ and .")
		}
		if keys[a.Key] {
			c.fail(field, fmt.Sprintf("there is another annotation with the key %q", a.Key), "rename one of them")
		}
		keys[a.Key] = true
		c.present(fmt.Sprintf("spec.auditAnnotations[%d].valueExpression", i), a.ValueExpression)
		s.Annotations = append(s.Annotations, admission.Annotation{Key: a.Key, ValueExpression: a.ValueExpression})
	}
	return s
}

// maxAuditAnnotations is how many audit annotations API servers accept.
const maxAuditAnnotations = 20

// maxConditions is how many match conditions API servers accept.
const maxConditions = 64

func (c *compilation) conditions(all []admissionv1.MatchCondition) []admission.Named {
	if len(all) > maxConditions {
		c.fail("spec.matchConditions", fmt.Sprintf("%d conditions: API servers accept %d", len(all), maxConditions), "join some of them with &&")
	}
	var named []admission.Named
	names := map[string]bool{}
	for i, m := range all {
		field := fmt.Sprintf("spec.matchConditions[%d].name", i)
		switch whats := utilvalidation.IsQualifiedName(m.Name); {
		case len(whats) > 0:
			c.fail(field, fmt.Sprintf("%q is not a name: %s", m.Name, strings.Join(whats, ", ")), "use letters, digits, -, _ and .")
		case names[m.Name]:
			c.fail(field, fmt.Sprintf("there is another condition %q", m.Name), "rename one of them")
		}
		names[m.Name] = true
		c.present(fmt.Sprintf("spec.matchConditions[%d].expression", i), m.Expression)
		named = append(named, admission.Named{Name: m.Name, Expression: m.Expression})
	}
	return named
}

func (c *compilation) validation(field string, v admissionv1.Validation) admission.Validation {
	c.present(field+".expression", v.Expression)
	if strings.Contains(strings.TrimSpace(v.Message), "\n") {
		c.fail(field+".message", "the message has several lines", "write one line")
	}
	compiled := admission.Validation{Expression: v.Expression, Message: v.Message, MessageExpression: v.MessageExpression}
	if v.Reason != nil {
		compiled.Reason = string(*v.Reason)
		if codeOf(compiled.Reason) == 0 {
			c.fail(field+".reason", fmt.Sprintf("%q is not a reason", *v.Reason), "use Unauthorized, Forbidden, Invalid or RequestEntityTooLarge")
		}
	}
	return compiled
}

// present refuses an expression that is empty. CEL would refuse it, too, in its own words.
func (c *compilation) present(field, expression string) {
	if strings.TrimSpace(expression) == "" {
		c.fail(field, "the expression is missing", "write one")
	}
}

func isIdentifier(name string) bool {
	for i, r := range name {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}

func (c *compilation) failurePolicy(p *admissionv1.FailurePolicyType) (ignore bool) {
	if p == nil || *p == admissionv1.Fail {
		return false
	}
	if *p != admissionv1.Ignore {
		c.fail("spec.failurePolicy", fmt.Sprintf("%q is not a failure policy", *p), "use Fail or Ignore")
	}
	return *p == admissionv1.Ignore
}

func (c *compilation) actions(all []admissionv1.ValidationAction) []usher.Action {
	if len(all) == 0 {
		c.fail("spec.validationActions", "missing: nothing follows from the policy", "use Deny, Warn or Audit")
	}
	var actions []usher.Action
	for i, a := range all {
		action := usher.Action(a)
		field := fmt.Sprintf("spec.validationActions[%d]", i)
		switch {
		case !slices.Contains([]usher.Action{usher.ActDeny, usher.ActWarn, usher.ActAudit}, action):
			c.fail(field, fmt.Sprintf("%q is not an action", a), "use Deny, Warn or Audit")
		case slices.Contains(actions, action):
			c.fail(field, fmt.Sprintf("%s occurs twice", a), "remove one of them")
		}
		actions = append(actions, action)
	}
	if slices.Contains(actions, usher.ActDeny) && slices.Contains(actions, usher.ActWarn) {
		c.fail("spec.validationActions", "Deny and Warn exclude each other: who is denied need not be warned of the same", "remove Warn")
	}
	return actions
}

func (c *compilation) matching(field string, m *admissionv1.MatchResources) matching {
	resources := rule.ResourceMatch{
		Rules:    c.resourceRules(field+".resourceRules", m.ResourceRules),
		Excluded: c.resourceRules(field+".excludeResourceRules", m.ExcludeResourceRules),
		Exact:    c.exact(field+".matchPolicy", m.MatchPolicy),
	}
	if !resources.Exact {
		resources.Excluded = inEveryVersion(resources.Excluded)
	}
	return matching{
		resources:  resources,
		namespaces: c.selector(field+".namespaceSelector", m.NamespaceSelector),
		labels:     c.selector(field+".objectSelector", m.ObjectSelector),
	}
}

// inEveryVersion returns rules that select the resources in all their versions. The versions of a
// resource are equivalent, so that only rules that choose the version of the object need to name
// one.
func inEveryVersion(rules []rule.ResourceRule) []rule.ResourceRule {
	all := slices.Clone(rules)
	for i := range all {
		all[i].Versions = []string{"*"}
	}
	return all
}

func (c *compilation) exact(field string, p *admissionv1.MatchPolicyType) bool {
	if p == nil || *p == admissionv1.Equivalent {
		return false
	}
	if *p != admissionv1.Exact {
		c.fail(field, fmt.Sprintf("%q is not a match policy", *p), "use Exact or Equivalent")
	}
	return true
}

func (c *compilation) selector(field string, s *metav1.LabelSelector) labels.Selector {
	if s == nil {
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		c.fail(field, err.Error(), "correct the selector")
		return nil
	}
	if selector.Empty() {
		return nil
	}
	return selector
}

func (c *compilation) resourceRules(field string, rules []admissionv1.NamedRuleWithOperations) []rule.ResourceRule {
	var all []rule.ResourceRule
	for i := range rules {
		r := &rules[i]
		at := fmt.Sprintf("%s[%d]", field, i)
		for name, list := range map[string][]string{"apiGroups": r.APIGroups, "apiVersions": r.APIVersions, "resources": r.Resources} {
			if len(list) == 0 {
				c.fail(at+"."+name, "missing: the rule is for no request", "name some, or * for all")
			}
			// The core group has no name. API servers reject what else has none.
			if i := slices.Index(list, ""); i >= 0 && name != "apiGroups" {
				c.fail(fmt.Sprintf("%s.%s[%d]", at, name, i), "it is empty", "name one, or * for all")
			}
		}
		compiled := rule.ResourceRule{Groups: r.APIGroups, Versions: r.APIVersions, Resources: r.Resources, Names: r.ResourceNames}
		compiled.Operations = c.operations(at+".operations", r.Operations)
		if r.Scope != nil && *r.Scope != admissionv1.AllScopes {
			compiled.Scope = rule.Scope(*r.Scope)
			if compiled.Scope != rule.Cluster && compiled.Scope != rule.Namespaced {
				c.fail(at+".scope", fmt.Sprintf("%q is not a scope", *r.Scope), "use Cluster, Namespaced or *")
			}
		}
		all = append(all, compiled)
	}
	return all
}

func (c *compilation) operations(field string, words []admissionv1.OperationType) []usher.Operation {
	if len(words) == 0 {
		c.fail(field, "missing: the rule is for no request", "name some, or * for all")
	}
	var operations []usher.Operation
	for i, word := range words {
		if word == admissionv1.OperationAll {
			return nil
		}
		operation := usher.Operation(word)
		if !slices.Contains(usher.Operations(), operation) {
			c.fail(fmt.Sprintf("%s[%d]", field, i), fmt.Sprintf("%q is not an operation", word), "use CREATE, UPDATE, DELETE, CONNECT or *")
		}
		operations = append(operations, operation)
	}
	return operations
}
