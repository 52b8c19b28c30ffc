package kyverno

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
)

// controllers are the kinds for which Kyverno repeats rules for pods.
var controllers = []string{"CronJob", "DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet"}

// autogen sets what follows for workloads from rules for pods.
func (c *conversion) autogen() {
	c.templates = v1alpha1.PodTemplatesOff
	for n := range c.p.Spec.Rules {
		if !repeatable(&c.p.Spec.Rules[n]) {
			return
		}
	}
	names, ok := c.p.Annotations["pod-policies.kyverno.io/autogen-controllers"]
	if !ok {
		c.templates = v1alpha1.PodTemplatesDeny
		return
	}
	var some []string
	for name := range strings.SplitSeq(names, ",") {
		if name = strings.TrimSpace(name); slices.Contains(controllers, name) {
			some = append(some, name)
		}
	}
	if len(some) > 0 {
		c.templates = v1alpha1.PodTemplatesDeny
	}
	if len(some) > 0 && len(some) < len(controllers) {
		c.workloads = some
	}
}

// repeatable reports whether a rule lets rules be repeated for workloads.
func repeatable(r *syntax.Rule) bool {
	if r.Generate != nil {
		return false
	}
	if m := r.Mutate; m != nil && (m.PatchesJSON6902 != "" || slices.ContainsFunc(m.Foreach, func(f syntax.ForeachMutate) bool { return f.PatchesJSON6902 != "" })) {
		return false
	}
	matches := []*syntax.Match{&r.Match}
	if r.Exclude != nil {
		matches = append(matches, r.Exclude)
	}
	for _, m := range matches {
		for _, b := range slices.Concat(m.Any, m.All, []syntax.Block{m.Block}) {
			of := &b.Resources
			if of.Name != "" || len(of.Names) > 0 || of.Selector != nil || of.Annotations != nil || len(of.Kinds) > 1 && slices.Contains(of.Kinds, "Pod") {
				return false
			}
		}
	}
	return true
}

// repeats reports whether a rule is repeated for workloads: it is for pods, and so is what it excludes by kind.
func repeats(r *syntax.Rule) bool {
	return podsAmong(&r.Match) && (r.Exclude == nil || !kindsIn(r.Exclude) || podsAmong(r.Exclude))
}

func blocksOf(m *syntax.Match) []syntax.Block {
	switch {
	case len(m.Any) > 0:
		return m.Any
	case len(m.All) > 0:
		return m.All
	}
	return []syntax.Block{m.Block}
}

func kindsIn(m *syntax.Match) bool {
	return slices.ContainsFunc(blocksOf(m), func(b syntax.Block) bool { return len(b.Resources.Kinds) > 0 })
}

func podsAmong(m *syntax.Match) bool {
	return slices.ContainsFunc(blocksOf(m), func(b syntax.Block) bool { return slices.Contains(b.Resources.Kinds, "Pod") })
}

// excludeWorkloads leaves out the workloads that are not listed, for which rules for pods are not repeated.
func (s *selection) excludeWorkloads(workloads []string) {
	if len(workloads) == 0 {
		return
	}
	for _, of := range []struct{ group, kinds string }{{"apps", "DaemonSet Deployment ReplicaSet StatefulSet"}, {"batch", "CronJob Job"}, {"", "PodTemplate ReplicationController"}} {
		var names []string
		for name := range strings.SplitSeq(of.kinds, " ") {
			if !slices.Contains(workloads, name) {
				names = append(names, plural(name))
			}
		}
		if len(names) > 0 {
			r := admissionv1.NamedRuleWithOperations{}
			r.Operations, r.APIGroups, r.APIVersions, r.Resources = []admissionv1.OperationType{admissionv1.Create, admissionv1.Update}, []string{of.group}, []string{"*"}, names
			s.excluded = append(s.excluded, r)
		}
	}
}
