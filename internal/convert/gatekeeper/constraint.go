package gatekeeper

import (
	"encoding/json"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/internal/convert"
)

// A constraint is what a constraint of Gatekeeper says.
type constraint struct {
	Match             match          `json:"match"`
	EnforcementAction string         `json:"enforcementAction,omitempty"`
	Scoped            []scoped       `json:"scopedEnforcementActions,omitempty"`
	Parameters        map[string]any `json:"parameters,omitempty"`
}

type scoped struct {
	Action string `json:"action"`
	Points []struct {
		Name string `json:"name"`
	} `json:"enforcementPoints"`
}

// A selection is a constraint as a binding.
type selection struct {
	name    string
	matches admissionv1.MatchResources
	// conditions are those that no binding can have.
	conditions []admissionv1.MatchCondition
	actions    []admissionv1.ValidationAction
	params     *apiextensionsv1.JSON
}

// constraint converts a constraint; nil if that is not possible, for the reasons that it leaves.
func (c *conversion) constraint(i *convert.Import, t *template, f *convert.Foreign, taken map[string]bool) *selection {
	var of constraint
	spec, _ := f.Object["spec"].(map[string]any)
	if err := decode(spec, &of, true); err != nil {
		i.Leave(f, "spec", err.Error(), "correct the constraint")
		return nil
	}
	before := len(i.Left)
	s := &selection{name: convert.BindingName(f.Ref().Name, func(name string) bool { return taken[name] })}
	taken[s.name] = true
	if s.name != f.Ref().Name {
		i.Note(f, "metadata.name", "the binding is called "+s.name, "")
	}
	if t.adopted != nil {
		t.adopted.suits(i, f, &of.Match)
	}
	c.match(i, f, &of.Match, s)
	c.act(i, f, &of, s)
	t.parameters(i, f, of.Parameters, s)
	if len(i.Left) > before {
		return nil
	}
	return s
}

// Actions of constraints.
const (
	deny   = "deny"
	warn   = "warn"
	dryrun = "dryrun"
	each   = "scoped"
)

// act sets what follows from a violation.
func (c *conversion) act(i *convert.Import, f *convert.Foreign, of *constraint, s *selection) {
	action, field := of.EnforcementAction, "spec.enforcementAction"
	if action == each {
		action, field = webhookAction(of.Scoped), "spec.scopedEnforcementActions"
	}
	switch action {
	case deny, "":
		if s.actions = []admissionv1.ValidationAction{admissionv1.Deny}; !c.Enforce {
			s.actions = []admissionv1.ValidationAction{admissionv1.Warn}
			i.Note(f, field, "the binding "+s.name+" warns where the constraint denies", "write validationActions: [Deny] in the binding when its warnings are as expected, or import with --enforce")
		}
	case warn:
		s.actions = []admissionv1.ValidationAction{admissionv1.Warn}
	case dryrun:
		s.actions = []admissionv1.ValidationAction{admissionv1.Audit}
	default:
		i.Leave(f, field, fmt.Sprintf("there is no action %q", action), "write deny, warn or dryrun")
	}
}

// webhookAction returns the strongest action for Gatekeeper's webhook; dryrun if there is none, since audit reports
// violations anyway.
func webhookAction(all []scoped) string {
	found := dryrun
	for _, s := range all {
		at := slices.IndexFunc(s.Points, func(p struct {
			Name string `json:"name"`
		}) bool {
			return p.Name == "*" || p.Name == "validation.gatekeeper.sh"
		})
		if at >= 0 && (s.Action == deny || found == dryrun) {
			found = s.Action
		}
	}
	return found
}

// parameters writes the parameters of a constraint in place, with the defaults of the template.
func (t *template) parameters(i *convert.Import, f *convert.Foreign, parameters map[string]any, s *selection) {
	if !t.reads {
		return
	}
	if parameters == nil && t.compares {
		i.Leave(f, "spec.parameters", "there are none, and the template compares variables.params with null", "write parameters: {}")
		return
	}
	// None are null, of which no expression can tell the difference otherwise.
	value := any(map[string]any{})
	if parameters != nil {
		value = defaulted(t.defaults, parameters)
	}
	if t.adopted != nil {
		params, err := t.adopted.params(value.(map[string]any)) //nolint:forcetypeassert // Defaults are added to an object.
		if err != nil {
			i.Leave(f, "spec.parameters", err.Error(), "write it as a ClusterObjectPolicy: 'usher library show "+t.adopted.policy+"'")
			return
		}
		value = params
	}
	raw, err := json.Marshal(value)
	if err != nil {
		i.Leave(f, "spec.parameters", err.Error(), "correct the constraint")
		return
	}
	s.params = &apiextensionsv1.JSON{Raw: raw}
}

// defaulted returns a value with the defaults of its schema, as an API server stores it.
func defaulted(schema map[string]any, value any) any {
	switch v := value.(type) {
	case map[string]any:
		properties, _ := schema["properties"].(map[string]any)
		for name, of := range properties {
			of, _ := of.(map[string]any)
			if of == nil {
				continue
			}
			if _, ok := v[name]; !ok && of["default"] != nil {
				v[name] = of["default"]
			}
			if v[name] != nil {
				v[name] = defaulted(of, v[name])
			}
		}
	case []any:
		items, _ := schema["items"].(map[string]any)
		for i := range v {
			v[i] = defaulted(items, v[i])
		}
	}
	return value
}

// union returns what any of some constraints selects.
func union(all []*selection) admissionv1.MatchResources {
	if len(all) == 1 {
		return all[0].matches
	}
	var m admissionv1.MatchResources
	for _, s := range all {
		for _, r := range s.matches.ResourceRules {
			if !slices.ContainsFunc(m.ResourceRules, func(o admissionv1.NamedRuleWithOperations) bool { return same(o, r) }) {
				m.ResourceRules = append(m.ResourceRules, r)
			}
		}
	}
	if first := all[0]; !slices.ContainsFunc(all, func(s *selection) bool { return !same(s.matches.NamespaceSelector, first.matches.NamespaceSelector) }) {
		m.NamespaceSelector = first.matches.NamespaceSelector
	}
	return m
}

// beyond returns what a constraint selects by more than all constraints do; nil for nothing.
func (s *selection) beyond(all *admissionv1.MatchResources) *admissionv1.MatchResources {
	rest := s.matches
	if same(rest.ResourceRules, all.ResourceRules) {
		rest.ResourceRules = nil
	}
	if same(rest.NamespaceSelector, all.NamespaceSelector) {
		rest.NamespaceSelector = nil
	}
	if same(rest.ObjectSelector, all.ObjectSelector) {
		rest.ObjectSelector = nil
	}
	if same(rest, admissionv1.MatchResources{}) {
		return nil
	}
	return &rest
}

// and returns a selector of namespaces with one requirement more.
func and(selector *metav1.LabelSelector, more metav1.LabelSelectorRequirement) *metav1.LabelSelector {
	if selector == nil {
		selector = &metav1.LabelSelector{}
	}
	selector = selector.DeepCopy()
	selector.MatchExpressions = append(selector.MatchExpressions, more)
	return selector
}
