package rule_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

func TestParseKinds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason string
		words  []string
		has    []schema.GroupKind
		not    []schema.GroupKind
		wrong  string
	}{
		{reason: "a kind of the core", words: []string{"Secret"}, has: []schema.GroupKind{{Kind: "Secret"}}, not: []schema.GroupKind{{Group: "a.io", Kind: "Secret"}, {Kind: "Pod"}}},
		{reason: "a kind of a group", words: []string{"Role.rbac.authorization.k8s.io"}, has: []schema.GroupKind{{Group: "rbac.authorization.k8s.io", Kind: "Role"}}, not: []schema.GroupKind{{Kind: "Role"}, {Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}}},
		{reason: "all kinds of a group", words: []string{"*.a.io"}, has: []schema.GroupKind{{Group: "a.io", Kind: "X"}}, not: []schema.GroupKind{{Group: "b.a.io", Kind: "X"}, {Kind: "X"}}},
		{reason: "all kinds", words: []string{"*"}, has: []schema.GroupKind{{Kind: "Secret"}, {Group: "a.io", Kind: "X"}}},
		{reason: "none", not: []schema.GroupKind{{Kind: "Secret"}}},
		{reason: "a resource is no kind", words: []string{"secrets"}, wrong: `read kind "secrets": expected a kind with its group, such as Secret`},
		{reason: "a version is no group", words: []string{"v1/Secret"}, wrong: "read kind"},
		{reason: "all kinds of no group", words: []string{"*."}, wrong: "read kind"},
		{reason: "nothing", words: []string{""}, wrong: "read kind"},
	} {
		kinds, err := rule.ParseKinds(test.words)
		if test.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), test.wrong) {
				t.Errorf("%s: error %v, want %q", test.reason, err, test.wrong)
			}
			continue
		}
		if err != nil || kinds.String() != strings.Join(test.words, ",") {
			t.Errorf("%s: %q, %v", test.reason, kinds, err)
		}
		for _, gk := range test.has {
			if !kinds.Has(gk) {
				t.Errorf("%s: has not %s", test.reason, gk)
			}
		}
		for _, gk := range test.not {
			if kinds.Has(gk) {
				t.Errorf("%s: has %s", test.reason, gk)
			}
		}
	}
}

func TestParseHosts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason  string
		words   []string
		allowed []string
		refused []string
		wrong   string
	}{
		{reason: "off", words: []string{"off"}, refused: []string{"cmdb.example"}},
		{reason: "all", words: []string{"*"}, allowed: []string{"cmdb.example", "10.0.0.1:80", "[fd00::1]:443"}},
		{reason: "a host, on every port", words: []string{"cmdb.example"}, allowed: []string{"cmdb.example", "CMDB.example:8443"}, refused: []string{"a.cmdb.example", "cmdb.example.evil", "evil", "cmdb.example."}},
		{reason: "a port", words: []string{"cmdb.example:8443"}, allowed: []string{"cmdb.example:8443"}, refused: []string{"cmdb.example", "cmdb.example:443"}},
		{reason: "what is below a domain", words: []string{"*.example"}, allowed: []string{"a.example", "b.a.example:80"}, refused: []string{"example", "aexample", "a.example.evil"}},
		{reason: "an address", words: []string{"[fd00::1]"}, allowed: []string{"[fd00::1]", "[fd00::1]:443"}, refused: []string{"[fd00::2]"}},
		{reason: "a URL is no host", words: []string{"https://cmdb.example"}, wrong: `read host "https://cmdb.example"`},
		{reason: "off and a host", words: []string{"off", "cmdb.example"}, wrong: "off cannot be combined"},
		{reason: "a star within", words: []string{"a.*.example"}, wrong: "read host"},
	} {
		hosts, err := rule.ParseHosts(test.words)
		if test.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), test.wrong) {
				t.Errorf("%s: error %v, want %q", test.reason, err, test.wrong)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", test.reason, err)
		}
		for _, host := range test.allowed {
			if !hosts.Allow(host) {
				t.Errorf("%s: %s is refused", test.reason, host)
			}
		}
		for _, host := range test.refused {
			if hosts.Allow(host) {
				t.Errorf("%s: %s is allowed", test.reason, host)
			}
		}
	}
}

// A policy without selectors acts on everything but what policies of a namespace never act on.
func TestExcludedKindsAreNotMatched(t *testing.T) {
	t.Parallel()
	roles, err := rule.ParseKinds([]string{"Role.rbac.authorization.k8s.io"})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		reason, apiVersion, kind string
		limits                   rule.NamespacedLimits
		want                     bool
	}{
		{"a ConfigMap", "v1", "ConfigMap", rule.NamespacedLimits{}, true},
		{"a Secret", "v1", "Secret", rule.NamespacedLimits{}, false},
		{"a Secret of somebody's own", "example.com/v1", "Secret", rule.NamespacedLimits{}, true},
		{"RBAC in every version", "rbac.authorization.k8s.io/v1alpha1", "RoleBinding", rule.NamespacedLimits{}, false},
		{"a token", "authentication.k8s.io/v1", "TokenRequest", rule.NamespacedLimits{}, false},
		{"a policy", "usher.dev/v1alpha1", "AuthorizationPolicy", rule.NamespacedLimits{}, false},
		{"what the operator allows", "rbac.authorization.k8s.io/v1", "Role", rule.NamespacedLimits{Kinds: roles}, true},
		{"and not the kind beside it", "rbac.authorization.k8s.io/v1", "RoleBinding", rule.NamespacedLimits{Kinds: roles}, false},
	} {
		m := rule.Match{Namespace: "shop", Excluded: test.limits.Excluded()}
		target := rule.Target{Operation: usher.Create, APIVersion: test.apiVersion, Kind: test.kind, Namespace: "shop", Name: "a"}
		if got := m.Matches(&target); got != test.want || got != (m.Mismatch(&target) == "") {
			t.Errorf("%s: matches %t, want %t (%s)", test.reason, got, test.want, m.Mismatch(&target))
		}
	}
}
