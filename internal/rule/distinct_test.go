package rule_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/usher-dev/usher/internal/rule"
)

// TestDistinctLabels: selectors say of any labels what they say of some of the distinct ones.
func TestDistinctLabels(t *testing.T) {
	t.Parallel()
	var selectors []labels.Selector
	for _, text := range []string{"env in (prod, test)", "env!=prod", "!team,env=prod"} {
		selector, err := labels.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		selectors = append(selectors, selector)
	}
	selected := func(by labels.Set) (vector [3]bool) {
		for i, selector := range selectors {
			vector[i] = selector.Matches(by)
		}
		return vector
	}
	sets, few := rule.DistinctLabels(selectors, 12)
	told := map[[3]bool]bool{}
	for _, set := range sets {
		told[selected(set)] = true
	}
	for _, example := range []labels.Set{nil, {"env": "prod"}, {"env": "test"}, {"env": "other"}, {"team": "a"}, {"env": "prod", "team": "a"}, {"other": "b"}} {
		if !told[selected(example)] {
			t.Errorf("no set is as %v", example)
		}
	}
	if !few || len(sets) > 0 && len(sets[0]) > 0 {
		t.Errorf("few: %t, and the first set is %v", few, sets[0])
	}
	if _, few := rule.DistinctLabels(selectors, 7); few {
		t.Error("8 sets are no more than 7")
	}
}
