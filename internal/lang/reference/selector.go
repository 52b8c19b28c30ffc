package reference

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/rule"
)

// CompileSelector returns the selector that s means. With a name, the other selectors do not
// count. Without one, a selector that is not understood selects nothing. Problems say so,
// as warnings, with fields relative to s.
func CompileSelector(s v1alpha1.ResourceSelector) (rule.Selector, []rule.Problem) {
	compiled := rule.Selector{APIVersion: s.APIVersion, Kind: s.Kind, Namespace: s.Namespace, Name: s.Name}
	if s.Name != "" {
		return compiled, idle(s)
	}
	var problems []rule.Problem
	never := func(field, what, do string) {
		problems = append(problems, rule.Problem{Severity: rule.Warning, Field: field, What: what + ": the selector selects nothing", Do: do})
		if compiled.Never == "" {
			compiled.Never = what
		}
	}
	if s.LabelSelector != nil {
		selector, err := metav1.LabelSelectorAsSelector(s.LabelSelector)
		if err != nil {
			never("labelSelector", err.Error(), "use the operators In, NotIn, Exists and DoesNotExist, with values for the first two only")
		}
		compiled.Labels = selector
	}
	if s.FieldSelector != nil {
		compiled.Fields = fields(*s.FieldSelector, never)
	}
	return compiled, problems
}

// idle warns of fields that are ignored because s has a name.
func idle(s v1alpha1.ResourceSelector) []rule.Problem {
	var problems []rule.Problem
	warn := func(field string) {
		problems = append(problems, rule.Problem{
			Severity: rule.Warning,
			Field:    field,
			What:     "it does not count, as the selector has a name",
			Do:       "leave out one of the two",
		})
	}
	if s.LabelSelector != nil {
		warn("labelSelector")
	}
	if s.FieldSelector != nil {
		warn("fieldSelector")
	}
	return problems
}

func fields(s v1alpha1.FieldSelector, never func(field, what, do string)) rule.Fields {
	compiled := make(rule.Fields, 0, len(s.MatchFields)+len(s.MatchExpressions))
	for _, path := range slices.Sorted(maps.Keys(s.MatchFields)) {
		compiled = append(compiled, rule.Field{Path: rule.FieldPath(path), Op: rule.In, Values: []string{s.MatchFields[path]}})
	}
	for i, e := range s.MatchExpressions {
		op := rule.FieldOp(e.Operator)
		switch op {
		case rule.In, rule.NotIn, rule.Exists, rule.DoesNotExist:
		default:
			never(fmt.Sprintf("fieldSelector.matchExpressions[%d].operator", i), fmt.Sprintf("unknown operator %q", e.Operator),
				"use In, NotIn, Exists or DoesNotExist")
		}
		compiled = append(compiled, rule.Field{Path: rule.FieldPath(e.Field), Op: op, Values: e.Value})
	}
	return compiled
}
