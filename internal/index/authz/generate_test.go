package authz_test

import (
	"fmt"
	"math/rand/v2"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// A generator makes rules and requests of few words, so that they often meet.
type generator struct{ *rand.Rand }

func (g generator) one(words ...string) string { return words[g.IntN(len(words))] }

func (g generator) chance(percent int) bool { return g.IntN(100) < percent }

func (g generator) pattern(templates int) authz.Pattern {
	if g.chance(templates) {
		t, err := authz.ParseTemplate(g.one("$(user)", "a$(extra:k)", "$(serviceAccount.namespace)", "$(node)"))
		if err != nil {
			panic(err)
		}
		return authz.Pattern{Template: &t}
	}
	prefix, suffix := g.one("", "a", "ab", "b"), g.one("", "a", "b", "bb")
	star := g.chance(40)
	if !star {
		prefix, suffix = prefix+suffix, ""
	}
	return authz.Pattern{Prefix: prefix, Suffix: suffix, Star: star}
}

func (g generator) set(templates int) authz.Set {
	var s authz.Set
	for range 1 + g.IntN(2) {
		s.Patterns = append(s.Patterns, g.pattern(templates))
	}
	s.Any = g.chance(30)
	return s
}

func (g generator) subjects() []authz.Subject {
	var subjects []authz.Subject
	for range 1 + g.IntN(2) {
		var s authz.Subject
		for range g.IntN(2) {
			s.Users = append(s.Users, g.pattern(0))
		}
		for range g.IntN(2) {
			s.Groups = append(s.Groups, g.pattern(0))
		}
		for range g.IntN(2) {
			s.ServiceAccounts = append(s.ServiceAccounts, authz.ServiceAccount{Namespace: g.pattern(0), Name: g.pattern(0)})
		}
		subjects = append(subjects, s)
	}
	return subjects
}

func (g generator) policy(i int) *authz.Policy {
	p := &authz.Policy{
		Ref:      usher.PolicyRef{Kind: "ClusterAuthorizationPolicy", Name: fmt.Sprint("p", i)},
		Tier:     authz.Tiers()[g.IntN(4)],
		Effect:   authz.Effect(g.IntN(3)),
		Subjects: g.subjects(),
	}
	if g.chance(30) {
		p.Excluded = g.subjects()
	}
	return p
}

func (g generator) rule(p *authz.Policy, i int) *authz.Rule {
	r := &authz.Rule{Policy: p, Name: fmt.Sprintf("spec.rules[%d]", i), Verbs: g.set(0)}
	if g.chance(15) {
		urls := g.set(0)
		r.URLs = &urls
		return r
	}
	r.Groups, r.Versions, r.Names, r.Namespaces = g.set(0), authz.Set{Any: true}, g.set(10), g.set(10)
	if g.chance(20) {
		r.Versions = g.set(0)
	}
	if g.chance(20) {
		r.Own = g.one("a", "b", "ab")
	}
	r.Whole = g.chance(20)
	for range 1 + g.IntN(2) {
		r.Resources = append(r.Resources, g.resource())
	}
	return r
}

func (g generator) resource() authz.Resource {
	if g.chance(20) {
		return authz.Resource{Every: true}
	}
	r := authz.Resource{Name: g.one("a", "b", "*"), Subresource: g.one("", "a", "b", "*")}
	if r.Name == "*" && r.Subresource == "" {
		r.Name = "ab"
	}
	return r
}

func (g generator) rules(n int) []*authz.Rule {
	var rules []*authz.Rule
	for i := range n {
		p := g.policy(i)
		for j := range 1 + g.IntN(2) {
			rules = append(rules, g.rule(p, j))
		}
	}
	return rules
}

func (g generator) request() *usher.Request {
	r := &usher.Request{Phase: usher.Authorize, User: usher.User{
		Name:   g.one("", "a", "b", "ab", "abb", "system:serviceaccount:a:b", "system:serviceaccount:ab:a", "system:node:a", "*"),
		Groups: []string{"a", "ab", "b", "bb"}[:g.IntN(5)],
		Extra:  map[string][]string{"k": []string{"a", "b"}[:g.IntN(3)]},
	}}
	r.Access = &usher.Access{Verb: g.one("", "a", "ab", "*", "create", "list")}
	if g.chance(15) {
		r.Access.NonResource, r.Access.Path = true, g.one("", "a", "ab", "abb", "*")
		return r
	}
	r.Resource = schema.GroupVersionResource{Group: g.one("", "a", "ab", "*"), Version: g.one("", "a", "*"), Resource: g.one("a", "b", "ab", "*")}
	r.Subresource = g.one("", "", "a", "b", "*")
	r.Name, r.Namespace = g.one("", "a", "ab", "abb", "*"), g.one("", "a", "b", "ab", "*")
	return r
}
