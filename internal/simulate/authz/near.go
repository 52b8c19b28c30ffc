package authz

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	usher "github.com/usher-dev/usher"
)

// mostNear is how many rules are told that nearly allow a request.
const mostNear = 3

// Near returns which rules that the user has are closest to a request, and what they are for instead, the closest first.
func (b *RBAC) Near(r *usher.Request) []string {
	if r.Access.NonResource {
		return nil
	}
	var byDistance [4][]string
	for _, g := range b.grants(func(binding *Binding) bool { return binding.subject(&r.User) != nil }, func(*rbacv1.PolicyRule) bool { return true }, false) {
		distance, instead := g.instead(r)
		if says := fmt.Sprintf("%s %s", g.Binding, instead); instead != "" && !slices.Contains(byDistance[distance], says) {
			byDistance[distance] = append(byDistance[distance], says)
		}
	}
	near := slices.Concat(byDistance[:]...)
	return near[:min(len(near), mostNear)]
}

// instead returns what a rule is for that differs from a request in one thing, and how far that is away; empty if it
// differs in more.
func (g *Grant) instead(r *usher.Request) (distance int, instead string) {
	verb, group := has(g.Rule.Verbs, r.Access.Verb), has(g.Rule.APIGroups, r.Resource.Group)
	resource := allowsResource(&g.Rule, r.Resource.Resource, r.Subresource)
	name := len(g.Rule.ResourceNames) == 0 || slices.Contains(g.Rule.ResourceNames, r.Name)
	covers := g.Binding.covers(r)
	list := func(texts []string) string { return strings.Join(texts, ", ") }
	switch {
	case covers && resource && group && verb && !name:
		return 0, "is for the names " + list(g.Rule.ResourceNames)
	case covers && resource && group && !verb && name:
		return 1, "is for the verbs " + list(g.Rule.Verbs)
	case !covers && resource && group && verb && name:
		return 2, "is for the namespace " + g.Binding.Namespace
	case covers && resource && !group && verb && name:
		return 3, fmt.Sprintf("is for the API groups %q", g.Rule.APIGroups)
	case covers && !resource && group && verb && name && r.Subresource != "" && allowsResource(&g.Rule, r.Resource.Resource, ""):
		return 3, "is not for the subresource " + r.Subresource
	}
	return 0, ""
}
