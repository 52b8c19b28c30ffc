package compare

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/usher/internal/user"
	"github.com/usher-dev/usher/internal/impact"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// mostQuestions bounds the requests to authorize that are generated: comparing that many takes a second.
const mostQuestions = 200_000

// questions returns the requests that access rules are about, by the users that their policies name and by somebody
// else. Where a rule has a *, one text in its place is tried. It reports whether these are all of them.
func questions(rules []*authz.Rule) (all []item, complete bool) {
	targets := targetsOf(rules)
	for _, u := range usersOf(rules) {
		for _, target := range targets {
			if len(all) == mostQuestions {
				return all, false
			}
			r := *target
			r.User = u
			all = append(all, item{Subject: &impact.Subject{Question: &impact.Question{Request: &r, Generated: true}, From: "generated"}})
		}
	}
	return all, true
}

// usersOf returns the users that rules name, and one that no rule names.
func usersOf(rules []*authz.Rule) []usher.User {
	users := []usher.User{user.Complete(usher.User{Name: "somebody-else"})}
	known := map[string]bool{}
	add := func(u usher.User) {
		u = user.Complete(u)
		if key := u.Name + "\x00" + strings.Join(u.Groups, ","); !known[key] {
			known[key] = true
			users = append(users, u)
		}
	}
	for _, r := range rules {
		for _, s := range slices.Concat(r.Policy.Subjects, r.Policy.Excluded) {
			for _, name := range s.Users {
				add(usher.User{Name: sample(name.String())})
			}
			for _, name := range s.Groups {
				group := sample(name.String())
				add(usher.User{Name: "member-of-" + group, Groups: []string{group}})
			}
			for _, account := range s.ServiceAccounts {
				add(usher.User{Name: "system:serviceaccount:" + sample(account.Namespace.String()) + ":" + sample(account.Name.String())})
			}
		}
	}
	return users
}

// sample returns a text that matches a pattern.
func sample(pattern string) string { return strings.ReplaceAll(pattern, "*", "sample") }

// targetsOf returns the requests that rules are about, without users and duplicates.
func targetsOf(rules []*authz.Rule) []*usher.Request {
	var all []*usher.Request
	type key struct {
		verb, path, subresource, namespace, name string
		resource                                 schema.GroupResource
	}
	known := map[key]bool{}
	add := func(r *usher.Request) {
		k := key{r.Access.Verb, r.Access.Path, r.Subresource, r.Namespace, r.Name, r.Resource.GroupResource()}
		if !known[k] {
			known[k] = true
			all = append(all, r)
		}
	}
	for _, r := range rules {
		for _, verb := range examples(&r.Verbs, "get", "list", "delete") {
			if r.URLs != nil {
				for _, path := range examples(r.URLs, "/") {
					add(&usher.Request{Phase: usher.Authorize, Access: &usher.Access{Verb: verb, NonResource: true, Path: path}})
				}
				continue
			}
			resourceTargets(r, verb, add)
		}
	}
	return all
}

func resourceTargets(r *authz.Rule, verb string, add func(*usher.Request)) {
	namespaces := examples(&r.Namespaces, "default", "")
	if r.Own != "" {
		namespaces = []string{r.Own}
	}
	for _, group := range examples(&r.Groups, "", "apps") {
		for _, resource := range r.Resources {
			name, sub, _ := strings.Cut(resource.String(), "/")
			if resource.Every || name == "*" {
				name = "pods"
			}
			if sub == "*" {
				sub = "status"
			}
			for _, namespace := range namespaces {
				for _, object := range append(examples(&r.Names, "sample"), "") {
					add(&usher.Request{
						Phase: usher.Authorize, Resource: schema.GroupVersionResource{Group: group, Resource: name},
						Subresource: sub, Namespace: namespace, Name: object, Access: &usher.Access{Verb: verb},
					})
				}
			}
		}
	}
}

// examples returns texts of a set, or others if the set contains everything.
func examples(s *authz.Set, others ...string) []string {
	if s.Any {
		return others
	}
	var all []string
	for _, pattern := range s.Patterns {
		all = append(all, sample(pattern.String()))
	}
	return all
}
