package spec

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/rule"
)

// A Match is a MatchResources. What depends on the labels of objects and namespaces is told by
// the program of the rule: namespaces are facts.
type Match struct {
	Resources rule.ResourceMatch

	own                *rule.ResourceMatch
	namespaces, labels labels.Selector
	// notLabels and notNamespaces say that a selector does not match. Few requests have anybody who
	// reads it, and writing it takes longer than matching.
	notLabels, notNamespaces string
	// selected is by what other policies know whether namespaces are selected.
	selected rule.Shared
	// inNamespaces says that a namespaceSelector is for objects in namespaces alone, and for namespaces.
	inNamespaces bool
}

// InNamespaces has the namespaceSelector exclude cluster-scoped objects but namespaces. Otherwise it is not
// for them: it excludes none, as in admission policies of Kubernetes.
func (m *Match) InNamespaces() { m.inNamespaces = true }

// Own returns the requests that a binding is for, by their endpoints; nil for all.
func (m *Match) Own() *rule.ResourceMatch { return m.own }

// Namespaces returns those of the objects in namespaces that m may be for.
func (m *Match) Namespaces() rule.Namespaces { return rule.NamespacesOf(m.namespaces) }

// settle makes own of Resources.
func (m *Match) settle() {
	own := m.Resources
	if m.own = nil; len(own.Rules)+len(own.Excluded) == 0 && !own.Exact {
		return
	}
	if !own.Exact {
		own.Rules = inEveryVersion(own.Rules)
	}
	m.own = &own
}

// Mismatch returns why a request is not one that m is for, as a binding has it; empty if it is. The
// error is as that of [Match.Skips].
func (m *Match) Mismatch(in *rule.Input) (string, error) {
	if m.own != nil {
		if why := m.own.Mismatch(in.Request); why != "" {
			return why, nil
		}
	}
	return m.Skips(in)
}

// SelectsNamespace reports whether the namespaceSelector selects a namespace.
func (m *Match) SelectsNamespace(namespace map[string]any) bool {
	return m.namespaces == nil || selects(m.namespaces, namespace)
}

// Selects reports whether labels of objects or of namespaces decide which requests m is for.
func (m *Match) Selects() bool { return m.labels != nil || m.namespaces != nil }

// Brief reports whether Skips and Mismatch need no facts, and take a moment.
func (m *Match) Brief() bool { return m == nil || m.namespaces == nil }

// AddPaths adds the paths that the selectors read in objects.
func (m *Match) AddPaths(object, old *usher.Paths) {
	if m.labels != nil {
		object.Add("metadata", "labels")
		old.Add("metadata", "labels")
	}
	if m.namespaces != nil {
		// A namespace that is written is the object.
		object.Add("metadata", "labels")
	}
}

// DependsOn returns on what it depends, besides objects, whether a request is one that m is for, as a
// binding has it.
func (m *Match) DependsOn() rule.Dependencies {
	var all rule.Dependencies
	if m.own != nil {
		all = m.own.DependsOn()
	}
	if m.namespaces != nil {
		all |= rule.OnNamespace | rule.OnObjects
	}
	return all
}

// Constraints compiles spec.matchConstraints, which is required.
func (c *Compilation) Constraints(m *admissionv1.MatchResources) Match {
	if m == nil {
		c.Fail("spec.matchConstraints", "missing: the policy is for no request", "name resources in spec.matchConstraints.resourceRules")
		return Match{}
	}
	if len(m.ResourceRules) == 0 {
		c.Fail("spec.matchConstraints.resourceRules", "missing: the policy is for no request", "add a rule with apiGroups, apiVersions, operations and resources")
	}
	c.nameless(m.ResourceRules)
	return c.Match("spec.matchConstraints", m)
}

// nameless warns of rules for deletions of objects with certain names: API servers send those of a collection
// without the name.
func (c *Compilation) nameless(rules []admissionv1.NamedRuleWithOperations) {
	for i := range rules {
		if len(rules[i].ResourceNames) == 0 || !slices.Contains(rules[i].Operations, admissionv1.Delete) {
			continue
		}
		c.Problems = append(c.Problems, rule.Problem{
			Severity: rule.Warning, Field: fmt.Sprintf("spec.matchConstraints.resourceRules[%d].resourceNames", i),
			What: "requests to delete a collection (deletecollection) name no object: the rule is not for what they delete",
			Do:   "remove resourceNames, and compare oldObject.metadata.name in matchConditions",
		})
	}
}

// Match compiles a MatchResources.
func (c *Compilation) Match(field string, m *admissionv1.MatchResources) Match {
	resources := rule.ResourceMatch{
		Rules:    c.resourceRules(field+".resourceRules", m.ResourceRules),
		Excluded: c.resourceRules(field+".excludeResourceRules", m.ExcludeResourceRules),
		Exact:    c.exact(field+".matchPolicy", m.MatchPolicy),
	}
	if !resources.Exact {
		resources.Excluded = inEveryVersion(resources.Excluded)
	}
	match := Match{
		Resources:  resources,
		namespaces: c.selector(field+".namespaceSelector", m.NamespaceSelector),
		labels:     c.selector(field+".objectSelector", m.ObjectSelector),
	}
	if match.labels != nil {
		match.notLabels = fmt.Sprintf("labels do not match the objectSelector %q", match.labels)
	}
	if match.namespaces != nil {
		match.selected = rule.Shared{Expression: rule.DigestOf("namespaceSelector", match.namespaces.String())}
		match.notNamespaces = fmt.Sprintf("the labels of the namespace do not match the namespaceSelector %q", match.namespaces)
	}
	match.settle()
	return match
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

func (c *Compilation) exact(field string, p *admissionv1.MatchPolicyType) bool {
	if p == nil || *p == admissionv1.Equivalent {
		return false
	}
	if *p != admissionv1.Exact {
		c.Fail(field, fmt.Sprintf("%q is not a match policy", *p), "use Exact or Equivalent")
	}
	return true
}

func (c *Compilation) selector(field string, s *metav1.LabelSelector) labels.Selector {
	if s == nil {
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		c.Fail(field, err.Error(), "correct the selector")
		return nil
	}
	if selector.Empty() {
		return nil
	}
	return selector
}

func (c *Compilation) resourceRules(field string, rules []admissionv1.NamedRuleWithOperations) []rule.ResourceRule {
	var all []rule.ResourceRule
	for i := range rules {
		r := &rules[i]
		at := fmt.Sprintf("%s[%d]", field, i)
		for name, list := range map[string][]string{"apiGroups": r.APIGroups, "apiVersions": r.APIVersions, "resources": r.Resources} {
			if len(list) == 0 {
				c.Fail(at+"."+name, "missing: the rule is for no request", "name some, or * for all")
			}
			// The core group has no name. API servers reject what else has none.
			if i := slices.Index(list, ""); i >= 0 && name != "apiGroups" {
				c.Fail(fmt.Sprintf("%s.%s[%d]", at, name, i), "it is empty", "name one, or * for all")
			}
			if all := covering(list); all != "" {
				c.Fail(at+"."+name, fmt.Sprintf("API servers reject %s beside what it covers", all), "remove the others")
			}
		}
		compiled := rule.ResourceRule{Groups: r.APIGroups, Versions: r.APIVersions, Resources: r.Resources, Names: r.ResourceNames}
		compiled.Operations = c.operations(at+".operations", r.Operations)
		if r.Scope != nil && *r.Scope != admissionv1.AllScopes {
			compiled.Scope = rule.Scope(*r.Scope)
			if compiled.Scope != rule.Cluster && compiled.Scope != rule.Namespaced {
				c.Fail(at+".scope", fmt.Sprintf("%q is not a scope", *r.Scope), "use Cluster, Namespaced or *")
			}
		}
		all = append(all, compiled)
	}
	return all
}

// covering returns an item that makes others redundant; empty if there is none.
func covering(list []string) string {
	for _, item := range list {
		resource, subresource, _ := strings.Cut(item, "/")
		for _, other := range list {
			r, s, sub := strings.Cut(other, "/")
			if other != item && (item == "*/*" || item == "*" && !sub || subresource == "*" && r == resource && sub || resource == "*" && subresource != "" && s == subresource) {
				return item
			}
		}
	}
	return ""
}

func (c *Compilation) operations(field string, words []admissionv1.OperationType) []usher.Operation {
	if len(words) == 0 {
		c.Fail(field, "missing: the rule is for no request", "name some, or * for all")
	}
	if len(words) > 1 && slices.Contains(words, admissionv1.OperationAll) {
		c.Fail(field, "API servers reject * beside other operations", "remove the others")
	}
	var operations []usher.Operation
	for i, word := range words {
		if word == admissionv1.OperationAll {
			return nil
		}
		operation := usher.Operation(word)
		if !slices.Contains(usher.Operations(), operation) {
			c.Fail(fmt.Sprintf("%s[%d]", field, i), fmt.Sprintf("%q is not an operation", word), "use CREATE, UPDATE, DELETE, CONNECT or *")
		}
		operations = append(operations, operation)
	}
	return operations
}

// Skips returns why a request is not one that m is for, empty if it is. Its resource has matched.
// The error is [*fact.Missing], or that of getting the namespace.
func (m *Match) Skips(in *rule.Input) (string, error) {
	if m.labels != nil && !selects(m.labels, matched(in)) && !selects(m.labels, in.OldObject) {
		return m.notLabels, nil
	}
	switch {
	case m.namespaces == nil:
		return "", nil
	case clusterScoped(in.Request) && m.inNamespaces:
		return "the namespaceSelector is for objects in namespaces", nil
	case clusterScoped(in.Request):
		return "", nil
	}
	if selected, err := m.selects(in); err != nil || selected {
		return "", err
	}
	return m.notNamespaces, nil
}

// clusterScoped reports whether a request is for an object in no namespace that is no namespace.
func clusterScoped(r *usher.Request) bool {
	return r.Namespace == "" && r.Resource.Resource != "namespaces"
}

// selects reports whether the namespaceSelector selects the namespace of a request, unless another
// policy has found that out.
func (m *Match) selects(in *rule.Input) (bool, error) {
	var place *any
	if !writesNamespace(in.Request) {
		// Where it is the object, rules and exemptions do not always mean the same one.
		place = in.Memo.Place(m.selected)
	}
	if place != nil && *place != nil {
		return (*place).(bool), nil
	}
	namespace, err := namespaceOf(in)
	if err != nil {
		return false, err
	}
	selected := selects(m.namespaces, namespace)
	if place != nil {
		*place = selected
	}
	return selected, nil
}

// sharedValues returns what other policies may find out, too.
func (m *Match) sharedValues() []rule.Shared {
	if m.namespaces == nil {
		return nil
	}
	return []rule.Shared{m.selected}
}

// matched is the object that selectors are about: what the policies before have changed does not
// count.
func matched(in *rule.Input) map[string]any {
	if in.Matched != nil {
		return in.Matched
	}
	return in.Object
}

// selects reports whether a selector selects an object. It does not if there is none, or if it
// has no metadata, as the options of a CONNECT.
func selects(selector labels.Selector, object map[string]any) bool {
	of, ok := rule.LabelsOf(object)
	return ok && selector.Matches(of)
}

// namespaceOf returns the namespace whose labels count: one that is being written is the object.
func namespaceOf(in *rule.Input) (map[string]any, error) {
	if writesNamespace(in.Request) {
		return matched(in), nil
	}
	return admission.Namespace(in.Memo, in.Facts, in.Request.Namespace)
}

func writesNamespace(r *usher.Request) bool {
	return r.Resource.Resource == "namespaces" && r.Subresource == "" && (r.Operation == usher.Create || r.Operation == usher.Update)
}
