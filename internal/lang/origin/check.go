package origin

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/rule"
)

// check returns the problems of an entry that can be executed nevertheless.
func check(e *v1alpha1.OverrideRuleOrigin) []rule.Problem {
	var problems []rule.Problem
	report := func(severity rule.Severity, field, what, do string) {
		problems = append(problems, rule.Problem{Severity: severity, Field: field, What: what, Do: do})
	}
	// Tolerations are checked for every type, as in the original.
	for i := range e.Tolerations {
		checkToleration(&e.Tolerations[i], func(field, what, do string) {
			report(rule.Error, fmt.Sprintf("tolerations[%d].%s", i, field), what, do)
		})
	}
	if e.Replace && e.Operation == v1alpha1.OperatorRemove {
		report(rule.Warning, "replace", "replace does not count together with the operation remove", "use the operation replace, or leave replace out")
	}
	if field := unfilled(e); field != "" {
		report(rule.Warning, field, fmt.Sprintf("the type is %s, and %s is empty: the entry adds nothing", e.Type, field), "set "+field)
	}
	switch e.Type {
	case v1alpha1.OriginResourceRequirements:
		if e.ContainerCount < 0 {
			report(rule.Warning, "containerCount", "a negative containerCount counts from the last container", "count containers from 0")
		}
	case v1alpha1.OriginResourceOversell:
		if e.ContainerCount < 0 {
			report(rule.Warning, "containerCount", "a negative containerCount is out of range: the entry fails on every request", "count containers from 0")
		}
		checkFactors(e, func(field, what, do string) { report(rule.Warning, field, what, do) })
	case v1alpha1.OriginAnnotations, v1alpha1.OriginLabels, v1alpha1.OriginNodeSelector, v1alpha1.OriginHostNetwork, v1alpha1.OriginSchedulerName,
		v1alpha1.OriginAffinity, v1alpha1.OriginTolerations, v1alpha1.OriginTopologySpreadConstraints:
	}
	return problems
}

// unfilled returns the field of the type of an entry, if it has no value, and another field has one.
func unfilled(e *v1alpha1.OverrideRuleOrigin) string {
	empty := map[v1alpha1.OverrideOriginType]bool{
		v1alpha1.OriginAnnotations: len(e.Annotations) == 0, v1alpha1.OriginLabels: len(e.Labels) == 0,
		v1alpha1.OriginNodeSelector: len(e.NodeSelector) == 0, v1alpha1.OriginTolerations: len(e.Tolerations) == 0,
		v1alpha1.OriginSchedulerName: e.SchedulerName == "", v1alpha1.OriginAffinity: e.Affinity == nil,
		v1alpha1.OriginResourceRequirements: e.ResourceRequirements == nil, v1alpha1.OriginTopologySpreadConstraints: len(e.TopologySpreadConstraints) == 0,
	}
	filled := false
	for _, is := range empty {
		filled = filled || !is
	}
	// A map that is exchanged for nothing is emptied.
	if e.Replace || !empty[e.Type] || !filled {
		return ""
	}
	return string(e.Type)
}

// checkFactors leaves those that are no numbers to [readFactors].
func checkFactors(e *v1alpha1.OverrideRuleOrigin, warn func(field, what, do string)) {
	for _, list := range sortedKeys(e.ResourcesOversell) {
		field := "resourcesOversell." + string(list)
		if list != v1alpha1.Requests && list != v1alpha1.Limits {
			warn(field, fmt.Sprintf("%q is neither requests nor limits, and does nothing", list), "use requests and limits")
			continue
		}
		for _, name := range sortedKeys(e.ResourcesOversell[list]) {
			switch name {
			case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceStorage, corev1.ResourceEphemeralStorage:
			default:
				warn(field+"."+string(name), fmt.Sprintf("%s is not oversold: the factor does nothing", name), "use cpu, memory, storage and ephemeral-storage")
			}
			by, err := strconv.ParseFloat(string(e.ResourcesOversell[list][name]), 64)
			if err == nil && (by <= 0 || by > 1) {
				warn(field+"."+string(name), fmt.Sprintf("the factor %g is not between 0 and 1, and is used nevertheless", by), `write a decimal number such as "0.5"`)
			}
		}
	}
}

// checkToleration applies the rules that Kubernetes has for the tolerations of a pod.
func checkToleration(t *corev1.Toleration, report func(field, what, do string)) {
	if t.Key != "" {
		if errs := validation.IsQualifiedName(t.Key); len(errs) > 0 {
			report("key", fmt.Sprintf("invalid key %q: %s", t.Key, strings.Join(errs, "; ")), "write a key as labels have them")
		}
	} else if t.Operator != corev1.TolerationOpExists {
		report("operator", "operator must be Exists when key is empty, which means every key and value", "name a key, or use Exists")
	}
	if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
		report("effect", "effect must be 'NoExecute' when tolerationSeconds is set", "leave tolerationSeconds out, or use NoExecute")
	}
	switch t.Operator {
	case corev1.TolerationOpEqual, "":
		if errs := validation.IsValidLabelValue(t.Value); len(errs) > 0 {
			report("value", fmt.Sprintf("invalid value %q: %s", t.Value, strings.Join(errs, "; ")), "write a value as labels have them")
		}
	case corev1.TolerationOpExists:
		if t.Value != "" {
			report("value", "value must be empty when operator is 'Exists'", "leave the value out, or use Equal")
		}
	default:
		report("operator", fmt.Sprintf("Unsupported value: %q: supported values: %q, %q", t.Operator, corev1.TolerationOpEqual, corev1.TolerationOpExists), "use Equal or Exists")
	}
	switch t.Effect {
	case "", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
	default:
		report("effect", fmt.Sprintf("Unsupported value: %q: supported values: %q, %q, %q", t.Effect, corev1.TaintEffectNoExecute,
			corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule), "use one of them, or none for every effect")
	}
}

// conflicts finds containers whose resources one rule both sets and oversells.
func conflicts(entries []v1alpha1.OverrideRuleOrigin) []rule.Problem {
	written, oversold := map[int]bool{}, map[int]bool{}
	var problems []rule.Problem
	for i := range entries {
		e := &entries[i]
		mine, other := written, oversold
		switch e.Type {
		case v1alpha1.OriginResourceRequirements:
		case v1alpha1.OriginResourceOversell:
			mine, other = oversold, written
		default:
			continue
		}
		if other[e.ContainerCount] {
			problems = append(problems, rule.Problem{
				Severity: rule.Error,
				Field:    fmt.Sprintf("origin[%d].containerCount", i),
				What:     fmt.Sprintf("containerCount %d is used by both a resourceRequirements and a resourceOversell entry", e.ContainerCount),
				Do:       "decide for one of them, or put them into rules of their own",
			})
		}
		mine[e.ContainerCount] = true
	}
	return problems
}
