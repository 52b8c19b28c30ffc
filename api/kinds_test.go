package api_test

import (
	"testing"

	"github.com/usher-dev/usher/api"
)

// TestKindsHaveNamesOfTheirOwn: a reference to a policy names its kind without a group.
func TestKindsHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	all := api.Kinds()
	for _, versions := range api.ForeignKinds() {
		all = append(all, versions[0])
	}
	for _, kind := range all {
		if found, ok := api.KindCalled(kind.Kind); !ok || found.GroupVersionKind != kind.GroupVersionKind {
			t.Errorf("%s is %s", kind.Kind, found.GroupVersionKind)
		}
	}
	if found, ok := api.KindCalled("Pod"); ok {
		t.Errorf("Pod is %s", found)
	}
}
