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
	var byDistance [5][]string
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
	list := func(texts []string) string { return strings.Join(texts, ", ") }
	subresource := ""
	if r.Subresource != "" && allowsResource(&g.Rule, r.Resource.Resource, "") {
		subresource = "is not for the subresource " + r.Subresource
	}
	found := 0
	for i, same := range []bool{
		len(g.Rule.ResourceNames) == 0 || slices.Contains(g.Rule.ResourceNames, r.Name), has(g.Rule.Verbs, r.Access.Verb), g.Binding.covers(r),
		has(g.Rule.APIGroups, r.Resource.Group), allowsResource(&g.Rule, r.Resource.Resource, r.Subresource),
	} {
		if same {
			continue
		}
		found++
		distance, instead = i, []string{
			"is for the names " + list(g.Rule.ResourceNames), "is for the verbs " + list(g.Rule.Verbs), "is for the namespace " + g.Binding.Namespace,
			fmt.Sprintf("is for the API groups %q", g.Rule.APIGroups), subresource,
		}[i]
	}
	if found != 1 {
		return 0, ""
	}
	return distance, instead
}
