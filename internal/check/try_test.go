package check_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/check"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/trial"
)

// TestWhatIsCutIsTriedAgain: a policy for which there was no time, as on a machine that is busy, is tried
// once more, after the others; if there is no time then either, that is said.
func TestWhatIsCutIsTriedAgain(t *testing.T) {
	t.Parallel()
	const typo = `{"apiVersion":"usher.dev/v1alpha1","kind":"ClusterObjectPolicy","metadata":{"name":"p"},"spec":{
		"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["pods"]}]},
		"validations":[{"expression":"object.spec.hostNetwrk == true"}]}}`
	for _, test := range []struct {
		reason  string
		busy    int
		found   string
		skipped string
	}{
		{"there is time", 0, "did you mean spec.hostNetwork?", ""},
		{"there is time later", 1, "did you mean spec.hostNetwork?", ""},
		{"there is no time", 2, "", "everything: that takes longer than 1m0s"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			policy, err := api.Decode([]byte(typo))
			if err != nil {
				t.Fatal(err)
			}
			compiled := []compile.Compiled{compile.Policy(policy)}
			recorded := kind.Recorded()
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				try := trial.New(trial.Options{Kinds: func(ctx context.Context, _ *kind.Set, _ []schema.GroupVersionKind) *kind.Set {
					if calls++; calls <= test.busy {
						<-ctx.Done()
					}
					return recorded
				}})
				problems, skipped, err := check.Try(t.Context(), time.Minute, compiled, try)
				if err != nil {
					t.Fatal(err)
				}
				var found, why string
				for _, p := range problems {
					found += p.String() + "\n"
				}
				for _, s := range skipped {
					why += s.Why
				}
				if !strings.Contains(found, test.found) || test.found == "" && found != "" || why != test.skipped {
					t.Errorf("problems %q, want %q; not tried %q, want %q", found, test.found, why, test.skipped)
				}
			})
		})
	}
}
