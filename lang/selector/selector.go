// Package selector compiles the selectors that users write into those that match.
package selector

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/rule"
)

// Compile returns the selector that s means. One that is not understood selects nothing,
// as it always has; problems say why, with fields relative to s.
func Compile(s v1alpha1.ResourceSelector) (rule.Selector, []rule.Problem) {
	compiled := rule.Selector{APIVersion: s.APIVersion, Kind: s.Kind, Namespace: s.Namespace, Name: s.Name}
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

func fields(s v1alpha1.FieldSelector, never func(field, what, do string)) rule.Fields {
	compiled := make(rule.Fields, 0, len(s.MatchFields)+len(s.MatchExpressions))
	for path, value := range s.MatchFields {
		compiled = append(compiled, rule.Field{Path: rule.FieldPath(path), Op: rule.In, Values: []string{value}})
	}
	slices.SortFunc(compiled, func(a, b rule.Field) int {
		return strings.Compare(strings.Join(a.Path, "."), strings.Join(b.Path, "."))
	})
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
