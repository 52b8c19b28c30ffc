package trial_test

import (
	"testing"
	"time"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/trial"
)

// TestTheSlowestRuleIsNamed: of a policy that is too slow to be tried it is said which rule is, and where the limits are.
func TestTheSlowestRuleIsNamed(t *testing.T) {
	t.Parallel()
	policy, err := api.Decode([]byte(`{"apiVersion":"usher.dev/v1alpha1","kind":"ClusterObjectPolicy","metadata":{"name":"p"},"spec":{
		"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["configmaps"]}]},
		"validations":[{"expression":"object.metadata.name != 'x'"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	found := trial.New(trial.Options{}).Try(t.Context(), compile.Policy(policy))
	if found.Slowest.Rule != "spec" || found.Slowest.Took <= 0 {
		t.Errorf("the slowest rule is %+v", found.Slowest)
	}
	for _, row := range []struct {
		reason  string
		slowest trial.Slowest
		want    string
	}{
		{"no rule was tried", trial.Slowest{}, "everything: that takes longer than 10s"},
		{
			"a rule is slow", trial.Slowest{Rule: "spec", Took: 640*time.Millisecond + time.Microsecond},
			"everything: that takes longer than 10s; spec took up to 640ms for one request (what it may take: docs/install.md#when-policies-are-slow-costly-or-fail)",
		},
	} {
		if got := (trial.Report{Slowest: row.slowest}).TooSlow(10 * time.Second); got != row.want {
			t.Errorf("%s: %q, want %q", row.reason, got, row.want)
		}
	}
}

// TestLate: a rule is warned of if the time to try its policy was over because of it.
func TestLate(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason string
		cut    bool
		took   time.Duration
		warned bool
	}{
		{"one request took all of it", true, compile.LongestTrial, true},
		{"requests took much of it", true, 150 * time.Millisecond, true},
		{"the machine is busy", true, 50 * time.Millisecond, false},
		{"a slow rule, tried on everything", false, 150 * time.Millisecond, false},
	} {
		report := trial.Report{Cut: row.cut, Slowest: trial.Slowest{Rule: "spec", Took: row.took}}
		if got := report.Late(&compile.Compiled{}); len(got) > 0 != row.warned {
			t.Errorf("%s: %v", row.reason, got)
		}
	}
}
