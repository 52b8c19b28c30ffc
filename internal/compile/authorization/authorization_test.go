package authorization_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// compiled is a policy named p, of which metadata and spec are given as YAML flow.
func compiled(t *testing.T, kind, metadata, spec string) compile.Compiled {
	t.Helper()
	text := fmt.Sprintf("apiVersion: usher.dev/v1alpha1\nkind: %s\nmetadata: {name: p%s}\nspec: %s", kind, metadata, spec)
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	policy, err := api.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	return compile.Policy(policy)
}

const (
	cluster    = "ClusterAuthorizationPolicy"
	namespaced = "AuthorizationPolicy"
	pods       = "rules: [{verbs: [get], apiGroups: [''], resources: [pods, pods/log]}]"
	jane       = "subjects: [{users: [jane]}]"
)

func TestRules(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason, kind, metadata, spec string
		want                         []string
	}{
		{"the least", cluster, "", "{effect: Allow, " + jane + ", " + pods + "}", []string{
			`cluster Allow ClusterAuthorizationPolicy p spec.rules[0]: get of pods, pods/log in group ""`,
		}},
		{"a tier, names and namespaces", cluster, "", "{effect: NoOpinion, tier: platform, " + jane + ", rules: [{verbs: ['*'], apiGroups: [apps, '*.io'], resources: ['*'], names: [a*b], namespaces: ['$(user)', x]}]}", []string{
			`platform NoOpinion ClusterAuthorizationPolicy p spec.rules[0]: * of * in group "apps, *.io" named a*b in $(user), x`,
		}},
		{"paths", cluster, "", "{effect: Deny, " + jane + ", rules: [{verbs: [get, post], nonResourceURLs: [/a*, /b]}]}", []string{
			`cluster Deny ClusterAuthorizationPolicy p spec.rules[0]: get, post of /a*, /b`,
		}},
		{"in a namespace", namespaced, ", namespace: shop", "{effect: Allow, " + jane + ", " + pods + "}", []string{
			`namespace Allow AuthorizationPolicy shop/p spec.rules[0]: get of pods, pods/log in group "" in shop`,
		}},
		{"paths in a namespace", namespaced, ", namespace: shop", "{effect: Allow, " + jane + ", rules: [{verbs: [get], nonResourceURLs: [/a]}]}", nil},
		{"one error and there are no rules", cluster, "", "{effect: Allow, " + jane + ", rules: [{verbs: [get], apiGroups: [''], resources: [pods]}, {verbs: [get], apiGroups: [''], resources: ['po*']}]}", nil},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, r := range compiled(t, test.kind, test.metadata, test.spec).Access {
				got = append(got, r.String())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	rule := func(text string) string { return "{effect: Allow, " + jane + ", rules: [{" + text + "}]}" }
	deny := func(text string) string { return "{effect: Deny, " + jane + ", rules: [{" + text + "}]}" }
	with := func(text string) string { return "{effect: Allow, " + text + ", " + jane + ", " + pods + "}" }
	for _, test := range []struct{ reason, spec, want string }{
		{"nothing wrong", with("message: x"), ""},
		{"effect", "{effect: Refuse, " + jane + ", " + pods + "}", `error: spec.effect: "Refuse" is no effect`},
		{"tier", with("tier: top"), `error: spec.tier: "top" is no tier`},
		{"enforcement", with("enforcement: Warn"), `error: spec.enforcement: "Warn" is no enforcement`},
		{"onError", with("onError: Ignore"), `error: spec.onError: "Ignore" is not known`},
		{"onError of an Allow", with("onError: Match"), "error: spec.onError: nothing is allowed because a condition fails"},
		{"confirmWithin of an Allow", with("confirmWithin: 1m"), "error: spec.confirmWithin: only a Deny needs to be confirmed"},
		{"no time to confirm", "{effect: Deny, confirmWithin: 0s, " + jane + ", rules: [{verbs: [get], apiGroups: [''], resources: [configmaps]}]}", "error: spec.confirmWithin: not a time to wait for"},
		{"nobody", "{effect: Allow, " + pods + "}", "error: spec.subjects: the policy is for nobody"},
		{"an empty subject", "{effect: Allow, subjects: [{}], " + pods + "}", "error: spec.subjects[0]: nobody is named"},
		{"two stars", "{effect: Allow, subjects: [{users: ['a*b*']}], " + pods + "}", `error: spec.subjects[0].users[0]: "a*b*" has more than one *`},
		{"no service account", "{effect: Allow, subjects: [{serviceAccounts: [ci]}], " + pods + "}", `error: spec.subjects[0].serviceAccounts[0]: "ci" is no service account`},
		{"everybody", "{effect: Allow, subjects: [{users: ['*']}], " + pods + "}", "warning: spec.subjects[0].users: * is everybody"},
		{"no rules", "{effect: Allow, " + jane + "}", "error: spec.rules: the policy is for no request"},
		{"no verbs", rule("apiGroups: [''], resources: [pods]"), "error: spec.rules[0].verbs: the rule is for no verb"},
		{"no target", rule("verbs: [get]"), "error: spec.rules[0].apiGroups: the rule is for no API group | error: spec.rules[0].resources: the rule is for nothing"},
		{"no group", rule("verbs: [get], resources: [pods]"), "error: spec.rules[0].apiGroups: the rule is for no API group"},
		{"two targets", rule("verbs: [get], resources: [pods], nonResourceURLs: [/a]"), "error: spec.rules[0].nonResourceURLs: the rule is for resources too"},
		{"no path", rule("verbs: [get], nonResourceURLs: [a]"), `error: spec.rules[0].nonResourceURLs[0]: "a" is no path`},
		{"a part of a resource", rule("verbs: [get], apiGroups: [''], resources: ['pod*']"), `error: spec.rules[0].resources[0]: in "pod*", * replaces a part of a name`},
		{"a slash too many", rule("verbs: [get], apiGroups: [''], resources: [pods/]"), `error: spec.rules[0].resources[0]: "pods/" is no resource`},
		{"a kind", rule("verbs: [get], apiGroups: [''], resources: [Pod]"), `warning: spec.rules[0].resources[0]: "Pod" is no resource`},
		{"an unknown placeholder", rule("verbs: [get], apiGroups: [''], resources: [pods], names: ['$(me)']"), "error: spec.rules[0].names[0]: $(me) is no placeholder"},
		{"an open placeholder", rule("verbs: [get], apiGroups: [''], resources: [pods], names: ['$(user']"), "has a placeholder without closing parenthesis"},
		{"placeholder and star", rule("verbs: [get], apiGroups: [''], resources: [pods], names: ['$(user)-*']"), "error: spec.rules[0].names[0]: * and placeholders do not go together"},
		{"a placeholder among verbs", rule("verbs: ['$(user)'], apiGroups: [''], resources: [pods]"), "error: spec.rules[0].verbs[0]: there are no placeholders here"},
		{"an empty name", rule("verbs: [get], apiGroups: [''], resources: [pods], names: ['']"), "error: spec.rules[0].names[0]: the empty text is the name of nothing"},
		{"names and create", rule("verbs: [create], apiGroups: [''], resources: [pods], names: [a]"), "warning: spec.rules[0].names: the name of what is created is not known yet"},
		{"names and deletecollection", rule("verbs: [deletecollection], apiGroups: [''], resources: [pods], names: [a]"), "warning: spec.rules[0].verbs: a deletecollection names nothing"},
		{"overlap of an Allow", rule("verbs: [list], apiGroups: [''], resources: [pods], collectionOverlap: false"), "warning: spec.rules[0].collectionOverlap: it is for Deny and NoOpinion"},
		{"overlap", deny("verbs: [list], apiGroups: [''], resources: [configmaps], collectionOverlap: false"), "warning: spec.rules[0].collectionOverlap: what the rule names can be read in a list of more"},
		{"pods without subresources", deny("verbs: [get], apiGroups: [''], resources: [pods]"), "warning: spec.rules[0].resources[0]: pods does not include its subresources, such as pods/exec"},
		{"pods with subresources", deny("verbs: [get], apiGroups: [''], resources: [pods, 'pods/*']"), ""},
		{"exec without get", deny("verbs: [create], apiGroups: [''], resources: [pods/exec]"), "warning: spec.rules[0].verbs: clients that use websockets ask for pods/exec with the verb get"},
		{"exec with get", deny("verbs: [create, g*], apiGroups: [''], resources: [pods/exec]"), ""},
		{"a requirement without key", with("selectors: {labels: [{operator: Exists}]}"), "error: spec.selectors.labels[0].key: the requirement has no key"},
		{"an unknown operator", with("selectors: {labels: [{key: a, operator: Like}]}"), `error: spec.selectors.labels[0].operator: "Like" is no operator`},
		{"In without values", with("selectors: {fields: [{key: a, operator: In}]}"), "error: spec.selectors.fields[0].values: In needs values"},
		{"Exists with values", with("selectors: {labels: [{key: a, operator: Exists, values: [x]}]}"), "error: spec.selectors.labels[0].values: Exists takes no values"},
		{"selectors of a get", with("selectors: {labels: [{key: a, operator: Exists}]}"), "warning: spec.rules[0].verbs: only requests with the verbs list, watch and deletecollection have selectors: the rule allows no others"},
		{"no expression", with("when: [{name: x}]"), "error: spec.when[0].cel: the condition has no expression"},
		{"a broken expression", with("unless: [{cel: 'request.user +'}]"), "error: spec.unless[0].cel: Syntax error"},
		{"CUE", with("when: [{cue: 'request: user: \"x\"'}]"), "error: spec.when[0].cel: the condition has no expression | error: spec.when[0].cue: conditions of authorization policies are not written in CUE"},
		{"an unknown field", with("object: []"), "error: spec.object: unknown field"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, p := range compiled(t, cluster, "", test.spec).Problems {
				got = append(got, fmt.Sprintf("%s: %s: %s", p.Severity, p.Field, p.What))
			}
			text := strings.Join(got, " | ")
			if test.want == "" && text != "" || !containsAll(text, strings.Split(test.want, " | ")) {
				t.Errorf("got  %s\nwant %s", text, test.want)
			}
		})
	}
}

func containsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

func TestProblemsOfNamespaces(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ reason, kind, metadata, spec, want string }{
		{"a Deny", namespaced, ", namespace: shop", "{effect: Deny, " + jane + ", " + pods + "}", "an AuthorizationPolicy refuses nothing"},
		{"no namespace", namespaced, "", "{effect: Allow, " + jane + ", " + pods + "}", "it is for requests of its own namespace, so it is for none"},
		{"a namespace too much", cluster, ", namespace: shop", "{effect: Allow, " + jane + ", " + pods + "}", "it is for requests of every namespace"},
		{"namespaces", namespaced, ", namespace: shop", "{effect: Allow, " + jane + ", rules: [{verbs: [get], apiGroups: [''], resources: [pods], namespaces: [bank]}]}", "error: AuthorizationPolicy shop/p: spec.rules[0].namespaces: an AuthorizationPolicy is for requests in its own namespace, shop, which is not one of these: the rule matches nothing"},
		{"its own among them", namespaced, ", namespace: shop", "{effect: Allow, " + jane + ", rules: [{verbs: [get], apiGroups: [''], resources: [pods], namespaces: [bank, 'sh*']}]}", "in its own namespace, and for no other of these"},
		{"that of the user", namespaced, ", namespace: shop", "{effect: Allow, " + jane + ", rules: [{verbs: [get], apiGroups: [''], resources: [pods], namespaces: ['$(user)']}]}", "in its own namespace, and for no other of these"},
		{"a tier", namespaced, ", namespace: shop", "{effect: Allow, tier: platform, " + jane + ", " + pods + "}", "unknown field"},
		{"safeguard from a cluster", cluster, ", uid: u1", "{effect: Deny, tier: safeguard, " + jane + ", " + pods + "}", "policies of a cluster cannot be in the tier safeguard"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			c := compiled(t, test.kind, test.metadata, test.spec)
			if len(c.Problems) == 0 || !strings.Contains(fmt.Sprint(c.Problems), test.want) {
				t.Errorf("problems %v, want %q", c.Problems, test.want)
			}
		})
	}
}

func TestConfirm(t *testing.T) {
	t.Parallel()
	const spec = "{effect: Deny, confirmWithin: 10m, " + jane + ", rules: [{verbs: [get], apiGroups: [''], resources: [configmaps]}]}"
	at := func(text string) time.Time {
		when, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return when
	}
	for _, test := range []struct {
		reason, metadata string
		want             time.Time
	}{
		{"since it was written", ", generation: 3, annotations: {usher.dev/since: '2026-01-02T03:00:00Z'}", at("2026-01-02T03:10:00Z")},
		{"since it was created", ", generation: 1, creationTimestamp: '2026-01-02T04:00:00Z'", at("2026-01-02T04:10:00Z")},
		{"confirmed", ", generation: 3, annotations: {usher.dev/since: '2026-01-02T03:00:00Z', usher.dev/confirmed: '3'}", time.Time{}},
		{"an older version was confirmed", ", generation: 3, annotations: {usher.dev/since: '2026-01-02T03:00:00Z', usher.dev/confirmed: '2'}", at("2026-01-02T03:10:00Z")},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			rules := compiled(t, cluster, test.metadata, spec).Access
			if len(rules) != 1 || !rules[0].Policy.Confirm.Equal(test.want) {
				t.Errorf("%v, want to be confirmed by %s", rules, test.want)
			}
		})
	}
	rules := compiled(t, cluster, ", generation: 2, creationTimestamp: '2020-01-02T04:00:00Z'", spec).Access
	if left := time.Until(rules[0].Policy.Confirm); left < 9*time.Minute || left > 10*time.Minute {
		t.Errorf("without a record the time begins now, %s are left", left)
	}
}

func TestErrorsByEffect(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]bool{
		"{effect: Allow, " + jane + ", " + pods + "}":                true,
		"{effect: Allow, onError: Skip, " + jane + ", " + pods + "}": true,
		"{effect: Deny, " + jane + ", " + pods + "}":                 false,
		"{effect: Deny, onError: Skip, " + jane + ", " + pods + "}":  true,
		"{effect: Deny, onError: Match, " + jane + ", " + pods + "}": false,
	} {
		if rules := compiled(t, cluster, "", spec).Access; len(rules) != 1 || rules[0].Policy.SkipErrors != want {
			t.Errorf("%s: %v skips errors: want %t", spec, rules, want)
		}
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	var all []compile.Compiled
	for _, spec := range []string{
		"{effect: Allow, " + jane + ", " + pods + "}", "{effect: Deny, tier: namespace, " + jane + ", " + pods + "}",
		"{effect: NoOpinion, " + jane + ", " + pods + "}", "{effect: Deny, " + jane + ", " + pods + "}", "{effect: Allow, tier: platform, " + jane + ", " + pods + "}",
	} {
		all = append(all, compiled(t, cluster, "", spec))
	}
	var got []string
	for _, r := range compile.Access(all) {
		got = append(got, r.Policy.Tier.String()+" "+r.Policy.Effect.String())
	}
	want := []string{"platform Allow", "cluster Deny", "cluster NoOpinion", "cluster Allow", "namespace Deny"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(authz.Tiers()) != 4 {
		t.Errorf("tiers %v", authz.Tiers())
	}
}
