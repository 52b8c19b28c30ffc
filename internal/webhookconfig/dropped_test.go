package webhookconfig_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/webhookconfig"
)

// Policies can name any number of versions that nobody serves. They leave no policy without its
// entry that names what is served, and it is told that something is left out.
func TestVersionsThatNobodyServesDisplaceNone(t *testing.T) {
	t.Parallel()
	m := meta.NewDefaultRESTMapper(nil)
	for _, version := range []string{"v1", "v2"} {
		m.Add(schema.GroupVersionKind{Group: "autoscaling", Version: version, Kind: "HorizontalPodAutoscaler"}, meta.RESTScopeNamespace)
	}
	names := func(versions ...string) rule.Covered {
		return rule.Covered{APIVersion: versions[0], Kind: "HorizontalPodAutoscaler", Versions: versions}
	}
	coverage := rule.Coverage{Validate: []rule.Covered{names("autoscaling/v2")}}
	for i := range 40 {
		// They come first by their names.
		coverage.Validate = append(coverage.Validate, names(fmt.Sprintf("autoscaling/a%02d", i), "autoscaling/v1"))
	}
	e := webhookconfig.New(nil, m, webhookconfig.Options{Log: silent})
	entries, err := e.Entries(coverage)
	var incomplete *webhookconfig.IncompleteError
	if !errors.As(err, &incomplete) || len(incomplete.Dropped) == 0 || !strings.Contains(err.Error(), "name fewer combinations of versions") {
		t.Errorf("that entries are left out is told as %v", err)
	}
	var got []string
	for _, entry := range entries {
		got = append(got, entry.String())
	}
	if len(got) > 40 {
		t.Errorf("%d entries are registered", len(got))
	}
	if !slices.Contains(got, "validate-v2") {
		t.Errorf("there is no entry for the policy that names what is served, but %v", got)
	}
	for _, dropped := range incomplete.Dropped {
		if slices.Contains(got, dropped) {
			t.Errorf("%s is registered, and said to be left out", dropped)
		}
	}
}
