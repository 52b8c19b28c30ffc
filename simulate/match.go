package simulate

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/namespace"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/object"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
)

// criteria decide whether a webhook, a policy or a binding matches a request.
type criteria struct {
	namespaces, objects *metav1.LabelSelector
	rules               []namedRule
	// everything means that an empty list of rules matches every request, as in policies and
	// bindings.
	everything bool
	exclude    []namedRule
	policy     *admissionv1.MatchPolicyType
}

// A namedRule is a rule that may be limited to objects with certain names.
type namedRule struct {
	admissionv1.RuleWithOperations

	names []string
	// place is the path of the rule, such as rules[0].
	place string
}

func hookCriteria(namespaces, objects *metav1.LabelSelector, from []admissionv1.RuleWithOperations, policy *admissionv1.MatchPolicyType) criteria {
	c := criteria{namespaces: namespaces, objects: objects, policy: policy}
	for i, rule := range from {
		c.rules = append(c.rules, namedRule{RuleWithOperations: rule, place: fmt.Sprintf("rules[%d]", i)})
	}
	return c
}

func policyCriteria(m *admissionv1.MatchResources) criteria {
	c := criteria{namespaces: m.NamespaceSelector, objects: m.ObjectSelector, policy: m.MatchPolicy, everything: true}
	for i, rule := range m.ResourceRules {
		c.rules = append(c.rules, namedRule{rule.RuleWithOperations, rule.ResourceNames, fmt.Sprintf("resourceRules[%d]", i)})
	}
	for i, rule := range m.ExcludeResourceRules {
		c.exclude = append(c.exclude, namedRule{rule.RuleWithOperations, rule.ResourceNames, fmt.Sprintf("excludeResourceRules[%d]", i)})
	}
	return c
}

// GetParsedNamespaceSelector implements [namespace.NamespaceSelectorProvider].
func (c *criteria) GetParsedNamespaceSelector() (labels.Selector, error) {
	return metav1.LabelSelectorAsSelector(c.namespaces)
}

// GetParsedObjectSelector implements [object.ObjectSelectorProvider].
func (c *criteria) GetParsedObjectSelector() (labels.Selector, error) {
	return metav1.LabelSelectorAsSelector(c.objects)
}

// A verdict is whether criteria hold, and which of them decided.
type verdict struct {
	matched bool
	why     string
	// kind is the one that the object is converted to; resource belongs to it.
	kind     schema.GroupVersionKind
	resource schema.GroupVersionResource
	err      error
}

func miss(format string, args ...any) verdict { return verdict{why: fmt.Sprintf(format, args...)} }

// judge calls the API server's own predicates, in its order.
func (c *chain) judge(a admission.Attributes, o admission.ObjectInterfaces, k criteria) verdict {
	matcher := &namespace.Matcher{NamespaceLister: c.informers.Core().V1().Namespaces().Lister(), Client: c.client}
	inNamespace, namespaceErr := matcher.MatchNamespaceSelector(&k, a)
	if !inNamespace && namespaceErr == nil {
		return miss("namespaceSelector %q does not match %s", metav1.FormatLabelSelector(k.namespaces), namespaceText(matcher, a))
	}
	selected, selectErr := (&object.Matcher{}).MatchObjectSelector(&k, a)
	if !selected && selectErr == nil {
		return miss("objectSelector %q does not match %s", metav1.FormatLabelSelector(k.objects), labelsText(a))
	}
	if excluded := ruled(a, o, k.exclude, k.policy); excluded.matched {
		return miss("%s excludes it", excluded.why)
	}
	found := verdict{matched: true, why: "no rules: every request", kind: a.GetKind(), resource: a.GetResource()}
	if len(k.rules) > 0 || !k.everything {
		found = ruled(a, o, k.rules, k.policy)
	}
	// A selector that fails is of no account if no rule matches.
	switch {
	case !found.matched:
	case namespaceErr != nil:
		found.err = namespaceErr
	case selectErr != nil:
		found.err = selectErr
	}
	return found
}

// ruled reports whether a rule matches, exactly or in another version.
func ruled(a admission.Attributes, o admission.ObjectInterfaces, all []namedRule, policy *admissionv1.MatchPolicyType) verdict {
	for _, rule := range all {
		if rule.matches(a) {
			return verdict{matched: true, why: rule.place, kind: a.GetKind(), resource: a.GetResource()}
		}
	}
	if policy != nil && *policy == admissionv1.Equivalent {
		equivalents := o.GetEquivalentResourceMapper().EquivalentResourcesFor(a.GetResource(), a.GetSubresource())
		for _, rule := range all {
			for _, resource := range equivalents {
				if resource == a.GetResource() || !rule.matches(&elsewhere{a, resource}) {
					continue
				}
				kind := o.GetEquivalentResourceMapper().KindFor(resource, a.GetSubresource())
				why := fmt.Sprintf("%s by matchPolicy Equivalent: converted to %s", rule.place, kindText(kind))
				return verdict{matched: true, why: why, kind: kind, resource: resource}
			}
		}
	}
	return verdict{why: unruled(a, all, policy)}
}

func (r *namedRule) matches(a admission.Attributes) bool {
	matcher := rules.Matcher{Rule: r.RuleWithOperations, Attr: a}
	return matcher.Matches() && (len(r.names) == 0 || slices.Contains(r.names, a.GetName()))
}

// elsewhere is a request for the same object by another resource.
type elsewhere struct {
	admission.Attributes

	resource schema.GroupVersionResource
}

// GetResource implements [admission.Attributes].
func (e *elsewhere) GetResource() schema.GroupVersionResource { return e.resource }

// unruled returns why the rules do not match a request: for the one that matches most.
func unruled(a admission.Attributes, all []namedRule, policy *admissionv1.MatchPolicyType) string {
	if len(all) == 0 {
		return "it has no rules, and so matches nothing"
	}
	best, clause := -1, ""
	for _, rule := range all {
		if depth, text := rule.first(a, policy); depth > best {
			best, clause = depth, rule.place+": "+text
		}
	}
	if len(all) > 1 {
		return fmt.Sprintf("no rule of %d matches; the closest, %s", len(all), clause)
	}
	return clause
}

// first is the clause of a rule that fails first, in an order that a reader expects, and
// how far it got.
func (r *namedRule) first(a admission.Attributes, policy *admissionv1.MatchPolicyType) (int, string) {
	resource := a.GetResource()
	name := resource.Resource
	if a.GetSubresource() != "" {
		name += "/" + a.GetSubresource()
	}
	widest := admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{"*"},
		Rule:       admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}},
	}
	steps := []struct {
		narrow func(*admissionv1.RuleWithOperations)
		text   string
	}{
		{func(w *admissionv1.RuleWithOperations) { w.APIGroups = r.APIGroups }, fmt.Sprintf("apiGroups %s lacks %q", list(r.APIGroups), resource.Group)},
		{func(w *admissionv1.RuleWithOperations) { w.Resources = r.Resources }, fmt.Sprintf("resources %s lacks %q", list(r.Resources), name)},
		{func(w *admissionv1.RuleWithOperations) { w.APIVersions = r.APIVersions }, fmt.Sprintf("apiVersions %s lacks %q%s", list(r.APIVersions), resource.Version, exactly(policy))},
		{func(w *admissionv1.RuleWithOperations) { w.Operations = r.Operations }, fmt.Sprintf("operations %s lacks %q", list(r.Operations), a.GetOperation())},
		{func(w *admissionv1.RuleWithOperations) { w.Scope = r.Scope }, fmt.Sprintf("scope is %s", scopeText(r.Scope))},
	}
	for i, step := range steps {
		step.narrow(&widest)
		matcher := rules.Matcher{Rule: widest, Attr: a}
		if !matcher.Matches() {
			return i, step.text
		}
	}
	return len(steps), fmt.Sprintf("resourceNames %s lacks %q", list(r.names), a.GetName())
}

func exactly(policy *admissionv1.MatchPolicyType) string {
	if policy != nil && *policy == admissionv1.Exact {
		return ", and matchPolicy is Exact"
	}
	return ""
}

func scopeText(scope *admissionv1.ScopeType) string {
	if scope == nil {
		return string(admissionv1.AllScopes)
	}
	return string(*scope)
}

func list[S ~string](words []S) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = fmt.Sprintf("%q", string(word))
	}
	return "[" + strings.Join(quoted, " ") + "]"
}

func namespaceText(matcher *namespace.Matcher, a admission.Attributes) string {
	found, err := matcher.GetNamespaceLabels(a)
	if err != nil {
		return fmt.Sprintf("namespace %s: %v", a.GetNamespace(), err)
	}
	return fmt.Sprintf("namespace %s with labels %q", a.GetNamespace(), labels.Set(found).String())
}

func labelsText(a admission.Attributes) string {
	var texts []string
	for _, part := range []struct {
		name   string
		object runtime.Object
	}{{"object", a.GetObject()}, {"old object", a.GetOldObject()}} {
		if part.object == nil {
			continue
		}
		found := labels.Set{}
		if accessor, ok := part.object.(metav1.ObjectMetaAccessor); ok {
			found = accessor.GetObjectMeta().GetLabels()
		}
		if accessor, ok := part.object.(metav1.Object); ok {
			found = accessor.GetLabels()
		}
		texts = append(texts, fmt.Sprintf("labels %q of the %s", found.String(), part.name))
	}
	if len(texts) == 0 {
		return "a request without an object"
	}
	return strings.Join(texts, " or ")
}
