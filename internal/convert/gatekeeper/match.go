package gatekeeper

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/kind"
)

// A match says which objects a constraint is for: those for which all of it holds.
type match struct {
	Kinds              []kinds               `json:"kinds,omitempty"`
	Scope              string                `json:"scope,omitempty"`
	Namespaces         []string              `json:"namespaces,omitempty"`
	ExcludedNamespaces []string              `json:"excludedNamespaces,omitempty"`
	NamespaceSelector  *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	LabelSelector      *metav1.LabelSelector `json:"labelSelector,omitempty"`
	Name               string                `json:"name,omitempty"`
	Source             string                `json:"source,omitempty"`
}

type kinds struct {
	APIGroups []string `json:"apiGroups,omitempty"`
	Kinds     []string `json:"kinds,omitempty"`
}

// listened are the subresources that Gatekeeper's webhook is asked about and whose objects are of a kind that also
// has a resource.
var listened = []string{"pods/ephemeralcontainers", "services/status"}

// match sets what a constraint selects.
func (c *conversion) match(i *convert.Import, f *convert.Foreign, m *match, s *selection) {
	if m.Source == "Generated" {
		i.Leave(f, "spec.match.source", "it is for pods alone that an ExpansionTemplate makes of workloads", "write podTemplates in a ClusterObjectPolicy for pods")
		return
	}
	s.matches.ResourceRules = c.rules(i, f, m)
	s.matches.ObjectSelector = m.LabelSelector
	s.matches.NamespaceSelector = m.NamespaceSelector
	s.namespaces("included-namespaces", metav1.LabelSelectorOpIn, m.Namespaces)
	s.namespaces("excluded-namespaces", metav1.LabelSelectorOpNotIn, slices.Concat(m.ExcludedNamespaces, c.excluded))
	if m.Name != "" {
		s.conditions = append(s.conditions, admissionv1.MatchCondition{Name: "name", Expression: named(m.Name)})
	}
}

// named returns an expression that is true for the name of an object, or for that from which its name will be made.
func named(pattern string) string {
	expression := fits("object.metadata.?name.orValue('')", pattern)
	if strings.HasSuffix(pattern, "*") {
		expression += " || " + fits("object.metadata.?generateName.orValue('')", pattern)
	}
	return expression
}

// namespaces adds a requirement for the namespace of objects. Objects of the cluster that are no namespaces always
// meet it.
func (s *selection) namespaces(name string, op metav1.LabelSelectorOperator, patterns []string) {
	if len(patterns) == 0 {
		return
	}
	if !slices.ContainsFunc(patterns, func(p string) bool { return strings.Contains(p, "*") }) {
		values := slices.Compact(slices.Sorted(slices.Values(patterns)))
		s.matches.NamespaceSelector = and(s.matches.NamespaceSelector, metav1.LabelSelectorRequirement{Key: "kubernetes.io/metadata.name", Operator: op, Values: values})
		return
	}
	const namespace = "request.?namespace.orValue('')"
	var terms []string
	for _, p := range patterns {
		terms = append(terms, fits(namespace, p))
	}
	expression := strings.Join(terms, " || ")
	if op == metav1.LabelSelectorOpNotIn {
		expression = "!(" + expression + ")"
	}
	s.conditions = append(s.conditions, admissionv1.MatchCondition{Name: name, Expression: namespace + " == '' || " + expression})
}

// fits returns an expression that is true if a text is like a pattern: x, x*, *x or *x*.
func fits(text, pattern string) string {
	begin, end := strings.HasPrefix(pattern, "*"), strings.HasSuffix(pattern, "*")
	quoted := convert.Quote(strings.Trim(pattern, "*"))
	switch {
	case begin && end:
		return fmt.Sprintf("%s.contains(%s)", text, quoted)
	case begin:
		return fmt.Sprintf("%s.endsWith(%s)", text, quoted)
	case end:
		return fmt.Sprintf("%s.startsWith(%s)", text, quoted)
	}
	return fmt.Sprintf("%s == %s", text, quoted)
}

// rules returns the resources of a constraint.
func (c *conversion) rules(i *convert.Import, f *convert.Foreign, m *match) []admissionv1.NamedRuleWithOperations {
	all := m.Kinds
	if len(all) == 0 {
		all = []kinds{{}}
	}
	var scope *admissionv1.ScopeType
	if of := admissionv1.ScopeType(m.Scope); of == admissionv1.NamespacedScope || of == admissionv1.ClusterScope {
		scope = &of
	}
	var rules []admissionv1.NamedRuleWithOperations
	add := func(group string, resources []string) {
		r := admissionv1.NamedRuleWithOperations{}
		r.Operations = []admissionv1.OperationType{admissionv1.Create, admissionv1.Update}
		r.APIGroups, r.APIVersions, r.Resources, r.Scope = []string{group}, []string{"*"}, resources, scope
		rules = append(rules, r)
	}
	for n, k := range all {
		field := fmt.Sprintf("spec.match.kinds[%d]", n)
		groups, names := wild(k.APIGroups), wild(k.Kinds)
		if names == nil {
			for _, group := range groups {
				add(group, []string{"*"})
			}
			if groups == nil {
				add("*", []string{"*"})
			}
			continue
		}
		for _, name := range names {
			found := c.resources(groups, name)
			if len(found) == 0 {
				i.Leave(f, field, fmt.Sprintf("no kind %s of the API groups %s is known", name, strings.Join(k.APIGroups, ", ")), "name the file with its CustomResourceDefinition, too")
			}
			for _, of := range found {
				add(of.group, of.names)
			}
		}
	}
	return merged(rules)
}

// wild returns a list of names; nil for all.
func wild(names []string) []string {
	if slices.Contains(names, "*") {
		return nil
	}
	return names
}

// served are the resources of a group whose objects are of one kind.
type served struct {
	group string
	names []string
}

// resources returns the resources of a kind, those of groups that are not served left out.
func (c *conversion) resources(groups []string, name string) []served {
	var all []served
	c.Kinds.Resources()(func(r *kind.Resource) bool {
		if r.Kind != name || groups != nil && !slices.Contains(groups, r.Group) || strings.Contains(r.Name, "/") && !slices.Contains(listened, r.Name) {
			return true
		}
		at := slices.IndexFunc(all, func(s served) bool { return s.group == r.Under() })
		if at < 0 {
			at, all = len(all), append(all, served{group: r.Under()})
		}
		if !slices.Contains(all[at].names, r.Name) {
			all[at].names = append(all[at].names, r.Name)
		}
		return true
	})
	return all
}

// merged returns rules of which those of the same group are one.
func merged(rules []admissionv1.NamedRuleWithOperations) []admissionv1.NamedRuleWithOperations {
	var all []admissionv1.NamedRuleWithOperations
	for _, r := range rules {
		at := slices.IndexFunc(all, func(o admissionv1.NamedRuleWithOperations) bool { return slices.Equal(o.APIGroups, r.APIGroups) })
		if at < 0 {
			all = append(all, r)
			continue
		}
		for _, name := range r.Resources {
			if !slices.Contains(all[at].Resources, name) {
				all[at].Resources = append(all[at].Resources, name)
			}
		}
	}
	return all
}

// same reports whether two values are equal.
func same(a, b any) bool { return reflect.DeepEqual(a, b) }

// excluding is what a Config says about namespaces.
type excluding struct {
	Match []struct {
		Processes          []string `json:"processes"`
		ExcludedNamespaces []string `json:"excludedNamespaces"`
	} `json:"match"`
}

// exclude reads which namespaces no policy is for. The rest of a Config is of no consequence here.
func (c *conversion) exclude() {
	for _, f := range c.configs {
		var of excluding
		spec, _ := f.Object["spec"].(map[string]any)
		if err := decode(spec, &of, false); err != nil {
			c.leave(f, "spec", err.Error(), "correct it")
			continue
		}
		for _, m := range of.Match {
			if slices.Contains(m.Processes, "*") || slices.Contains(m.Processes, "webhook") {
				c.excluded = append(c.excluded, m.ExcludedNamespaces...)
			}
			if slices.Contains(m.Processes, "*") || slices.Contains(m.Processes, "mutation-webhook") {
				c.unchanged = append(c.unchanged, m.ExcludedNamespaces...)
			}
		}
	}
}
