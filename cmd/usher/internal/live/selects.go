package live

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/cmd/usher/internal/served"
	"github.com/usher-dev/usher/internal/printable"
)

// A selecting is the part of the specs of policies that says what they are for, in the fields of all kinds.
type selecting struct {
	MatchConstraints admissionv1.MatchResources   `json:"matchConstraints"`
	MatchConditions  []admissionv1.MatchCondition `json:"matchConditions"`
	Subjects         []usherv1alpha1.Subject      `json:"subjects"`
	ExcludeSubjects  []usherv1alpha1.Subject      `json:"excludeSubjects"`
	// Rules, Effect, When and Unless are those of authorization policies.
	Rules  []usherv1alpha1.Rule      `json:"rules"`
	Effect string                    `json:"effect"`
	When   []usherv1alpha1.Condition `json:"when"`
	Unless []usherv1alpha1.Condition `json:"unless"`
	// ResourceSelectors are those of the kinds of kinitiras.
	ResourceSelectors []map[string]any `json:"resourceSelectors"`
}

func selectingOf(s *stored) selecting {
	var part selecting
	if encoded, err := json.Marshal(s.object.Object["spec"]); err == nil {
		// Fields of another form are those of a kind that has no such field.
		_ = json.Unmarshal(encoded, &part)
	}
	return part
}

// kindsOf returns what an admission policy of Kubernetes is for, in short.
func kindsOf(s *stored) string {
	var all []string
	part := selectingOf(s)
	for i := range part.MatchConstraints.ResourceRules {
		for _, name := range resourcesOf(&part.MatchConstraints.ResourceRules[i].RuleWithOperations) {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	const few = 5
	if len(all) > few {
		all = append(all[:few], "…")
	}
	return strings.Join(all, ",")
}

func resourcesOf(r *admissionv1.RuleWithOperations) []string {
	var all []string
	for _, group := range r.APIGroups {
		for _, name := range r.Resources {
			if group != "" && (group != "*" || name != "*") {
				name += "." + group
			}
			all = append(all, name)
		}
	}
	return all
}

// selects says what a policy is for, a line for each part of it.
func selects(s *stored) []string {
	part, all := selectingOf(s), []string{}
	add := func(format string, args ...any) { all = append(all, printable.Line(fmt.Sprintf(format, args...))) }
	for i := range part.MatchConstraints.ResourceRules {
		add("%s", ruleText(&part.MatchConstraints.ResourceRules[i]))
	}
	for i := range part.MatchConstraints.ExcludeResourceRules {
		add("not %s", ruleText(&part.MatchConstraints.ExcludeResourceRules[i]))
	}
	for _, x := range []struct {
		what string
		of   *metav1.LabelSelector
	}{{"in namespaces with", part.MatchConstraints.NamespaceSelector}, {"objects with", part.MatchConstraints.ObjectSelector}} {
		if x.of != nil && len(x.of.MatchLabels)+len(x.of.MatchExpressions) > 0 {
			add("%s %s", x.what, metav1.FormatLabelSelector(x.of))
		}
	}
	for _, selector := range part.ResourceSelectors {
		encoded, _ := json.Marshal(selector)
		add("%s", encoded)
	}
	for i := range part.Rules {
		encoded, _ := json.Marshal(&part.Rules[i])
		add("%s of %s", part.Effect, encoded)
	}
	for _, c := range part.MatchConditions {
		add("if %s: %s", c.Name, oneLine(c.Expression))
	}
	for _, c := range part.When {
		add("when %s", oneLine(c.Cel))
	}
	for _, c := range part.Unless {
		add("unless %s", oneLine(c.Cel))
	}
	for i := range part.Subjects {
		add("by %s", served.Subject(&part.Subjects[i]))
	}
	for i := range part.ExcludeSubjects {
		add("not by %s", served.Subject(&part.ExcludeSubjects[i]))
	}
	if s.object.GetNamespace() != "" {
		add("in namespace %s", s.object.GetNamespace())
	}
	return all
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

func ruleText(r *admissionv1.NamedRuleWithOperations) string {
	operations := make([]string, len(r.Operations))
	for i, o := range r.Operations {
		operations[i] = string(o)
	}
	text := strings.Join(operations, ", ") + " of " + strings.Join(resourcesOf(&r.RuleWithOperations), ", ")
	if len(r.ResourceNames) > 0 {
		text += " called " + strings.Join(r.ResourceNames, ", ")
	}
	if r.Scope != nil && *r.Scope != admissionv1.AllScopes {
		text += ", " + string(*r.Scope)
	}
	return text
}
