package condition_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/lang/condition"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/ruletest"
)

func TestBadge(t *testing.T) {
	t.Parallel()
	const unavailable, available = "Cannot delete this pod, cause of hitting maxUnavailable(", "Cannot delete this pod, cause of hitting minAvailable("
	limit := func(text string) *intstr.IntOrString { v := intstr.Parse(text); return &v }
	tests := []struct {
		maximum, minimum *intstr.IntOrString
		target, current  any
		want             string
		reason           string
	}{
		{limit("60%"), nil, int64(10), int64(5), "", "10-6 are needed, 4 remain"},
		{limit("60%"), nil, int64(10), int64(4), unavailable + "0.6)", "10-6 are needed, 3 remain"},
		{limit("33.3%"), nil, int64(3), int64(3), unavailable + "0.333)", "3-0.999 are needed, 2 remain"},
		{limit("100%"), nil, int64(3), int64(1), "", "all may go"},
		{limit("2"), nil, int64(5), int64(4), "", "3 are needed, 3 remain"},
		{limit("2"), nil, int64(5), int64(3), unavailable + "2)", "3 are needed, 2 remain"},
		{nil, limit("40%"), int64(10), int64(5), "", "4 are needed, 4 remain"},
		{nil, limit("40%"), int64(10), int64(4), available + "0.4)", "4 are needed, 3 remain"},
		{nil, limit("3"), int64(5), int64(4), "", "3 are needed, 3 remain"},
		{nil, limit("3"), int64(5), int64(3), unavailable + "3)", "3 are needed, 2 remain; a number is called maxUnavailable, as it always was"},
		{limit("2"), limit("100%"), int64(5), int64(4), "", "maxUnavailable wins"},
		{nil, limit("3"), nil, int64(3), unavailable + "3)", "a number needs no target, if there is one"},
		{limit("2"), nil, "5", int64(3), "error", "a target that is no number"},
		{nil, limit("2"), int64(5), "3", "error", "a count that is no number"},
	}
	for _, test := range tests {
		template := &v1alpha1.ValidateRuleTemplate{Type: v1alpha1.TemplatePodAvailableBadge, PodAvailableBadge: &v1alpha1.PodAvailableBadge{
			MaxUnavailable: test.maximum, MinAvailable: test.minimum,
			ReplicaReference: &v1alpha1.ReplicaResourceRefer{From: v1alpha1.FromCurrentObject, TargetReplicaPath: "/spec/target", CurrentReplicaPath: "/spec/current"},
		}}
		program, problems := condition.Compile(template)
		if program == nil {
			t.Fatal(problems)
		}
		got := run(t, program, &rule.Input{Object: pod("Running", test.target, test.current)})
		if got != test.want {
			t.Errorf("%s: %d of %d: %q, want %q: %s", program, test.current, test.target, got, test.want, test.reason)
		}
	}
}

// run is the message of a rejection, or what came instead.
func run(t testing.TB, program rule.Program, in *rule.Input) string {
	outcome, err := ruletest.Run(t, program, in)
	if err != nil {
		return "error"
	}
	return outcome.Message
}

func pod(phase string, target, current any) map[string]any {
	return map[string]any{"kind": "Pod", "status": map[string]any{"phase": phase}, "spec": map[string]any{"target": target, "current": current}}
}

// TestBadgeIsForRunningPods: what is not one may go, whatever its owner, which is not even
// looked for.
func TestBadgeIsForRunningPods(t *testing.T) {
	t.Parallel()
	template := parse(t, "{type: pab, podAvailableBadge: {minAvailable: 5}}")
	program, problems := condition.Compile(template)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	tests := []struct {
		object map[string]any
		want   string
		reason string
	}{
		{pod("Running", nil, nil), "error", "this one is: it has no owner, and that is an error"},
		{pod("Pending", nil, nil), "", "not running"},
		{map[string]any{"kind": "Pod"}, "", "no status"},
		{map[string]any{"kind": "Node", "status": map[string]any{"phase": "Running"}}, "", "not a pod"},
	}
	for _, test := range tests {
		if got := run(t, program, &rule.Input{Object: test.object}); got != test.want {
			t.Errorf("%v: %q, want %q: %s", test.object, got, test.want, test.reason)
		}
		params, err := condition.Params(template)(&rule.Input{Object: test.object})
		if want := map[string]any{"otherObject": nil}; (err != nil) != (test.want == "error") || err == nil && !cmp.Equal(params, want) {
			t.Errorf("%v: parameters %v, %v, want %v: %s", test.object, params, err, want, test.reason)
		}
	}
}
