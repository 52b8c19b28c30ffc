package authz

import (
	"fmt"
	"strings"
)

// Mismatches returns why the rule does not match q, one clause per dimension; nil if it does. A
// path compared with resources is one clause, without any other.
func (r *Rule) Mismatches(q *Query) []string {
	if (r.URLs != nil) != q.NonResource {
		return []string{"it is for " + map[bool]string{true: "resources", false: "paths"}[q.NonResource]}
	}
	var misses []string
	miss := func(met bool, what, wanted string, v Value) {
		if !met {
			misses = append(misses, fmt.Sprintf("%s %s is not %s", what, v.describe(), wanted))
		}
	}
	if !AnySubject(r.Policy.Subjects, q) {
		misses = append(misses, "the user is none of its subjects")
	} else if AnySubject(r.Policy.Excluded, q) {
		misses = append(misses, "the user is one of its excluded subjects")
	}
	e := r.Policy.Effect
	miss(r.Verbs.meets(q.Verb, e, q), "verb", r.Verbs.String(), q.Verb)
	if q.NonResource {
		miss(r.URLs.meets(q.Path, e, q), "path", r.URLs.String(), q.Path)
		return misses
	}
	miss(r.meetsResource(q), "resource", join(r.Resources), Value{Text: q.resource()})
	miss(r.Groups.meets(q.Group, e, q), "API group", r.Groups.String(), q.Group)
	miss(r.Versions.meets(q.Version, e, q), "version", r.Versions.String(), q.Version)
	miss(r.meetsNamespace(q), "namespace", r.namespaces(), q.Namespace)
	miss(r.Names.meets(q.Name, r.reach(q), q), "name", r.Names.String(), q.Name)
	return misses
}

func (r *Rule) namespaces() string {
	if r.Own != "" {
		return r.Own
	}
	return r.Namespaces.String()
}

func (q *Query) resource() string {
	if q.Subresource != "" {
		return q.Resource.Text + "/" + q.Subresource
	}
	return q.Resource.Text
}

func (v Value) describe() string {
	switch {
	case v.Extent == All:
		return "(every one)"
	case v.Extent == Unknown:
		return "(not known yet)"
	}
	return fmt.Sprintf("%q", v.Text)
}

// Overlap returns how q, which the rule matches, exceeds what the rule names; empty if it does not.
func (r *Rule) Overlap(q *Query) string {
	var parts []string
	part := func(what string, s *Set, v Value, whole string) {
		if v.Extent == All && !s.Any && len(s.Patterns) > 0 {
			parts = append(parts, fmt.Sprintf("%s [%s] are part of %s", what, s, whole))
		}
	}
	part("verbs", &r.Verbs, q.Verb, "all verbs")
	if q.NonResource {
		part("paths", r.URLs, q.Path, "all paths")
		return strings.Join(parts, ", ")
	}
	part("API groups", &r.Groups, q.Group, "all groups")
	if q.Resource.Extent == All || q.Subresource == "*" {
		parts = append(parts, fmt.Sprintf("resources [%s] are part of %s", join(r.Resources), q.resource()))
	}
	part("namespaces", &r.Namespaces, q.Namespace, "all namespaces")
	part("names", &r.Names, q.Name, "an unnamed "+q.Verb.Text)
	return strings.Join(parts, ", ")
}

// String is the rule in one stable line:
//
//	cluster Deny ClusterAuthorizationPolicy hide-db spec.rules[0]: get, list of secrets in group "" named db-root in team-a
func (r *Rule) String() string {
	s := fmt.Sprintf("%s %s %s %s: %s of ", r.Policy.Tier, r.Policy.Effect, r.Policy.Ref, r.Name, &r.Verbs)
	if r.URLs != nil {
		return s + r.URLs.String()
	}
	s += fmt.Sprintf("%s in group %q", join(r.Resources), r.Groups.String())
	if !r.Names.Any {
		s += " named " + r.Names.String()
	}
	if r.Own != "" || !r.Namespaces.Any {
		s += " in " + r.namespaces()
	}
	return s
}
