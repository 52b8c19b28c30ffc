package report_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	usher "github.com/usher-dev/usher"
	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/report"
	"github.com/usher-dev/usher/internal/rule"
)

var proposed = usherv1alpha1.GroupVersion.WithResource("policycandidates")

// propose stores a candidate of a namespace, and returns its state, and what is counted of it.
func (c *cluster) propose(namespace, name, uid string, seen int64) (rule.State, rule.CandidateState) {
	c.t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": usherv1alpha1.GroupVersion.String(), "kind": "PolicyCandidate",
		"metadata": map[string]any{"name": name, "namespace": namespace, "uid": uid, "generation": int64(1)},
	}}
	if err := c.policies.Tracker().Create(proposed, object, namespace); err != nil {
		c.t.Fatal(err)
	}
	p := state(namespace, name, uid, 1)
	p.Policy.Kind = "PolicyCandidate"
	return p, rule.CandidateState{Ref: p.Policy, UID: p.UID, Generation: 1, Since: time.Now(), Counts: rule.CandidateCounts{Seen: seen, NewlyDenied: seen}}
}

// candidate returns the status of a candidate, and how many bytes it has.
func (c *cluster) candidate(namespace, name string) (read usherv1alpha1.PolicyCandidateStatus, size int) {
	c.t.Helper()
	object, err := c.policies.Tracker().Get(proposed, namespace, name)
	if err != nil {
		c.t.Fatal(err)
	}
	raw, err := json.Marshal(object.(*unstructured.Unstructured).Object["status"])
	if err == nil {
		err = json.Unmarshal(raw, &read)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return read, len(raw)
}

// TestCandidatesInAnUpgrade: a replica of a release that knows no candidates keeps them from being called evaluated. Once
// it has ended they are, and once Usher is uninstalled no longer: their numbers stay.
func TestCandidatesInAnUpgrade(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		p, s := c.propose("shop", "c", "u", 3)
		c.candidates = func() []rule.CandidateState { return []rule.CandidateState{s} }
		c.replica("new").Observe(report.Snapshot{Policies: []rule.State{p}})
		c.candidates = nil
		older, stop := c.stoppable("older")
		older.Observe(report.Snapshot{})
		evaluated := func() string {
			got, _ := c.candidate("shop", "c")
			for _, condition := range got.Conditions {
				if condition.Type == usherv1alpha1.ConditionEvaluated {
					return string(condition.Status) + " " + condition.Reason
				}
			}
			return ""
		}
		time.Sleep(3 * time.Minute)
		if got := evaluated(); strings.HasPrefix(got, "True") {
			t.Errorf("beside an older replica: %s", got)
		}
		stop()
		time.Sleep(3 * time.Minute)
		if got := evaluated(); got != "True Evaluated" {
			t.Errorf("after the older replica has ended: %s", got)
		}
		if n, err := report.Withdraw(t.Context(), c.policies, "Uninstalled", "nobody asks"); n != 1 || err != nil {
			t.Errorf("%d statuses, %v", n, err)
		}
		if got, _ := c.candidate("shop", "c"); evaluated() != "False Uninstalled" || got.Seen != 3 {
			t.Errorf("after Usher was uninstalled: %s, %+v", evaluated(), got)
		}
	})
}

// TestStatusOfCandidates: what a tenant writes fills neither the status of candidates nor the Leases of replicas, and the
// status of another tenant's candidate has its own numbers.
func TestStatusOfCandidates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		long := strings.Repeat("hunter2 ", 2_000)
		var states []rule.State
		var counted []rule.CandidateState
		add := func(p rule.State, s rule.CandidateState) {
			states, counted = append(states, p), append(counted, s)
		}
		add(c.propose("shop", "c", "shop", 3))
		p, s := c.propose("evil", "many", "many", 1<<60)
		for i := range 100 {
			p.Problems = append(p.Problems, rule.Problem{Severity: rule.Warning, Field: long, What: long, Do: long})
			s.Compared = append(s.Compared, rule.Compared{Policy: usher.PolicyRef{Kind: "ObjectPolicy", Namespace: "evil", Name: fmt.Sprintf("%0253d", i)}, UID: "u"})
		}
		add(p, s)
		p, s = c.propose("evil", "idle", "idle", 0)
		s.NotEffective = long
		add(p, s)
		for i := range 300 {
			add(c.propose("evil", fmt.Sprintf("c%d", i), fmt.Sprintf("%036d", i), 1<<60))
		}
		c.candidates = func() []rule.CandidateState { return counted }
		c.replica("one").Observe(report.Snapshot{Policies: states})
		time.Sleep(3 * time.Minute)

		if got, _ := c.candidate("shop", "c"); got.Seen != 3 || got.NewlyDenied != 3 || len(got.Compared) != 0 {
			t.Errorf("shop: %+v", got)
		}
		if got, size := c.candidate("evil", "many"); got.Seen != 1<<60 || len(got.Compared) > 64 || size > 80_000 {
			t.Errorf("many: %d seen, %d compared, %d bytes", got.Seen, len(got.Compared), size)
		}
		got, size := c.candidate("evil", "idle")
		if evaluated := got.Conditions[0]; size > 10_000 || evaluated.Status != metav1.ConditionFalse || !strings.HasPrefix(evaluated.Message, "hunter2") {
			t.Errorf("idle: %d bytes, %+v", size, got.Conditions)
		}
		lease, err := c.kube.CoordinationV1().Leases("usher").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(lease.Items) == 0 {
			t.Fatal(lease, err)
		}
		for i := range lease.Items {
			// API servers take 256 KiB of annotations.
			if n := len(lease.Items[i].Annotations[report.EvaluatedAnnotation]); n > 100<<10 {
				t.Errorf("%s has %d bytes", lease.Items[i].Name, n)
			}
		}
	})
}

// TestCandidatesAreCountedAt: the status says when its numbers were written, which is not when something else was.
func TestCandidatesAreCountedAt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		p, s := c.propose("shop", "c", "u", 3)
		c.candidates = func() []rule.CandidateState { return []rule.CandidateState{s} }
		one := c.replica("one")
		one.Observe(report.Snapshot{Policies: []rule.State{p}})
		time.Sleep(3 * time.Minute)
		first, _ := c.candidate("shop", "c")
		if first.CountedAt == nil || first.CountedAt.Before(first.Since) || time.Since(first.CountedAt.Time) < 2*time.Minute {
			t.Fatalf("3 seen: since %v, at %v, now %v", first.Since, first.CountedAt, time.Now())
		}
		p.Problems = []rule.Problem{{Severity: rule.Warning, What: "harmless"}}
		one.Observe(report.Snapshot{Policies: []rule.State{p}})
		time.Sleep(3 * time.Minute)
		if got, _ := c.candidate("shop", "c"); len(got.Problems) != 1 || !got.CountedAt.Equal(first.CountedAt) {
			t.Errorf("without another request: %d problems, at %v, not %v", len(got.Problems), got.CountedAt, first.CountedAt)
		}
		s.Counts.Seen++
		time.Sleep(3 * time.Minute)
		if got, _ := c.candidate("shop", "c"); got.Seen != 4 || !first.CountedAt.Before(got.CountedAt) {
			t.Errorf("after another request: %d seen at %v, first at %v", got.Seen, got.CountedAt, first.CountedAt)
		}
	})
}

// TestCountsAreNotHidden: a replica that counts one version again from its beginning, since somebody has suspended and
// resumed it, takes nothing from what the status says.
func TestCountsAreNotHidden(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		p, s := c.propose("shop", "c", "u", 3)
		began := s.Since
		c.candidates = func() []rule.CandidateState { return []rule.CandidateState{s} }
		c.replica("one").Observe(report.Snapshot{Policies: []rule.State{p}})
		time.Sleep(3 * time.Minute)
		for n := range int64(3) {
			s.Since, s.Counts = time.Now(), rule.CandidateCounts{Seen: 1}
			time.Sleep(3 * time.Minute)
			if got, _ := c.candidate("shop", "c"); got.Seen != 4+n || got.NewlyDenied != 3 || !got.Since.Time.Equal(began) {
				t.Errorf("%d seen, %d denied since %v, which is %v", got.Seen, got.NewlyDenied, got.Since, began)
			}
		}
	})
}

// TestRestartsAreExplained: the status of a candidate says why counting began again, also after other changes of it.
func TestRestartsAreExplained(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		p, s := c.propose("shop", "c", "u", 3)
		one, exempt := usher.PolicyRef{Kind: "ObjectPolicy", Namespace: "shop", Name: "one"}, usher.PolicyRef{Kind: "PolicyExemption", Namespace: "shop", Name: "x"}
		var counted atomic.Pointer[rule.CandidateState]
		first := s
		counted.Store(&first)
		c.candidates = func() []rule.CandidateState { return []rule.CandidateState{*counted.Load()} }
		r := c.replica("one")
		for _, step := range []struct {
			reason     string
			generation int64
			compared   []rule.Compared
			seen       int64
			want       string
		}{
			{"the first time", 1, []rule.Compared{{Policy: one, Generation: 1}}, 3, ""},
			{"an exemption is written", 1, []rule.Compared{{Policy: one, Generation: 1}, {Policy: exempt, Generation: 1}}, 0, "PolicyExemption shop/x came into force"},
			{"only the numbers change", 1, []rule.Compared{{Policy: one, Generation: 1}, {Policy: exempt, Generation: 1}}, 5, "PolicyExemption shop/x came into force"},
			{"a policy is edited, the exemption deleted", 1, []rule.Compared{{Policy: one, Generation: 2}}, 0, "ObjectPolicy shop/one was changed, PolicyExemption shop/x is no longer in force"},
			{"the candidate is edited", 2, []rule.Compared{{Policy: one, Generation: 3}}, 0, "the candidate was changed"},
		} {
			p.Generation, s.Generation, s.Compared, s.Counts.Seen, s.Since = step.generation, step.generation, step.compared, step.seen, time.Now()
			now := s
			counted.Store(&now)
			r.Observe(report.Snapshot{Policies: []rule.State{p}})
			time.Sleep(5 * time.Minute)
			if got, _ := c.candidate("shop", "c"); got.Restarted != step.want {
				t.Errorf("%s: %q, want %q", step.reason, got.Restarted, step.want)
			}
		}
	})
}
