package rule_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

func TestCover(t *testing.T) {
	t.Parallel()
	pods := rule.Selector{APIVersion: "v1", Kind: "Pod"}
	secrets := rule.Selector{APIVersion: "v1", Kind: "Secret"}
	deployments := rule.Selector{APIVersion: "apps/v1", Kind: "Deployment"}
	in := func(namespace string, s rule.Selector) rule.Selector {
		s.Namespace = namespace
		return s
	}
	tests := []struct {
		reason string
		match  []rule.Match
		want   []string
	}{
		{"no rules", nil, nil},
		{
			"a kind, every operation", []rule.Match{{Selectors: []rule.Selector{pods}}},
			[]string{"CONNECT, CREATE, DELETE, UPDATE of v1 Pod"},
		},
		{
			"every object: CONNECT has none", []rule.Match{{}},
			[]string{"CREATE, DELETE, UPDATE of every object"},
		},
		{
			"every object, and CONNECT by name", []rule.Match{{Operations: []usher.Operation{usher.Connect, usher.Create}}},
			[]string{"CONNECT, CREATE of every object"},
		},
		{
			"operations that no request has", []rule.Match{
				{Operations: []usher.Operation{"create"}},
				{Operations: []usher.Operation{"CREATE", "create"}, Selectors: []rule.Selector{pods}},
			},
			[]string{"CREATE of v1 Pod"},
		},
		{
			"kinds are sorted and named once, operations joined", []rule.Match{
				{Operations: []usher.Operation{usher.Update}, Selectors: []rule.Selector{secrets, pods, deployments}},
				{Operations: []usher.Operation{usher.Create, usher.Update}, Selectors: []rule.Selector{pods, pods}},
			},
			[]string{"UPDATE of apps/v1 Deployment", "CREATE, UPDATE of v1 Pod", "UPDATE of v1 Secret"},
		},
		{
			"the namespace of the policy, and that of the selector", []rule.Match{
				{Namespace: "shop", Operations: []usher.Operation{usher.Create}, Selectors: []rule.Selector{pods, in("shop", pods)}},
				{Operations: []usher.Operation{usher.Create}, Selectors: []rule.Selector{in("bank", pods)}},
			},
			[]string{"CREATE of v1 Pod in bank, shop"},
		},
		{
			"one that reaches farther takes the others in", []rule.Match{
				{Namespace: "shop", Operations: []usher.Operation{usher.Create}, Selectors: []rule.Selector{pods}},
				{Operations: []usher.Operation{usher.Create}, Selectors: []rule.Selector{pods}},
			},
			[]string{"CREATE of v1 Pod"},
		},
		{
			"operations that reach differently far stay apart", []rule.Match{
				{Namespace: "shop", Operations: []usher.Operation{usher.Create, usher.Delete}, Selectors: []rule.Selector{pods}},
				{Operations: []usher.Operation{usher.Delete}, Selectors: []rule.Selector{pods}},
			},
			[]string{"DELETE of v1 Pod", "CREATE of v1 Pod in shop"},
		},
		{
			"selectors that select nothing", []rule.Match{
				{Namespace: "shop", Selectors: []rule.Selector{in("bank", pods)}},
				{Selectors: []rule.Selector{
					{}, {APIVersion: "v1"}, {Kind: "Pod"}, {APIVersion: "*", Kind: "*"}, {APIVersion: "v1", Kind: "*"},
					{APIVersion: "v1", Kind: "Pod", Never: "not understood"},
				}},
			},
			nil,
		},
		{
			"a name counts more than what was not understood", []rule.Match{{
				Operations: []usher.Operation{usher.Create},
				Selectors:  []rule.Selector{{APIVersion: "v1", Kind: "Pod", Name: "cart", Never: "not understood"}},
			}},
			[]string{"CREATE of v1 Pod"},
		},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			rules := []rule.Rule{{Name: "built-in", Phase: usher.Mutate}, {Name: "built-in", Phase: usher.Validate}}
			for i, match := range test.match {
				policy := usher.PolicyRef{Kind: "ClusterOverridePolicy", Name: fmt.Sprint(i)}
				rules = append(rules, rule.Rule{Policy: policy, Phase: usher.Validate, Match: match})
			}
			coverage := rule.Cover(rules)
			if diff := cmp.Diff(test.want, lines(coverage.Validate)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if len(coverage.Mutate) > 0 {
				t.Errorf("rules that validate cover the mutate phase: %v", coverage.Mutate)
			}
			rand.Shuffle(len(rules), func(i, j int) { rules[i], rules[j] = rules[j], rules[i] })
			if diff := cmp.Diff(coverage, rule.Cover(rules)); diff != "" {
				t.Errorf("in another order, -want +got:\n%s", diff)
			}
		})
	}
}

func TestCoverMutate(t *testing.T) {
	t.Parallel()
	pods := []rule.Selector{{APIVersion: "v1", Kind: "Pod"}}
	rules := []rule.Rule{
		{Policy: usher.PolicyRef{Name: "a"}, Phase: usher.Mutate},
		{Policy: usher.PolicyRef{Name: "b"}, Phase: usher.Mutate, Match: rule.Match{Selectors: pods}},
		{Policy: usher.PolicyRef{Name: "c"}, Phase: usher.Validate, Match: rule.Match{Selectors: pods, Operations: []usher.Operation{usher.Delete}}},
	}
	coverage := rule.Cover(rules)
	if diff := cmp.Diff([]string{"CREATE, UPDATE of every object", "CONNECT, CREATE, UPDATE of v1 Pod"}, lines(coverage.Mutate)); diff != "" {
		t.Errorf("nothing is changed about what is deleted, -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"DELETE of v1 Pod"}, lines(coverage.Validate)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestCoverMissesNothing compares coverage with what rules match, on every combination of
// a few kinds, namespaces and operations.
func TestCoverMissesNothing(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	kinds, namespaces := []string{"Pod", "Secret"}, []string{"", "a", "b"}
	for range 500 {
		rules := make([]rule.Rule, random.IntN(5))
		for i := range rules {
			r := rule.Rule{Policy: usher.PolicyRef{Name: "x"}, Phase: usher.Validate}
			r.Match.Namespace = namespaces[random.IntN(3)]
			for _, operation := range usher.Operations() {
				if random.IntN(3) == 0 {
					r.Match.Operations = append(r.Match.Operations, operation)
				}
			}
			for range random.IntN(3) {
				r.Match.Selectors = append(r.Match.Selectors, rule.Selector{APIVersion: "v1", Kind: kinds[random.IntN(2)], Namespace: namespaces[random.IntN(3)]})
			}
			rules[i] = r
		}
		coverage := rule.Cover(rules).Validate
		for _, kind := range kinds {
			for _, namespace := range namespaces {
				for _, operation := range usher.Operations() {
					s := rule.Target{Operation: operation, APIVersion: "v1", Kind: kind, Namespace: namespace}
					matched := slices.ContainsFunc(rules, func(r rule.Rule) bool {
						options := operation == usher.Connect && len(r.Match.Selectors) == 0 && len(r.Match.Operations) == 0
						return !options && r.Match.Matches(&s)
					})
					covered := slices.ContainsFunc(coverage, func(c rule.Covered) bool {
						return (c.Kind == "" || c.Kind == kind) && slices.Contains(c.Operations, operation) &&
							(c.Namespaces == nil || slices.Contains(c.Namespaces, namespace))
					})
					if matched != covered {
						t.Fatalf("%s of %s in %q: matched %t, covered %t\nrules: %v\ncoverage: %v", operation, kind, namespace, matched, covered, rules, coverage)
					}
				}
			}
		}
	}
}

func TestCoveredString(t *testing.T) {
	t.Parallel()
	if got, want := (rule.Covered{}).String(), "every operation of every object"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func lines(all []rule.Covered) []string {
	var text []string
	for _, c := range all {
		text = append(text, c.String())
	}
	return text
}

func BenchmarkCover(b *testing.B) {
	rules := make([]rule.Rule, 1000)
	for i := range rules {
		rules[i] = rule.Rule{
			Policy: usher.PolicyRef{Name: fmt.Sprint(i)}, Phase: usher.Mutate,
			Match: rule.Match{Selectors: []rule.Selector{{APIVersion: "apps/v1", Kind: fmt.Sprint("Kind", i%50)}}},
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		rule.Cover(rules)
	}
}

// BenchmarkCoverTenants is one policy for an endpoint in each of many namespaces.
func BenchmarkCoverTenants(b *testing.B) {
	rules := make([]rule.Rule, 5000)
	for i := range rules {
		rules[i] = rule.Rule{
			Policy: usher.PolicyRef{Name: "a"}, Phase: usher.Validate,
			Match: rule.Match{Namespace: fmt.Sprint("n", i), Resources: []rule.ResourceMatch{{Rules: []rule.ResourceRule{
				{Groups: []string{""}, Versions: []string{"v1"}, Resources: []string{"pods"}},
			}}}},
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		rule.Cover(rules)
	}
}
