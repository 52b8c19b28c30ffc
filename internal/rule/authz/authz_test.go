package authz_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// ask is a request for what is written as verb group/resource/subresource namespace/name.
func ask(verb, what, where string) *usher.Request {
	target, place := append(strings.Split(what, "/"), "", ""), append(strings.Split(where, "/"), "")
	return &usher.Request{
		Phase: usher.Authorize, User: usher.User{Name: "jane"},
		Resource:    schema.GroupVersionResource{Group: target[0], Version: "v1", Resource: target[1]},
		Subresource: target[2], Namespace: place[0], Name: place[1],
		Access: &usher.Access{Verb: verb},
	}
}

func extent(v authz.Value) string {
	return fmt.Sprintf("%s%q", [...]string{"", "every ", "unknown "}[v.Extent], v.Text)
}

func TestQueryOf(t *testing.T) {
	t.Parallel()
	scope := func(_, resource string) authz.Scope {
		return map[string]authz.Scope{"farms": authz.ScopeCluster, "widgets": authz.ScopeNamespace}[resource]
	}
	for _, test := range []struct {
		reason, verb, what, where string
		name, namespace           string
	}{
		{"one object", "get", "/pods", "shop/web", `"web"`, `"shop"`},
		{"a list", "list", "/pods", "shop/", `every ""`, `"shop"`},
		{"a list everywhere", "list", "/pods", "", `every ""`, `every ""`},
		{"stars", "get", "/pods", "*/*", `every "*"`, `every "*"`},
		{"what is created", "create", "/pods", "shop/", `unknown ""`, `"shop"`},
		{"a subresource that is created", "create", "/pods/exec", "shop/", `every ""`, `"shop"`},
		{"all verbs", "*", "/pods", "shop/", `every ""`, `"shop"`},
		{"a pod without namespace", "get", "/pods", "/web", `"web"`, `every ""`},
		{"a node", "get", "/nodes", "/n1", `"n1"`, `""`},
		{"nodes", "list", "/nodes", "", `every ""`, `""`},
		{"a role of the cluster", "get", "rbac.authorization.k8s.io/clusterroles", "/view", `"view"`, `""`},
		{"a role", "list", "rbac.authorization.k8s.io/roles", "", `every ""`, `every ""`},
		{"a namespace is in itself", "get", "/namespaces", "/shop", `"shop"`, `"shop"`},
		{"and its parts are", "update", "/namespaces/finalize", "/shop", `"shop"`, `"shop"`},
		{"namespaces are in none", "list", "/namespaces", "", `every ""`, `""`},
		{"a new namespace", "create", "/namespaces", "", `unknown ""`, `""`},
		{"every resource", "get", "/*", "/x", `"x"`, `every ""`},
		{"every group", "get", "*/nodes", "/x", `"x"`, `every ""`},
		{"a custom object in none", "get", "example.com/others", "/x", `"x"`, `""`},
		{"custom objects", "list", "example.com/others", "", `every ""`, `every ""`},
		{"one of a list of custom objects", "list", "example.com/others", "/x", `"x"`, `every ""`},
		{"discovered to be in none", "list", "example.com/farms", "", `every ""`, `""`},
		{"discovered to be in namespaces", "get", "example.com/widgets", "/x", `"x"`, `every ""`},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			q := authz.QueryOf(ask(test.verb, test.what, test.where), scope)
			if got := extent(q.Name); got != test.name {
				t.Errorf("name is %s, want %s", got, test.name)
			}
			if got := extent(q.Namespace); got != test.namespace {
				t.Errorf("namespace is %s, want %s", got, test.namespace)
			}
		})
	}
}

func TestWho(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"jane":                           "// ",
		"system:serviceaccount:ci:build": "ci/build/ ",
		"system:serviceaccount:ci":       "// ",
		"system:serviceaccount::x":       "// ",
		"system:serviceaccount:a:b:c":    "// ",
		"system:node:n1":                 "//n1 ",
	} {
		r := ask("get", "/pods", "a/b")
		r.User.Name = name
		q := authz.QueryOf(r, nil)
		if got := fmt.Sprintf("%s/%s/%s ", q.AccountNamespace, q.AccountName, q.Node); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

func TestWildcard(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		verb, what, where string
		want              bool
	}{
		{"get", "/pods", "a/b", false}, {"*", "/pods", "a/b", true}, {"get", "*/pods", "a/b", true}, {"get", "/*", "a/b", true},
		{"get", "/pods/*", "a/b", true}, {"get", "/pods", "a/*", true}, {"list", "/pods", "a/", true}, {"get", "/pods", "/b", true},
		{"get", "/nodes", "/b", false}, {"create", "/pods", "a/", false},
	} {
		if q := authz.QueryOf(ask(test.verb, test.what, test.where), nil); q.Wildcard() != test.want {
			t.Errorf("%s %s %s: %t, want %t", test.verb, test.what, test.where, q.Wildcard(), test.want)
		}
	}
}

// requirement reads "key operator value value".
func requirement(text string) usher.Requirement {
	words := strings.Fields(text)
	return usher.Requirement{Key: words[0], Operator: words[1], Values: words[2:]}
}

// The cases that selectors.yaml leaves out: what contradicts itself selects nothing, of
// which everything is true.
func TestImplied(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason, wanted string
		selector       []string
		want           bool
	}{
		{"two In intersect", "owner In jane", []string{"owner In jane joe", "owner In jane ann"}, true},
		{"NotIn takes from In", "owner In jane", []string{"owner In jane joe", "owner NotIn joe"}, true},
		{"nothing is left", "owner In jane", []string{"owner In joe", "owner In ann"}, true},
		{"nothing is left of In", "owner In jane", []string{"owner In joe", "owner NotIn joe"}, true},
		{"there and not there", "owner In jane", []string{"owner Exists", "owner DoesNotExist"}, true},
		{"a contradiction elsewhere is not looked for", "owner In jane", []string{"team In a", "team In b"}, false},
		{"NotIn by what is left", "owner NotIn joe", []string{"owner In jane joe", "owner NotIn joe"}, true},
		{"NotIn in part", "owner NotIn joe ann", []string{"owner NotIn joe"}, false},
		{"Exists with values demands nothing", "owner Exists", []string{"owner Exists x"}, false},
		{"NotIn without values demands nothing", "owner NotIn joe", []string{"owner NotIn"}, false},
		{"absent is not In", "owner In jane", []string{"owner DoesNotExist"}, false},
		{"absent is not there", "owner Exists", []string{"owner DoesNotExist"}, false},
		{"In is not absent", "owner DoesNotExist", []string{"owner In jane"}, false},
		{"the user", "owner In $(user)", []string{"owner In jane"}, true},
		{"a part of the user", "owner In team-$(user)", []string{"owner In team-jane"}, true},
		{"no value", "owner In $(node)", []string{"owner In jane"}, false},
		{"not no value", "owner NotIn $(node)", []string{"owner In jane"}, false},
		{"an operator that is not known", "owner Like jane", []string{"owner In jane"}, false},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			words := requirement(test.wanted)
			wanted := authz.Requirement{Key: words.Key, Operator: words.Operator}
			for _, value := range words.Values {
				template, err := authz.ParseTemplate(value)
				if err != nil {
					t.Fatal(err)
				}
				wanted.Values = append(wanted.Values, template)
			}
			var selector []usher.Requirement
			for _, text := range test.selector {
				selector = append(selector, requirement(text))
			}
			q := authz.QueryOf(ask("list", "/pods", "a/"), nil)
			if got := authz.Implied([]authz.Requirement{wanted}, selector, &q); got != test.want {
				t.Errorf("%v implies %s: %t", test.selector, wanted, got)
			}
		})
	}
}

func TestMissesAndOverlap(t *testing.T) {
	t.Parallel()
	literal := func(texts ...string) authz.Set {
		var s authz.Set
		for _, text := range texts {
			s.Patterns = append(s.Patterns, authz.Pattern{Prefix: text})
		}
		return s
	}
	r := &authz.Rule{
		Policy: &authz.Policy{
			Ref: usher.PolicyRef{Kind: "ClusterAuthorizationPolicy", Name: "p"}, Tier: authz.Cluster, Effect: authz.Deny,
			Subjects: []authz.Subject{{Users: []authz.Pattern{{Prefix: "jane"}}}},
		},
		Name: "spec.rules[0]", Verbs: literal("get", "list"), Groups: literal(""), Versions: authz.Set{Any: true},
		Resources: []authz.Resource{{Name: "secrets"}}, Names: literal("db"), Namespaces: literal("a", "b"),
	}
	for _, test := range []struct {
		verb, what, where string
		misses            []string
		overlap           string
	}{
		{"get", "/secrets", "a/db", nil, ""},
		{"list", "/secrets", "", nil, "namespaces [a, b] are part of all namespaces, names [db] are part of an unnamed list"},
		{"*", "*/*", "a/db", nil, "verbs [get, list] are part of all verbs, API groups [] are part of all groups, resources [secrets] are part of *"},
		{"delete", "/pods/log", "c/web", []string{
			`verb "delete" is not get, list`, `resource "pods/log" is not secrets`, `namespace "c" is not a, b`, `name "web" is not db`,
		}, ""},
		{"create", "/secrets", "a/", []string{`verb "create" is not get, list`, "name (not known yet) is not db"}, ""},
	} {
		q := authz.QueryOf(ask(test.verb, test.what, test.where), nil)
		if diff := cmp.Diff(test.misses, r.Mismatches(&q)); diff != "" {
			t.Errorf("%s %s %s: misses -want +got:\n%s", test.verb, test.what, test.where, diff)
		}
		if r.Matches(&q) != (test.misses == nil) {
			t.Errorf("%s %s %s: matches %t", test.verb, test.what, test.where, r.Matches(&q))
		}
		if got := r.Overlap(&q); test.misses == nil && got != test.overlap {
			t.Errorf("%s %s %s: overlap %q, want %q", test.verb, test.what, test.where, got, test.overlap)
		}
	}
	path := &usher.Request{Phase: usher.Authorize, Access: &usher.Access{Verb: "get", Path: "/x", NonResource: true}}
	q := authz.QueryOf(path, nil)
	if got := r.Mismatches(&q); len(got) != 1 || got[0] != "it is for resources" {
		t.Errorf("misses %q", got)
	}
}
