package impact

import (
	"cmp"
	"slices"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/impact/diff"
	"github.com/usher-dev/usher/internal/rule"
)

// A changed is a rule of a policy that differs, with what every request is compared with. It is immutable.
type changed struct {
	*rule.Rule

	// match has no selectors; bySelectors says that there are selectors in place of resources.
	match       rule.Match
	bySelectors bool
	// object and old are the paths that it reads.
	object, old *usher.Paths
	depends     map[usher.Operation]rule.Dependencies
}

func changedOf(r *rule.Rule) changed {
	c := changed{Rule: r, match: r.Match, bySelectors: len(r.Match.Selectors) > 0 && len(r.Match.Resources) == 0, depends: map[usher.Operation]rule.Dependencies{}}
	c.match.Selectors = nil
	c.object, c.old = r.ReadPaths()
	for _, operation := range []usher.Operation{usher.Create, usher.Update, usher.Delete, usher.Connect} {
		c.depends[operation] = r.DependsOn(operation)
	}
	return c
}

// on is [rule.Rule.DependsOn].
func (c *changed) on(operation usher.Operation) rule.Dependencies {
	if known, ok := c.depends[operation]; ok {
		return known
	}
	return c.DependsOn(operation)
}

// concerning returns the rules of policies that differ that may be for a request: selectors of objects
// and names need objects, which may be unknown.
func (c *Comparison) concerning(s *Subject, r *usher.Request) []*changed {
	object, err := r.Target().Tree()
	if err != nil {
		object = nil
	}
	target := rule.TargetOf(r, object)
	target.APIVersion, target.Kind = r.Kind.GroupVersion().String(), r.Kind.Kind
	target.Namespace = cmp.Or(target.Namespace, r.Namespace)
	var some []*changed
	for i := range c.changed {
		one := &c.changed[i]
		m := &one.match
		switch {
		case s.Only != nil && !slices.Contains(s.Only, one.Policy):
		case one.Inspects, !one.bySelectors && !m.Matches(&target):
		case one.bySelectors && (!m.InScope(&target) || len(m.Operations) > 0 && !slices.Contains(m.Operations, r.Operation)):
		default:
			some = append(some, one)
		}
	}
	return some
}

// unknown returns what cannot be said of a request: for each policy that reads what is not there.
func (s *Subject) unknown(request *usher.Request, rules []*changed) []diff.Difference {
	var all []diff.Difference
	for _, r := range rules {
		if why := s.lacks(request, r); why != "" && !slices.ContainsFunc(all, func(d diff.Difference) bool { return d.Policy == r.Policy }) {
			all = append(all, diff.Difference{Kind: diff.Unknown, Policy: r.Policy, Message: why})
		}
	}
	return all
}

// lacks returns why a rule cannot be compared on the request, empty if it can.
func (s *Subject) lacks(request *usher.Request, r *changed) string {
	switch {
	case s.Unknown.Object != "":
		return s.Unknown.Object
	case s.Unknown.User != "" && r.on(request.Operation).Any(rule.OnUser|rule.OnAccess):
		return s.Unknown.User
	case s.Unknown.HTTP != "" && r.on(request.Operation).Any(rule.OnHTTP):
		return s.Unknown.HTTP
	case s.Unknown.OldObject != "" && !r.old.Within(&usher.Paths{}):
		return s.Unknown.OldObject
	case s.Admitted && r.Phase == usher.Mutate:
		return "it changes objects, and only the object that came out is known"
	case s.Unknown.Defaults != "" && absent(request, r.object):
		return s.Unknown.Defaults
	}
	return ""
}

// absent reports whether some of the paths may be in fields that API servers fill in: all but labels,
// annotations and what is there.
func absent(r *usher.Request, paths *usher.Paths) bool {
	if paths.Whole() {
		return true
	}
	written := usher.Paths{}
	for _, known := range [][]string{{"apiVersion"}, {"kind"}, {"metadata", "name"}, {"metadata", "namespace"}, {"metadata", "labels"}, {"metadata", "annotations"}} {
		written.Add(known...)
	}
	tree, err := r.Object.Tree()
	if err != nil {
		return true
	}
	for key, value := range tree {
		if key == "data" || key == "stringData" || key == "rules" || scalar(value) {
			written.Add(key)
		}
	}
	return !paths.Within(&written)
}

func scalar(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}
