package rule_test

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

// TestNamespaces compares sets with what they contain, one name at a time.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c"}
	var sets []rule.Namespaces
	for bits := range 8 {
		var some []string
		for i, name := range names {
			if bits>>i&1 == 1 {
				some = append(some, name)
			}
		}
		sets = append(sets, rule.Namespaces{Names: some, Only: true}, rule.Namespaces{Names: some})
	}
	for _, a := range sets {
		for _, b := range sets {
			and, or := a.And(b), a.Or(b)
			if all := rule.AnyOf([]rule.Namespaces{a, b, a}); all.Only != or.Only || !slices.Equal(all.Names, or.Names) {
				t.Errorf("any of %v and %v is %v", a, b, all)
			}
			for _, name := range append(names, "z") {
				if got, want := and.Has(name), a.Has(name) && b.Has(name); got != want {
					t.Errorf("(%v and %v) has %s: %v", a, b, name, got)
				}
				if got, want := or.Has(name), a.Has(name) || b.Has(name); got != want {
					t.Errorf("(%v or %v) has %s: %v", a, b, name, got)
				}
			}
		}
	}
}

// TestAnyOf: no set has no namespace, and sets that are joined stay as they are.
func TestAnyOf(t *testing.T) {
	t.Parallel()
	if none := rule.AnyOf(nil); !none.Only || len(none.Names) > 0 {
		t.Errorf("no set: %v", none)
	}
	one := rule.Namespaces{Names: []string{"b", "c"}, Only: true}
	if all := rule.AnyOf([]rule.Namespaces{one, {Names: []string{"a"}, Only: true}}); all.String() != "a, b, c" || one.String() != "b, c" {
		t.Errorf("joined: %v, of %v", all, one)
	}
}

func TestNamespacesOf(t *testing.T) {
	t.Parallel()
	const name = "kubernetes.io/metadata.name"
	for text, want := range map[string]string{
		"":                                       "all namespaces",
		"env=prod":                               "all namespaces",
		"env notin (prod)":                       "all namespaces",
		name:                                     "all namespaces",
		"!" + name:                               "no namespace",
		name + "=shop":                           "shop",
		name + "!=shop":                          "all namespaces but shop",
		name + " in (shop, bank)":                "bank, shop",
		name + " notin (shop, bank)":             "all namespaces but bank, shop",
		name + "!=shop," + name + "!=bank":       "all namespaces but bank, shop",
		name + "=shop," + name + "!=shop":        "no namespace",
		name + "=shop,env=prod":                  "shop",
		name + " in (a, b, c)," + name + "!=b,x": "a, c",
	} {
		selector, err := labels.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := rule.NamespacesOf(selector).String(); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
	if !rule.NamespacesOf(nil).All() {
		t.Error("no selector selects all namespaces")
	}
}

// TestCoveredResource: policies of namespaces cover no objects in none.
func TestCoveredResource(t *testing.T) {
	t.Parallel()
	pods := rule.ResourceRule{Groups: []string{""}, Versions: []string{"v1"}, Resources: []string{"pods"}, Names: []string{"a"}}
	match := func(of string, only bool, names ...string) rule.Match {
		return rule.Match{Namespace: of, Namespaces: rule.Namespaces{Names: names, Only: only}, Resources: []rule.ResourceMatch{{Rules: []rule.ResourceRule{pods}}}}
	}
	for want, matches := range map[string][]rule.Match{
		"every operation of v1 pods":                                      {match("", false, "a"), match("", false, "b")},
		"every operation of v1 pods in all namespaces but a, and in none": {match("", false, "a"), match("", false, "a", "b")},
		"every operation of v1 pods in a, b, and in none":                 {match("", true, "a"), match("", true, "b")},
		"every operation of v1 pods in a, b":                              {match("a", false), match("b", false, "a")},
		"every operation of v1 pods in no namespace":                      {match("a", false, "a")},
	} {
		rules := make([]rule.Rule, len(matches))
		for i, m := range matches {
			rules[i] = rule.Rule{Policy: usher.PolicyRef{Name: "a"}, Phase: usher.Validate, Match: m}
		}
		covered := rule.Cover(rules).ValidateResources
		if len(covered) != 1 || covered[0].String() != want {
			t.Errorf("got %v, want %s", covered, want)
		}
	}
}
