package compile

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
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
		field := "spec.resourceSelectors"
		if c.Object != nil {
			field = "spec.matchConstraints.resourceRules"
			do = "to limit these, too, add the subresource to the resources, such as deployments/scale: of the object a Scale has the name, the namespace and spec.replicas, which is missing for zero"
		}
		position := c.Policy.Position(field)
		problems = append(problems, rule.Problem{
			Policy: c.Ref, Severity: rule.Warning, Field: field,
			What: "spec.replicas counts in " + c.Rules[at].Name + ", and kubectl scale and autoscalers can change it unseen: they write a Scale, by the subresource scale, which the policy is not for",
			Do:   do, File: position.File, Line: position.Line,
		})
	}
	return problems
}

func selectsScale(r rule.Rule) bool {
	if endpoints := r.Match.Resources; len(endpoints) > 0 {
		return slices.ContainsFunc(scalable(), func(q usher.Request) bool {
			q.Subresource = "scale"
			return endpoints[0].Matches(&q)
		})
	}
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

// scalable are updates of what Kubernetes scales.
func scalable() []usher.Request {
	var all []usher.Request
	for _, resource := range []schema.GroupVersionResource{
		{Group: "apps", Version: "v1", Resource: "deployments"}, {Group: "apps", Version: "v1", Resource: "statefulsets"},
		{Group: "apps", Version: "v1", Resource: "replicasets"}, {Version: "v1", Resource: "replicationcontrollers"},
	} {
		all = append(all, usher.Request{Phase: usher.Validate, Operation: usher.Update, Namespace: "any", Resource: resource})
	}
	return all
}

// selectsScalable reports whether objects that Kubernetes scales are selected.
func selectsScalable(m *rule.Match) bool {
	if len(m.Resources) > 0 {
		return slices.ContainsFunc(scalable(), func(q usher.Request) bool { return m.Resources[0].Matches(&q) })
	}
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
