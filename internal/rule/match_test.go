package rule_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

var cart = map[string]any{
	"apiVersion": "v1",
	"kind":       "Pod",
	"metadata": map[string]any{
		"name": "cart", "namespace": "shop",
		"labels": map[string]any{"app": "cart", "tier": "gold", "count": int64(1)},
	},
}

func selectorFor(change func(*rule.Selector)) rule.Selector {
	sel := rule.Selector{APIVersion: "v1", Kind: "Pod"}
	change(&sel)
	return sel
}

func labelled(t *testing.T, text string) labels.Selector {
	t.Helper()
	selector, err := labels.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return selector
}

func TestMatch(t *testing.T) {
	t.Parallel()
	pods := rule.Selector{APIVersion: "v1", Kind: "Pod"}
	with := func(change func(*rule.Selector)) rule.Match {
		return rule.Match{Selectors: []rule.Selector{selectorFor(change)}}
	}
	tests := []struct {
		reason string
		match  rule.Match
		miss   string
		near   bool
	}{
		{"nothing is asked", rule.Match{}, "", false},
		{"operation", rule.Match{Operations: []usher.Operation{usher.Update, usher.Create}}, "", false},
		{"another operation", rule.Match{Operations: []usher.Operation{usher.Update, usher.Delete}, Selectors: []rule.Selector{pods}}, "operation CREATE is not UPDATE, DELETE", false},
		{"operations are literal", rule.Match{Operations: []usher.Operation{"*"}}, "operation CREATE is not *", false},
		{"the policy's namespace", rule.Match{Namespace: "shop"}, "", false},
		{"another policy's namespace", rule.Match{Namespace: "evil"}, `namespace "shop" is not the policy's own, "evil"`, false},
		{"the policy's namespace, whatever a selector says", rule.Match{Namespace: "evil", Selectors: []rule.Selector{
			selectorFor(func(s *rule.Selector) { s.Namespace = "shop" }),
		}}, `namespace "shop" is not the policy's own, "evil"`, false},
		{"kind", rule.Match{Selectors: []rule.Selector{pods}}, "", false},
		{"another kind", with(func(s *rule.Selector) { s.Kind = "pod" }), "v1 Pod is not v1 pod", false},
		{"another group", with(func(s *rule.Selector) { s.APIVersion = "apps/v1" }), "v1 Pod is not apps/v1 Pod", false},
		{"namespace", with(func(s *rule.Selector) { s.Namespace = "shop" }), "", false},
		{"another namespace", with(func(s *rule.Selector) { s.Namespace = "office" }), `namespace "shop" is not "office"`, false},
		{"name", with(func(s *rule.Selector) { s.Name = "cart" }), "", false},
		{"another name", with(func(s *rule.Selector) { s.Name = "web" }), `name "cart" is not "web"`, true},
		{"namespace and another name", with(func(s *rule.Selector) { s.Namespace, s.Name = "shop", "web" }), `name "cart" is not "web"`, true},
		{"name and another namespace", with(func(s *rule.Selector) { s.Namespace, s.Name = "office", "cart" }), `namespace "shop" is not "office"`, false},
		{"a name makes the rest irrelevant", with(func(s *rule.Selector) {
			s.Name, s.Labels, s.Fields, s.Never = "cart", labels.Nothing(), rule.Fields{field("a", rule.Exists)}, "not understood"
		}), "", false},
		{"what was not understood", with(func(s *rule.Selector) { s.Never = "unknown operator" }), "unknown operator", true},
		{"labels", with(func(s *rule.Selector) { s.Labels = labelled(t, "app=cart,tier in (gold,silver),!zone") }), "", false},
		{"all labels are needed", with(func(s *rule.Selector) { s.Labels = labelled(t, "app=cart,zone=eu") }), `labels do not match "app=cart,zone=eu"`, true},
		{"a label that is missing is not in a list", with(func(s *rule.Selector) { s.Labels = labelled(t, "zone notin (eu)") }), "", false},
		{"what is no text is no label", with(func(s *rule.Selector) { s.Labels = labelled(t, "count") }), `labels do not match "count"`, true},
		{"no label is asked for", with(func(s *rule.Selector) { s.Labels = labels.Everything() }), "", false},
		{"fields", with(func(s *rule.Selector) { s.Fields = rule.Fields{field("metadata.name", rule.In, "cart")} }), "", false},
		{"no field is asked for", with(func(s *rule.Selector) { s.Fields = rule.Fields{} }), "", false},
		{"the field that does not fit", with(func(s *rule.Selector) {
			s.Fields = rule.Fields{field("metadata.name", rule.In, "cart"), field("spec.node", rule.In, "a", "b")}
		}), `field does not match "spec.node in (a, b)"`, true},
		{"fields fit, labels do not", with(func(s *rule.Selector) {
			s.Fields, s.Labels = rule.Fields{field("metadata.name", rule.In, "cart")}, labelled(t, "app=web")
		}), `labels do not match "app=web"`, true},
		{"labels fit, fields do not", with(func(s *rule.Selector) {
			s.Fields, s.Labels = rule.Fields{field("metadata.name", rule.In, "web")}, labelled(t, "app=cart")
		}), `field does not match "metadata.name in (web)"`, true},
		{"one of several selectors suffices", rule.Match{Selectors: []rule.Selector{{APIVersion: "v1", Kind: "Secret"}, pods}}, "", false},
		{"the closest of several is told", rule.Match{Selectors: []rule.Selector{
			{APIVersion: "v1", Kind: "Secret"},
			selectorFor(func(s *rule.Selector) { s.Labels = labelled(t, "app=web") }),
			selectorFor(func(s *rule.Selector) { s.Namespace = "office" }),
		}}, `labels do not match "app=web"`, true},
		{"the first of equals is told", rule.Match{Selectors: []rule.Selector{{APIVersion: "v1", Kind: "Secret"}, {APIVersion: "v1", Kind: "Node"}}}, "v1 Pod is not v1 Secret", false},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			s := rule.TargetOf(&usher.Request{Operation: usher.Create}, cart)
			if got := tt.match.Matches(&s); got != (tt.miss == "") {
				t.Errorf("Matches is %t", got)
			}
			if got := tt.match.Mismatch(&s); got != tt.miss {
				t.Errorf("Mismatch is %q, want %q", got, tt.miss)
			}
			if got := tt.match.NearlyMatches(&s); got != tt.near {
				t.Errorf("NearlyMatches is %t", got)
			}
			for i := range tt.match.Selectors {
				if sel := &tt.match.Selectors[i]; len(tt.match.Selectors) == 1 && tt.match.Namespace == "" && tt.match.Operations == nil && sel.Matches(&s) != (tt.miss == "") {
					t.Errorf("the selector itself says %t", sel.Matches(&s))
				}
			}
		})
	}
}

func TestNearNeedsTheOperation(t *testing.T) {
	t.Parallel()
	m := rule.Match{Operations: []usher.Operation{usher.Delete}, Selectors: []rule.Selector{
		selectorFor(func(s *rule.Selector) { s.Name = "web" }),
	}}
	for op, want := range map[usher.Operation]bool{usher.Create: false, usher.Delete: true} {
		s := rule.TargetOf(&usher.Request{Operation: op}, cart)
		if got := m.NearlyMatches(&s); got != want {
			t.Errorf("%s: NearlyMatches is %t", op, got)
		}
	}
}

func TestMatchingAllocatesNothing(t *testing.T) {
	m := rule.Match{
		Operations: []usher.Operation{usher.Create},
		Selectors: []rule.Selector{
			{APIVersion: "v1", Kind: "Secret"},
			selectorFor(func(s *rule.Selector) { s.Labels = labelled(t, "app=web") }),
			selectorFor(func(s *rule.Selector) { s.Fields = rule.Fields{field("metadata.name", rule.In, "web")} }),
		},
	}
	s := rule.TargetOf(&usher.Request{Operation: usher.Create}, cart)
	if allocs := testing.AllocsPerRun(100, func() { m.Matches(&s) }); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func BenchmarkMatches(b *testing.B) {
	selector, err := labels.Parse("app=cart,tier in (gold,silver)")
	if err != nil {
		b.Fatal(err)
	}
	m := rule.Match{Operations: []usher.Operation{usher.Create}, Selectors: []rule.Selector{
		selectorFor(func(s *rule.Selector) {
			s.Labels, s.Fields = selector, rule.Fields{field("metadata.name", rule.In, "cart")}
		}),
	}}
	s := rule.TargetOf(&usher.Request{Operation: usher.Create}, cart)
	b.ReportAllocs()
	for b.Loop() {
		if !m.Matches(&s) {
			b.Fatal("no match")
		}
	}
}
