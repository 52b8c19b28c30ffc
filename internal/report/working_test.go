package report_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/report"
	"github.com/usher-dev/usher/internal/rule"
)

// failure is what a replica has seen of policy a.
func failure(generation, count int64, since time.Time) rule.Failure {
	return rule.Failure{
		UID: "u", Generation: generation, Rule: "spec.overrideRules[0]", Error: "no such field",
		Example: "CREATE Pod shop/cart", Count: count, Since: since, Last: time.Now(),
	}
}

// fail has a replica see failures, or none.
func (c *cluster) fail(r *report.Reporter, identity string, failures ...rule.Failure) {
	c.mu.Lock()
	c.failing[identity] = failures
	c.mu.Unlock()
	r.Failed()
}

// working is the condition Working of policy a, and the last error.
func (c *cluster) working() string {
	c.t.Helper()
	status := c.read("a")
	for _, condition := range status.Conditions {
		if condition.Type == "Working" {
			return fmt.Sprintf("%s %s %d: %s | %s", condition.Status, condition.Reason, condition.ObservedGeneration, condition.Message, status.LastError)
		}
	}
	return "none | " + status.LastError
}

func (c *cluster) wantWorking(what, want string) {
	c.t.Helper()
	if d := cmp.Diff(want, c.working()); d != "" {
		c.t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// events are the events on policies, in lines.
func (c *cluster) events() []string {
	c.t.Helper()
	list, err := c.kube.CoreV1().Events("").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	var lines []string
	for _, e := range list.Items {
		lines = append(lines, fmt.Sprintf("%s/%s %s %s %s %s x%d: %s", e.Namespace, e.Name, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Type, e.Reason, e.Count, e.Message))
	}
	return lines
}

const failsOnce = "spec.overrideRules[0] failed 1 time since 2000-01-01T00:00:01Z, last for CREATE Pod shop/cart: no such field"

// TestWorking: a rule that fails in service is told where authors look, and that it is over, too.
func TestWorking(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.create("a", "u", 1)
		r := c.replica("one")
		r.Observe(good(1))
		time.Sleep(time.Second)
		c.wantWorking("nothing has failed", "none | ")
		since := time.Now()
		c.fail(r, "one", failure(1, 1, since))
		time.Sleep(2 * time.Second)
		c.wantWorking("it fails", "False RuleFails 1: "+failsOnce+" | "+failsOnce)
		if d := cmp.Diff([]string{"default/usher-u ClusterOverridePolicy a Warning RuleFails x1: " + failsOnce}, c.events()); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}
		time.Sleep(70 * time.Second)
		c.fail(r, "one")
		time.Sleep(20 * time.Second)
		recovered := "the rules that failed have worked since, or have not been seen to fail for long"
		c.wantWorking("it works again", "True Recovered 1: "+recovered+" | ")
		if d := cmp.Diff([]string{"default/usher-u ClusterOverridePolicy a Normal Recovered x1: " + recovered}, c.events()); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}
		time.Sleep(70 * time.Second)
		c.fail(r, "one", failure(1, 1, since))
		time.Sleep(2 * time.Second)
		c.wantWorking("it fails again", "False RuleFails 1: "+failsOnce+" | "+failsOnce)
		c.fail(r, "one")
		r.Observe(good(2))
		time.Sleep(5 * time.Second)
		edited := "Unknown Edited 2: an older version has failed; no request has met generation 2, in force since 2000-01-01T00:02:45Z: the next one that it is about shows whether it works | "
		c.wantWorking("it was edited: at once", edited)
		c.fail(r, "one", failure(1, 9, since))
		time.Sleep(70 * time.Second)
		c.wantWorking("the version before still fails somewhere, and nobody asks for this one", edited)
		c.fail(r, "one", failure(2, 1, since))
		time.Sleep(2 * time.Second)
		c.wantWorking("it fails as the one before did: at once", "False RuleFails 2: "+failsOnce+" | "+failsOnce)
		c.fail(r, "one", rule.Failure{UID: "u", Generation: 3})
		r.Observe(good(3))
		time.Sleep(5 * time.Second)
		if got := c.working(); !strings.HasPrefix(got, "Unknown Edited 3") {
			t.Errorf("it was edited again: Working is %s", got)
		}
		c.fail(r, "one", rule.Failure{UID: "u", Generation: 3, Last: time.Now()})
		time.Sleep(2 * time.Second)
		c.wantWorking("a request has met it: at once", "True Recovered 3: requests have met this version, and no rule of it has failed | ")
		c.fail(r, "one", failure(3, 1, since))
		time.Sleep(2 * time.Second)
		c.wantWorking("its first failure: at once", "False RuleFails 3: "+failsOnce+" | "+failsOnce)
	})
}

// TestAdmissionPoliciesFail: their status is the API server's, so that an Event tells.
func TestAdmissionPoliciesFail(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		r := c.replica("one")
		r.Observe(report.Snapshot{Generation: 1, Policies: []rule.State{{
			Policy: usher.PolicyRef{Kind: "ValidatingAdmissionPolicy", Name: "replicas"}, UID: "u", Generation: 1, Compiled: true, Enforced: true, Admission: true,
		}}})
		time.Sleep(time.Second)
		since := time.Now()
		c.fail(r, "one", failure(1, 1, since))
		time.Sleep(2 * time.Second)
		if d := cmp.Diff([]string{"default/usher-u ValidatingAdmissionPolicy replicas Warning RuleFails x1: " + failsOnce}, c.events()); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}
		c.fail(r, "one", failure(1, 2, since))
		time.Sleep(2 * time.Second)
		if n := c.calls()["patch events"]; n != 1 {
			t.Errorf("%d events within a minute, want 1", n)
		}
		time.Sleep(70 * time.Second)
		c.fail(r, "one")
		time.Sleep(2 * time.Second)
		if d := cmp.Diff([]string{"default/usher-u ValidatingAdmissionPolicy replicas Normal Recovered x1: the rules that failed have worked since"}, c.events()); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}
		for _, action := range c.policies.Actions() {
			if strings.Contains(action.GetResource().Resource, "admissionpolicies") {
				t.Errorf("%s of %s: they are the API server's", action.GetVerb(), action.GetResource().Resource)
			}
		}
	})
}

// TestOtherReplicasFail: the one that leads tells what the others see.
func TestOtherReplicasFail(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.create("a", "u", 1)
		one, two := c.replica("one"), c.replica("two")
		one.Observe(good(1))
		two.Observe(good(1))
		time.Sleep(5 * time.Second)
		follower, identity := two, "two"
		if two.Registry().Leads() {
			follower, identity = one, "one"
		}
		c.fail(follower, identity, failure(1, 2, time.Now()), rule.Failure{UID: "gone", Generation: 1, Count: 1})
		time.Sleep(15 * time.Second)
		if got := c.working(); !strings.HasPrefix(got, "False RuleFails 1: spec.overrideRules[0] failed 2 times") {
			t.Errorf("Working is %s, want False", got)
		}
		leader, other := one, "one"
		if two.Registry().Leads() {
			leader, other = two, "two"
		}
		ignored := failure(1, 2, time.Now())
		ignored.Rule, ignored.Ignored = "spec.podTemplates", true
		c.fail(leader, other, ignored)
		time.Sleep(15 * time.Minute)
		if got := c.working(); !strings.HasPrefix(got, "False RuleFails 1: spec.overrideRules[0] failed 4 times") || strings.Contains(got, "Ignore") {
			t.Errorf("Working is %s, want the failure that refuses requests", got)
		}
	})
}

// TestFailuresAtWill: users who write objects can make rules fail as often as they like. What is
// written because of that is bounded, and what else is to be written does not wait.
func TestFailuresAtWill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const policies, minutes = 20, 3
		c := newCluster(t)
		var s report.Snapshot
		for i := range policies {
			name := fmt.Sprint("p", i)
			c.create(name, name, 1)
			s.Policies = append(s.Policies, rule.State{Policy: ref(name), UID: uid(name), Generation: 1, Compiled: true, Enforced: true})
		}
		c.create("a", "u", 1)
		s.Policies = append(s.Policies, good(1).Policies...)
		r := c.replica("one")
		r.Observe(s)
		time.Sleep(30 * time.Second)
		c.clear()
		since := time.Now()
		var n int64
		for range minutes * 60 {
			n++
			var failures []rule.Failure
			// What fails how changes each second, and every other second it works.
			for i := range policies * int(n%2) {
				f := failure(1, n*n, since)
				f.UID, f.Error = uid(fmt.Sprint("p", i)), fmt.Sprint("error ", n)
				failures = append(failures, f)
			}
			c.fail(r, "one", failures...)
			time.Sleep(time.Second)
		}
		if got := c.patches(); got < policies || got > (minutes+1)*policies {
			t.Errorf("%d statuses written in 3 minutes, want at most one a minute for each of %d policies, and at least one", got, policies)
		}
		if got := c.calls()["patch events"]; got == 0 || got > minutes*60+10 {
			t.Errorf("%d events written in 3 minutes, want at most one a second", got)
		}
		if got := c.calls()["patch leases"]; got > minutes*60+10 {
			t.Errorf("%d Leases written in 3 minutes, want at most one a second", got)
		}
		next := report.Snapshot{Policies: append([]rule.State{}, s.Policies[:policies]...)}
		next.Policies = append(next.Policies, good(2).Policies...)
		r.Observe(next)
		time.Sleep(5 * time.Second)
		c.wantEnforced("a", "True Enforced 2")
	})
}

// TestWorkingIsRarelyWritten: the condition is written once a minute at most; for a rule that
// fails all the time when the number of failures has doubled, or every ten minutes.
func TestWorkingIsRarelyWritten(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	state := good(1).Policies[0]
	enforced := report.Term(t.Context(), v1alpha1.PolicyStatus{}, state, begin, 1, func(int) []rule.Failure { return nil })[0]
	failing := report.Term(t.Context(), enforced, state, begin, 1, func(int) []rule.Failure { return []rule.Failure{failure(1, 1, begin)} })[0]
	failing.Conditions[2].LastTransitionTime = metav1.NewTime(begin)
	awaited := *failing.DeepCopy()
	awaited.LastError, awaited.Conditions[2].Status, awaited.Conditions[2].Reason, awaited.Conditions[2].Message = "", metav1.ConditionUnknown, v1alpha1.ReasonEdited, "awaited"
	for _, test := range []struct {
		known    v1alpha1.PolicyStatus
		minutes  int
		failing  func(second int) []rule.Failure
		min, max int
		last     string
		reason   string
	}{
		{enforced, 60, func(int) []rule.Failure { return nil }, 0, 0, "", "nothing fails"},
		{enforced, 60, func(s int) []rule.Failure { return []rule.Failure{failure(1, 1000+int64(s), begin)} }, 6, 8, "False", "it fails all the time"},
		{enforced, 60, func(s int) []rule.Failure { return []rule.Failure{failure(1, int64(s+1), begin)} }, 8, 14, "False", "it fails once a second"},
		{enforced, 10, func(s int) []rule.Failure {
			return []rule.Failure{failure(1, int64(s*s+1), begin)}[:s%2]
		}, 2, 10, "", "it fails and works in turn"},
		{failing, 59, func(int) []rule.Failure { return nil }, 0, 0, "", "no replica knows of the failure since they have restarted"},
		{failing, 61, func(int) []rule.Failure { return nil }, 1, 1, "True", "and nothing has been heard for an hour"},
		{failing, 5, func(s int) []rule.Failure {
			return []rule.Failure{failure(1, 1, begin)}[:1-min(s/100, 1)]
		}, 1, 1, "True", "a new leader sees it fail, and then no more"},
		{failing, 1, func(s int) []rule.Failure { return []rule.Failure{failure(1, int64(s+1), begin)} }, 1, 1, "False", "a new leader sees it fail"},
		{enforced, 5, func(s int) []rule.Failure {
			f := failure(1, 100+int64(s/100), begin)
			f.Ignored = s < 100
			return []rule.Failure{f}
		}, 2, 2, "False", "it is ignored, and then refuses requests"},
		{awaited, 130, func(int) []rule.Failure { return []rule.Failure{{UID: "u", Generation: 1}} }, 0, 0, "", "an edited version that no request meets"},
		{awaited, 59, func(int) []rule.Failure { return nil }, 0, 0, "", "no replica knows whether a request has met it"},
		{awaited, 61, func(int) []rule.Failure { return nil }, 1, 1, "True", "and nothing has been heard for an hour"},
		{awaited, 10, func(s int) []rule.Failure {
			return []rule.Failure{failure(1, int64(s%2*s), begin)}
		}, 3, 12, "", "it fails and works in turn, after an edit"},
	} {
		written := report.Term(t.Context(), test.known, state, begin.Add(time.Second), 60*test.minutes, test.failing)
		if len(written) < test.min || len(written) > test.max {
			t.Errorf("%s: written %d times, want %d to %d", test.reason, len(written), test.min, test.max)
			continue
		}
		if test.last == "" {
			continue
		}
		if got := meta.FindStatusCondition(written[len(written)-1].Conditions, v1alpha1.ConditionWorking); got == nil || string(got.Status) != test.last {
			t.Errorf("%s: the last condition is %v, want %s", test.reason, got, test.last)
		}
	}
}
