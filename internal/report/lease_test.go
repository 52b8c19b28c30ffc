package report_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/report"
	"github.com/usher-dev/usher/internal/rule"
)

// TestTell: of the replicas, those agree that enforce the same as most others where a policy is; one whose Lease says nothing
// does not. A policy fails at those that say so.
func TestTell(t *testing.T) {
	t.Parallel()
	policy := rule.State{Policy: usher.PolicyRef{Kind: "ObjectPolicy", Namespace: "shop", Name: "a"}, UID: "u", Generation: 2, Compiled: true, Enforced: true}
	older := policy
	older.Generation = 1
	lease := func(name, enforced, failing string) (l coordinationv1.Lease) {
		l.Spec.HolderIdentity = &name
		l.Annotations = map[string]string{report.EnforcedAnnotation: enforced, report.FailingAnnotation: failing}
		return l
	}
	newest := report.Enforced([]rule.State{policy})
	var got []string
	for _, told := range report.Tell([]coordinationv1.Lease{
		lease("one", newest, ""), lease("late", report.Enforced([]rule.State{older}), ""), lease("two", newest, `[{"uid":"u","generation":2,"count":3},{"uid":"v","count":9}]`), lease("silent", "?", "?"),
	}, &policy) {
		failures := int64(0)
		if told.Failure != nil {
			failures = told.Failure.Count
		}
		got = append(got, fmt.Sprint(told.Replica, " ", told.Agrees, " ", failures))
	}
	if diff := cmp.Diff([]string{"one true 0", "late false 0", "two true 3", "silent false 0"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
