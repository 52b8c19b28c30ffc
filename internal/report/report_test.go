package report_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/internal/printable/printabletest"
	"github.com/usher-dev/usher/internal/report"
	"github.com/usher-dev/usher/internal/rule"
)

func TestStatus(t *testing.T) {
	t.Parallel()
	failure := []rule.Problem{
		{Severity: rule.Warning, What: "odd"},
		{Severity: rule.Error, Field: "spec.x", What: "wrong", Do: "right it"},
		{Severity: rule.Error, What: "worse"},
	}
	for _, test := range []struct {
		reason string
		policy rule.State
		want   []string
	}{
		{
			"it compiles", rule.State{Generation: 2, Compiled: true, Enforced: true},
			[]string{
				"Compiled True Compiled 2: the policy can be enforced as it is written",
				"Enforced True Enforced 2: every replica enforces this version",
			},
		},
		{
			"it is slow", rule.State{Generation: 2, Compiled: true, Enforced: true, Slow: "spec.x cue: it has a definition (3:1), and 2 more"},
			[]string{
				"Compiled True Compiled 2: the policy can be enforced as it is written; it runs on CUE's evaluator, slowly (spec.x cue: it has a definition (3:1), and 2 more)",
				"Enforced True Enforced 2: every replica enforces this version",
			},
		},
		{
			"it compiles, but does something odd", rule.State{Generation: 2, Compiled: true, Enforced: true, Problems: failure[:1]},
			[]string{
				"Compiled True Compiled 2: the policy can be enforced as it is written, with 1 warning: see status.problems",
				"Enforced True Enforced 2: every replica enforces this version",
				"warning odd", "last error warning: odd",
			},
		},
		{
			"it never compiled", rule.State{Generation: 2, Problems: failure},
			[]string{
				"Compiled False DoesNotCompile 2: spec.x: wrong; right it (and 1 more error: see status.problems)",
				"Enforced False DoesNotCompile 2: nothing of this policy is in force: correct what status.problems names",
				"error spec.x wrong right it", "error worse", "warning odd", "last error spec.x: wrong; right it",
			},
		},
		{
			"compiling it was stopped", rule.State{Generation: 2, Problems: []rule.Problem{{
				Severity: rule.Error, What: "it takes longer than 2s to compile", Do: "shorten it", Stopped: rule.Stopped{Reason: "CompileTimeout", Spec: "0123456789abcdef"},
			}}},
			[]string{
				"Compiled False CompileTimeout 2: it takes longer than 2s to compile; shorten it; it is tried again when it changes, or once an hour (spec 0123456789abcdef)",
				"Enforced False DoesNotCompile 2: nothing of this policy is in force: correct what status.problems names",
				"error it takes longer than 2s to compile shorten it", "last error it takes longer than 2s to compile; shorten it",
			},
		},
		{
			"it used to compile", rule.State{Generation: 5, Enforced: true, EnforcedGeneration: 3, Problems: failure[1:2]},
			[]string{
				"Compiled False DoesNotCompile 5: spec.x: wrong; right it",
				"Enforced True LastGoodVersion 3: generation 3 is still in force, because generation 5 does not compile; " +
					"a replica that starts again enforces neither: correct what status.problems names",
				"error spec.x wrong right it", "last error spec.x: wrong; right it",
			},
		},
		{
			"it is not compiled yet", rule.State{Generation: 1, Pending: true, Problems: failure[1:2]},
			[]string{
				"Compiled Unknown Pending 1: it is not compiled yet, and is tried again: spec.x: wrong; right it",
				"Enforced False Pending 1: it fails whenever it is asked until it is compiled, so that the failure policy answers",
				"error spec.x wrong right it", "last error spec.x: wrong; right it",
			},
		},
		{
			"a new version is not compiled yet", rule.State{Generation: 5, Pending: true, Enforced: true, EnforcedGeneration: 3, Problems: failure[1:2]},
			[]string{
				"Compiled Unknown Pending 5: it is not compiled yet, and is tried again: spec.x: wrong; right it",
				"Enforced True LastGoodVersion 3: generation 3 is still in force until generation 5 is compiled",
				"error spec.x wrong right it", "last error spec.x: wrong; right it",
			},
		},
		{
			"it is one too many", rule.State{Generation: 1, Compiled: true, Surplus: true, Problems: failure[2:]},
			[]string{
				"Compiled Unknown TooManyPolicies 1: it was not compiled: worse",
				"Enforced False TooManyPolicies 1: worse",
				"error worse", "last error worse",
			},
		},
		{
			"it is proven", rule.State{Generation: 2, Compiled: true, Enforced: true, NeedsProof: true},
			[]string{
				"Compiled True Compiled 2: the policy can be enforced as it is written",
				"Enforced True Enforced 2: every replica enforces this version",
				"Proven True Proven 2: the user who wrote the policy had the right to",
			},
		},
		{
			"it is from before proofs", rule.State{Generation: 2, Compiled: true, Enforced: true, NeedsProof: true, Unproven: "it is old"},
			[]string{
				"Compiled True Compiled 2: the policy can be enforced as it is written",
				"Enforced True Enforced 2: every replica enforces this version",
				"Proven False Unproven 2: in force nevertheless: it is old",
			},
		},
		{
			"it is not proven", rule.State{Generation: 2, Compiled: true, NeedsProof: true, Unproven: "it has no proof", Problems: failure[2:]},
			[]string{
				"Compiled True Compiled 2: the policy can be enforced as it is written",
				"Enforced False NotEnforced 2: not in force: worse",
				"Proven False Unproven 2: not in force: it has no proof",
				"error worse", "last error worse",
			},
		},
		{
			"a file stands in for it", rule.State{Generation: 2, Compiled: true, Problems: failure[2:]},
			[]string{
				"Compiled True Compiled 2: the policy can be enforced as it is written",
				"Enforced False NotEnforced 2: not in force: worse",
				"error worse", "last error worse",
			},
		},
	} {
		t.Run(test.reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				c.create("a", "u", test.policy.Generation)
				test.policy.Policy, test.policy.UID = ref("a"), "u"
				c.replica("one").Observe(report.Snapshot{Policies: []rule.State{test.policy}})
				time.Sleep(time.Second)
				if d := cmp.Diff(test.want, c.status("a")); d != "" {
					t.Errorf("status (-want +got):\n%s", d)
				}
			})
		})
	}
}

func TestProblemsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.create("a", "u", 1)
		p := rule.State{Policy: ref("a"), UID: "u", Generation: 1}
		for range 100 {
			p.Problems = append(p.Problems, rule.Problem{Severity: rule.Error, What: strings.Repeat("ä", 5000)})
		}
		c.replica("one").Observe(report.Snapshot{Policies: []rule.State{p}})
		time.Sleep(time.Second)
		lines := c.status("a")
		if len(lines) != 23 || lines[21] != "error and 81 more problems correct those above first" {
			t.Fatalf("%d lines: %q", len(lines), lines[len(lines)-2])
		}
		if n := len(strings.Join(lines, "")); n > 30_000 {
			t.Errorf("status has %d bytes", n)
		}
	})
}

// TestTextsOfOthers: what a policy says does not control the terminal of who reads its status.
func TestTextsOfOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.create("a", "u", 1)
		c.replica("one").Observe(report.Snapshot{Policies: []rule.State{{
			Policy: ref("a"), UID: "u", Generation: 1,
			Problems: []rule.Problem{{Severity: rule.Error, Field: "spec", What: printabletest.Hostile, Do: printabletest.Hostile}},
		}}})
		time.Sleep(time.Second)
		lines := strings.Join(c.status("a"), "\n")
		if bad := printabletest.Controls(lines); len(bad) > 0 || !strings.Contains(lines, "yes") {
			t.Errorf("%q has %q", lines, bad)
		}
	})
}

// TestEnforcedMeansEveryLiveReplica follows one policy through the life of three replicas.
func TestEnforcedMeansEveryLiveReplica(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.create("a", "u", 1)
		one, two := c.replica("one"), c.replica("two")
		three, crash := c.mortal("three")
		one.Observe(good(1))
		time.Sleep(time.Second) // It is the leader.
		two.Observe(good(1))
		three.Observe(good(1))
		time.Sleep(5 * time.Second)
		c.wantEnforced("a", "True Enforced 1")

		one.Observe(good(2))
		two.Observe(good(2))
		time.Sleep(2 * time.Second)
		c.wantEnforced("a", "True Enforced 1") // It has not had the time.
		time.Sleep(3 * time.Second)
		c.wantEnforced("a", "False Propagating 2")
		if text := strings.Join(c.status("a"), "\n"); !strings.Contains(text, "generation 2 is not enforced yet by three;") {
			t.Errorf("status does not name the replica:\n%s", text)
		}

		crash()
		time.Sleep(20 * time.Second)
		c.wantEnforced("a", "False Propagating 2")
		time.Sleep(30 * time.Second)
		c.wantEnforced("a", "True Enforced 2") // The dead hold nothing back.

		four := c.replica("four")
		four.Observe(good(1))
		time.Sleep(time.Minute)
		c.wantEnforced("a", "True Enforced 2") // What has been enforced is not taken back.
		four.Observe(good(2))
		time.Sleep(12 * time.Minute)
		if d := cmp.Diff([]string{"usher-leader", "usher-replica-four", "usher-replica-one", "usher-replica-two"}, c.leaseNames()); d != "" {
			t.Errorf("leases (-want +got):\n%s", d)
		}
	})
}

func TestEnforcedMeansThatAPIServersAsk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.create("a", "u", 1)
		one := c.replica("one")
		one.Observe(good(1))
		time.Sleep(time.Second)
		c.wantEnforced("a", "True Enforced 1")
		unregistered := good(1)
		unregistered.Unregistered = "may not patch"
		one.Observe(unregistered)
		time.Sleep(time.Second)
		c.wantEnforced("a", "True Enforced 1") // It was asked for before.
		unregistered = good(2)
		unregistered.Unregistered = "may not patch"
		one.Observe(unregistered)
		time.Sleep(time.Second)
		c.wantEnforced("a", "False NotRegistered 2")
		if text := strings.Join(c.status("a"), "\n"); !strings.Contains(text, "API servers may not ask for it: may not patch") {
			t.Errorf("status does not say why:\n%s", text)
		}
		one.Observe(good(2))
		time.Sleep(time.Second)
		c.wantEnforced("a", "True Enforced 2")
	})
}

// TestEnforcedMeansThatItIsTried: a policy that may match nothing is not said to be enforced before that is known.
func TestEnforcedMeansThatItIsTried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.create("a", "u", 1)
		untried, nothing := good(1), good(1)
		untried.Policies[0].Untried = true
		nothing.Policies[0].MatchesNothing = "nothing is one that it is for"
		one, stop := c.stoppable("one")
		one.Observe(untried)
		time.Sleep(5 * time.Second)
		if c.patches() > 0 {
			t.Error("a status is written before it is known whether the policy matches anything")
		}
		time.Sleep(10 * time.Second)
		c.wantEnforced("a", "Unknown NotTried 1")
		one.Observe(nothing)
		time.Sleep(time.Second)
		c.wantEnforced("a", "False MatchesNothing 1")
		two := c.replica("two")
		two.Observe(untried)
		time.Sleep(time.Second)
		stop()
		time.Sleep(5 * time.Second)
		c.wantEnforced("a", "False MatchesNothing 1") // Also after a restart.
		two.Observe(good(1))
		time.Sleep(time.Second)
		c.wantEnforced("a", "True Enforced 1")
		two.Observe(untried)
		time.Sleep(time.Minute)
		c.wantEnforced("a", "True Enforced 1")
	})
}

// TestEnforcedMeansThatAPIServersCall follows a policy through what is found out about API
// servers.
func TestEnforcedMeansThatAPIServersCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.create("a", "u", 1)
		found := make(chan report.Calls)
		c.verify = func(ctx context.Context, tell func(report.Calls)) {
			for {
				select {
				case <-ctx.Done():
					return
				case calls := <-found:
					tell(calls)
				}
			}
		}
		admission := func(generation int64, compiled bool) report.Snapshot {
			s := good(generation)
			s.Policies[0].Admission = true
			if !compiled {
				s.Policies[0].Compiled, s.Policies[0].EnforcedGeneration = false, generation-1
				s.Policies[0].Problems = []rule.Problem{{Severity: rule.Error, What: "wrong"}}
			}
			return s
		}
		one := c.replica("one")
		one.Observe(admission(1, true))
		time.Sleep(time.Second)
		if got := c.status("a"); len(got) > 0 {
			t.Errorf("status before anything was found out: %q", got)
		}
		expect := func(state report.CallState, want string) {
			t.Helper()
			found <- report.Calls{State: state, Message: "so it is"}
			time.Sleep(time.Second)
			c.wantEnforced("a", want)
			said := strings.Contains(strings.Join(c.status("a"), "\n"), "so it is")
			if said != (state == report.CallsMissing || state == report.CallsUnknown) {
				t.Errorf("status says why: %t: %q", said, c.status("a"))
			}
		}
		expect(report.CallsSeen, "True Enforced 1")
		expect(report.CallsMissing, "False NotCalled 1")
		expect(report.CallsUnknown, "Unknown NotVerified 1")
		expect(report.CallsSeen, "True Enforced 1")

		// What is known counts for the next version, too, at once.
		one.Observe(admission(2, true))
		time.Sleep(600 * time.Millisecond)
		c.wantEnforced("a", "True Enforced 2")

		// The last good version depends on API servers as well.
		one.Observe(admission(3, false))
		time.Sleep(time.Second)
		c.wantEnforced("a", "True LastGoodVersion 2")
		expect(report.CallsMissing, "False NotCalled 2")
		expect(report.CallsSeen, "True LastGoodVersion 2")

		// A policy that is not about admission does not.
		one.Observe(good(4))
		found <- report.Calls{State: report.CallsMissing, Message: "so it is"}
		time.Sleep(time.Second)
		c.wantEnforced("a", "True Enforced 4")
	})
}

func TestLastGoodVersionThatOneReplicaNeverSaw(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.create("a", "u", 2)
		broken := rule.State{Policy: ref("a"), UID: "u", Generation: 2, Problems: []rule.Problem{{Severity: rule.Error, What: "wrong"}}}
		lastGood := broken
		lastGood.Enforced, lastGood.EnforcedGeneration = true, 1
		one := c.replica("one")
		one.Observe(report.Snapshot{Policies: []rule.State{lastGood}})
		time.Sleep(time.Second)
		two := c.replica("two")
		two.Observe(report.Snapshot{Policies: []rule.State{broken}})
		time.Sleep(10 * time.Second)
		c.wantEnforced("a", "True LastGoodVersion 1")
		time.Sleep(time.Minute)
		c.wantEnforced("a", "Unknown ReplicasDiffer 2")
		if text := strings.Join(c.status("a"), "\n"); !strings.Contains(text, "but not in two: correct") {
			t.Errorf("status does not name the replica:\n%s", text)
		}
	})
}

// TestSilence: nothing is written when nothing changes, but the Leases.
func TestSilence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.create("a", "u", 1)
		one, two := c.replica("one"), c.replica("two")
		one.Observe(good(1))
		two.Observe(good(1))
		time.Sleep(10 * time.Second)
		if n := c.patches(); n != 1 {
			t.Errorf("%d status writes, want 1: the one that every replica has confirmed", n)
		}
		c.clear()
		for i := range 60 {
			s := good(1)
			s.Generation = int64(i)
			one.Observe(s)
			time.Sleep(time.Second)
		}
		if n := c.patches(); n != 0 {
			t.Errorf("%d status writes, want none", n)
		}
		calls := c.calls()
		// Two replicas renew their own Lease every 10 s, and the leader its, and the
		// other one looks at it, every 1.5 s and more.
		if n := calls["patch leases"]; n < 10 || n > 14 {
			t.Errorf("%d writes of the replicas' leases in a minute, want 12", n)
		}
		if n := calls["update leases"]; n > 41 {
			t.Errorf("%d writes of the leader's lease in a minute, want 40", n)
		}
		if n := calls["list leases"]; n > 70 {
			t.Errorf("%d lists of leases in a minute, want one a second, as the snapshot changes", n)
		}
	})
}

func TestTransitionTimeIsThatOfTheTransition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.create("a", "u", 1)
		one := c.replica("one")
		one.Observe(good(1))
		time.Sleep(5 * time.Minute)
		first := c.transition("a", "Enforced")
		one.Observe(good(2))
		time.Sleep(5 * time.Minute)
		c.wantEnforced("a", "True Enforced 2")
		if now := c.transition("a", "Enforced"); !now.Equal(first) {
			t.Errorf("transition at %v, want %v: it was True all along", now, first)
		}
		one.Observe(report.Snapshot{Policies: []rule.State{{Policy: ref("a"), UID: "u", Generation: 3}}})
		time.Sleep(time.Minute)
		if now := c.transition("a", "Enforced"); !now.After(first) {
			t.Errorf("transition at %v, want a later one: it is False now", now)
		}
	})
}

func TestWritesAreLimitedAndTheNewestComeFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 3000
		c := newCluster(t)
		s := report.Snapshot{Policies: make([]rule.State, n)}
		for i := range s.Policies {
			name := fmt.Sprint("p", i)
			c.create(name, name, 1)
			s.Policies[i] = rule.State{Policy: ref(name), UID: uid(name), Generation: 1, Compiled: true, Enforced: true}
		}
		one := c.replica("one")
		one.Observe(s)
		time.Sleep(10 * time.Second)
		if got := c.patches(); got < 500 || got > 600 {
			t.Errorf("%d status writes after 10 s, want 50 a second and 100 at once", got)
		}
		edited := report.Snapshot{Policies: append([]rule.State(nil), s.Policies...)}
		edited.Policies[n-1].Generation = 2
		one.Observe(edited)
		time.Sleep(5 * time.Second)
		c.wantEnforced(fmt.Sprint("p", n-1), "True Enforced 2")
		time.Sleep(time.Minute)
		if got := c.patches(); got != n {
			t.Errorf("%d status writes, want %d", got, n)
		}
	})
}
