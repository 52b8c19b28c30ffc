package prove_test

import (
	"encoding/json"
	"regexp"
	"testing"

	"github.com/usher-dev/usher/internal/convert/kyverno/prove"
	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
	"github.com/usher-dev/usher/internal/kind"
)

// TestQuantitiesArePossible: API servers refuse objects with other texts as quantities before they ask a policy.
func TestQuantitiesArePossible(t *testing.T) {
	t.Parallel()
	var object map[string]any
	err := json.Unmarshal([]byte(`{"apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy", "metadata": {"name": "p"}, "spec": {"rules": [{"name": "r",
		"match": {"any": [{"resources": {"kinds": ["Pod"]}}]}, "validate": {"message": "m", "pattern": {"spec": {"containers": [{"resources": {"limits": {"memory": "?*", "cpu": "<=8"}}}]}}}}]}}`), &object)
	if err != nil {
		t.Fatal(err)
	}
	policy, errs := syntax.Decode(object)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	found, given := regexp.MustCompile(`"(?:memory|cpu)":"([^"]*)"`), map[string]bool{}
	for _, r := range prove.Requests(policy, kind.Recorded()) {
		text, err := json.Marshal(r.Object)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range found.FindAllStringSubmatch(string(text), -1) {
			given[match[1]] = true
		}
	}
	for text := range given {
		if !regexp.MustCompile(`^[0-9]+(Gi)?$`).MatchString(text) {
			t.Errorf("%q is no quantity", text)
		}
	}
	if !given["100Gi"] || !given["1Gi"] || !given["0"] {
		t.Errorf("quantities %v, expected some that are large, small and zero", given)
	}
}
