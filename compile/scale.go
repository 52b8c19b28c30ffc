package compile

import (
	"slices"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/rule"
)

// Unscaled returns a warning for every policy that decides on the number of replicas and
// does not see it change: kubectl scale and autoscalers write the scale subresource, which
// has a kind of its own.
func Unscaled(cs []Compiled) []rule.Problem {
	var problems []rule.Problem
	for i := range cs {
		c := &cs[i]
		if slices.ContainsFunc(c.Rules, selectsScale) {
			continue
		}
		at := slices.IndexFunc(c.Rules, countsReplicas)
		if at < 0 {
			continue
		}
		do := "add the selector {apiVersion: autoscaling/v1, kind: Scale}; a Scale has no labels, so narrow it by namespace or name, " +
			"and one of zero has no spec.replicas"
		if len(c.Rules[at].Match.Selectors) == 0 {
			do = "write a second policy with the selector {apiVersion: autoscaling/v1, kind: Scale}; one of zero has no spec.replicas"
		}
		position := c.Policy.Position("spec.resourceSelectors")
		problems = append(problems, rule.Problem{
			Policy: c.Ref, Severity: rule.Warning, Field: "spec.resourceSelectors",
			What: "spec.replicas counts in " + c.Rules[at].Name + ", and kubectl scale and autoscalers can change it unseen: they write a Scale",
			Do:   do, File: position.File, Line: position.Line,
		})
	}
	return problems
}

func selectsScale(r rule.Rule) bool {
	return slices.ContainsFunc(r.Match.Selectors, func(sel rule.Selector) bool { return sel.APIVersion == "autoscaling/v1" && sel.Kind == "Scale" })
}

// countsReplicas reports whether a rule reads or changes spec.replicas of something that can
// be scaled. One that reads the whole object, or may do so, is not meant.
func countsReplicas(r rule.Rule) bool {
	if len(r.Match.Operations) > 0 && !slices.Contains(r.Match.Operations, usher.Update) || !selectsScalable(&r.Match) {
		return false
	}
	return slices.ContainsFunc(r.Steps, func(s rule.Step) bool {
		selective, ok := s.Program.(rule.Selective)
		if !ok {
			return false
		}
		object, old := selective.ReadPaths()
		return slices.ContainsFunc([]*usher.Paths{object, old}, func(p *usher.Paths) bool {
			return p.Meets("spec", "replicas") && !p.Covers("spec")
		})
	})
}

// selectsScalable reports whether objects that Kubernetes scales are selected.
func selectsScalable(m *rule.Match) bool {
	return len(m.Selectors) == 0 || slices.ContainsFunc(m.Selectors, func(sel rule.Selector) bool {
		switch sel.APIVersion {
		case "apps/v1":
			return sel.Kind == "Deployment" || sel.Kind == "StatefulSet" || sel.Kind == "ReplicaSet"
		case "v1":
			return sel.Kind == "ReplicationController"
		}
		return false
	})
}
