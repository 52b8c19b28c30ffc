package trial_test

import (
	"strings"
	"testing"

	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// TestNoGroupLacksWhatKubernetesHas compares the table of resources by which rights are asked with what is recorded of an
// API server.
func TestNoGroupLacksWhatKubernetesHas(t *testing.T) {
	t.Parallel()
	n := 0
	for r := range kind.Recorded().Resources() {
		name, _, _ := strings.Cut(r.Name, "/")
		if n++; authz.Lacks(r.Under(), name) {
			t.Errorf("the API group %q has %s", r.Under(), name)
		}
	}
	if n < 100 || !authz.Lacks("apps", "pods") || authz.Lacks("example.com", "pods") {
		t.Errorf("of %d resources", n)
	}
}
