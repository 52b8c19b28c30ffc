package access_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	engine "github.com/usher-dev/usher/engine/access"
	"github.com/usher-dev/usher/rule/access"
)

func set(texts ...string) access.Set {
	var s access.Set
	for _, text := range texts {
		s.Patterns = append(s.Patterns, access.Pattern{Prefix: text})
	}
	return s
}

func TestGrants(t *testing.T) {
	t.Parallel()
	every := []access.Grant{{Verbs: []string{"*"}, Groups: []string{"*"}, Resources: []string{"*"}}}
	now := time.Now()
	changed := func(change func(*access.Rule)) scan {
		rules := matching(policy("a", access.Cluster, access.Allow))
		change(rules[0])
		return rules
	}
	for _, test := range []struct {
		reason string
		rules  scan
		want   engine.Grants
	}{
		{"no policies", nil, engine.Grants{}},
		{"everything", matching(policy("a", access.Cluster, access.Allow)), engine.Grants{Allowed: every}},
		{
			"lists", changed(func(r *access.Rule) {
				r.Verbs, r.Groups, r.Names, r.Namespaces = set("get", "list"), set("apps"), set("web"), set("shop")
				r.Resources = []access.Resource{{Name: "deployments"}, {Name: "*", Subresource: "scale"}}
			}),
			engine.Grants{Allowed: []access.Grant{{
				Verbs: []string{"get", "list"}, Groups: []string{"apps"}, Resources: []string{"deployments", "*/scale"}, Names: []string{"web"},
			}}},
		},
		{"another namespace", changed(func(r *access.Rule) { r.Namespaces = set("lab") }), engine.Grants{}},
		{
			"a namespace by pattern",
			changed(func(r *access.Rule) {
				r.Namespaces.Any, r.Namespaces.Patterns = false, []access.Pattern{{Prefix: "sh", Star: true}}
			}),
			engine.Grants{Allowed: every},
		},
		{
			"paths", changed(func(r *access.Rule) {
				r.Verbs = set("get")
				r.URLs = &access.Set{Patterns: []access.Pattern{{Prefix: "/metrics"}, {Prefix: "/logs/", Star: true}}}
			}),
			engine.Grants{Allowed: []access.Grant{{Verbs: []string{"get"}, Paths: []string{"/metrics", "/logs/*"}}}},
		},
		{
			"a pattern that lists cannot say",
			changed(func(r *access.Rule) { r.Names = access.Set{Patterns: []access.Pattern{{Prefix: "app-", Star: true}}} }),
			engine.Grants{Incomplete: true},
		},
		{"versions, which lists do not have", changed(func(r *access.Rule) { r.Versions = set("v1") }), engine.Grants{Incomplete: true}},
		{
			"subresources of one resource, which lists do not have",
			changed(func(r *access.Rule) { r.Resources = []access.Resource{{Name: "pods", Subresource: "*"}} }), engine.Grants{Incomplete: true},
		},
		{
			"a condition", matching(policy("a", access.Cluster, access.Allow, func(p *access.Policy) {
				p.When = []access.Condition{{Source: "x", Predicate: &says{holds: true, asked: new(int)}}}
			})), engine.Grants{Incomplete: true},
		},
		{
			"selectors", matching(policy("a", access.Cluster, access.Allow, func(p *access.Policy) { p.Labels = []access.Requirement{{}} })),
			engine.Grants{Incomplete: true},
		},
		{
			"a denial of some of it", matching(policy("a", access.Cluster, access.Allow), policy("b", access.Cluster, access.Deny)),
			engine.Grants{Allowed: every, Incomplete: true},
		},
		{
			"a denial that is over", matching(policy("a", access.Cluster, access.Allow), policy("b", access.Cluster, access.Deny, func(p *access.Policy) { p.Until = now })),
			engine.Grants{Allowed: every},
		},
		{
			"a denial that nobody confirmed",
			matching(policy("a", access.Cluster, access.Allow), policy("b", access.Cluster, access.Deny, func(p *access.Policy) { p.Confirm = now })),
			engine.Grants{Allowed: every},
		},
		{"somebody else", matching(policy("a", access.Cluster, access.Allow, func(p *access.Policy) {
			p.Subjects = []access.Subject{{Users: []access.Pattern{{Prefix: "joe"}}}}
		})), engine.Grants{}},
		{"a trial", matching(policy("a", access.Cluster, access.Allow, func(p *access.Policy) { p.Trial = true })), engine.Grants{}},
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

func TestGrantsSpareTheImmune(t *testing.T) {
	t.Parallel()
	e := engine.New(matching(policy("a", access.Cluster, access.Allow), policy("b", access.Cluster, access.Deny)), engine.Options{})
	if e.Grants(usher.User{Name: "system:apiserver"}, "").Incomplete {
		t.Error("a denial that spares the user makes what is allowed to him incomplete")
	}
}
