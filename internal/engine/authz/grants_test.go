package authz_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	engine "github.com/usher-dev/usher/internal/engine/authz"
	"github.com/usher-dev/usher/internal/rule/authz"
)

func set(texts ...string) authz.Set {
	var s authz.Set
	for _, text := range texts {
		s.Patterns = append(s.Patterns, authz.Pattern{Prefix: text})
	}
	return s
}

func TestGrants(t *testing.T) {
	t.Parallel()
	every := []usher.Grant{{Verbs: []string{"*"}, Groups: []string{"*"}, Resources: []string{"*"}}}
	now := time.Now()
	changed := func(change func(*authz.Rule)) scan {
		rules := matching(policy("a", authz.Cluster, authz.Allow))
		change(rules[0])
		return rules
	}
	for _, test := range []struct {
		reason string
		rules  scan
		want   usher.Grants
	}{
		{"no policies", nil, usher.Grants{}},
		{"everything", matching(policy("a", authz.Cluster, authz.Allow)), usher.Grants{Allowed: every}},
		{
			"lists", changed(func(r *authz.Rule) {
				r.Verbs, r.Groups, r.Names, r.Namespaces = set("get", "list"), set("apps"), set("web"), set("shop")
				r.Resources = []authz.Resource{{Name: "deployments"}, {Name: "*", Subresource: "scale"}}
			}),
			usher.Grants{Allowed: []usher.Grant{{
				Verbs: []string{"get", "list"}, Groups: []string{"apps"}, Resources: []string{"deployments", "*/scale"}, Names: []string{"web"},
			}}},
		},
		{"another namespace", changed(func(r *authz.Rule) { r.Namespaces = set("lab") }), usher.Grants{}},
		{
			"a namespace by pattern",
			changed(func(r *authz.Rule) {
				r.Namespaces.Any, r.Namespaces.Patterns = false, []authz.Pattern{{Prefix: "sh", Star: true}}
			}),
			usher.Grants{Allowed: every},
		},
		{
			"paths", changed(func(r *authz.Rule) {
				r.Verbs = set("get")
				r.URLs = &authz.Set{Patterns: []authz.Pattern{{Prefix: "/metrics"}, {Prefix: "/logs/", Star: true}}}
			}),
			usher.Grants{Allowed: []usher.Grant{{Verbs: []string{"get"}, Paths: []string{"/metrics", "/logs/*"}}}},
		},
		{
			"a pattern that lists cannot say",
			changed(func(r *authz.Rule) { r.Names = authz.Set{Patterns: []authz.Pattern{{Prefix: "app-", Star: true}}} }),
			usher.Grants{Incomplete: true},
		},
		{"versions, which lists do not have", changed(func(r *authz.Rule) { r.Versions = set("v1") }), usher.Grants{Incomplete: true}},
		{
			"subresources of one resource, which lists do not have",
			changed(func(r *authz.Rule) { r.Resources = []authz.Resource{{Name: "pods", Subresource: "*"}} }), usher.Grants{Incomplete: true},
		},
		{
			"a condition", matching(policy("a", authz.Cluster, authz.Allow, func(p *authz.Policy) {
				p.When = []authz.Condition{{Source: "x", Predicate: &says{holds: true, asked: new(int)}}}
			})), usher.Grants{Incomplete: true},
		},
		{
			"selectors", matching(policy("a", authz.Cluster, authz.Allow, func(p *authz.Policy) { p.Labels = []authz.Requirement{{}} })),
			usher.Grants{Incomplete: true},
		},
		{
			"a denial of some of it", matching(policy("a", authz.Cluster, authz.Allow), policy("b", authz.Cluster, authz.Deny)),
			usher.Grants{Allowed: every, Incomplete: true},
		},
		{
			"a denial that is over", matching(policy("a", authz.Cluster, authz.Allow), policy("b", authz.Cluster, authz.Deny, func(p *authz.Policy) { p.Until = now })),
			usher.Grants{Allowed: every},
		},
		{
			"a denial that nobody confirmed",
			matching(policy("a", authz.Cluster, authz.Allow), policy("b", authz.Cluster, authz.Deny, func(p *authz.Policy) { p.Confirm = now })),
			usher.Grants{Allowed: every},
		},
		{"somebody else", matching(policy("a", authz.Cluster, authz.Allow, func(p *authz.Policy) {
			p.Subjects = []authz.Subject{{Users: []authz.Pattern{{Prefix: "joe"}}}}
		})), usher.Grants{}},
		{"a trial", matching(policy("a", authz.Cluster, authz.Allow, func(p *authz.Policy) { p.Audit = true })), usher.Grants{}},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			e := engine.New(test.rules, engine.Options{Now: func() time.Time { return now }})
			if diff := cmp.Diff(test.want, e.Grants(usher.User{Name: "jane"}, "shop")); diff != "" {
				t.Errorf("grants (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGrantsOfProtectedUsers(t *testing.T) {
	t.Parallel()
	e := engine.New(matching(policy("a", authz.Cluster, authz.Allow), policy("b", authz.Cluster, authz.Deny)), engine.Options{})
	if e.Grants(usher.User{Name: "system:apiserver"}, "").Incomplete {
		t.Error("a denial that spares the user makes what is allowed to him incomplete")
	}
}
