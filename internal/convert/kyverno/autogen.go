package kyverno

import (
	"slices"
	"strings"

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
