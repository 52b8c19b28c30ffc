package store_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/audit/store"
	"github.com/usher-dev/usher/internal/compile"
)

// TestEqualValuesAreKeptOnce: the namespace that had a value first pays for it until nobody has it.
func TestEqualValuesAreKeptOnce(t *testing.T) {
	t.Parallel()
	n := store.NewNotes()
	first, again, other := n.Intern("a", "text"), n.Intern("b", "text"), n.Intern("b", "longer text")
	if first != again || first == other {
		t.Error("equal texts are not the same value, or different ones are")
	}
	used := func(reason string, want map[string]int64) {
		t.Helper()
		if diff := cmp.Diff(want, n.Used()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", reason, diff)
		}
	}
	used("two values", map[string]int64{"a": 4, "b": 11})
	n.Release(first)
	used("b still has the text", map[string]int64{"a": 4, "b": 11})
	n.Release(again)
	used("nobody has the text", map[string]int64{"b": 11})
	n.Release(nil)
	n.Release(other)
	used("nobody has anything", map[string]int64{})
	if diff := cmp.Diff([]string{"text", "longer text"}, n.Disposed); diff != "" {
		t.Errorf("disposed (-want +got):\n%s", diff)
	}
	if n.Intern("c", "text") == first {
		t.Error("a value that was disposed of is returned")
	}
	used("the text is back", map[string]int64{"c": 4})
}

// TestLevels: those who take most lose what they have above the others.
func TestLevels(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason       string
		all          []int64
		excess, want int64
	}{
		{"nobody takes anything", nil, 10, 0},
		{"one takes all", []int64{100}, 30, 70},
		{"the largest one pays", []int64{100, 20, 10}, 30, 70},
		{"it pays until it is as large as the next", []int64{100, 20, 10}, 80, 20},
		{"then both pay", []int64{100, 20, 10}, 90, 15},
		{"all pay alike", []int64{50, 50, 50}, 30, 40},
		{"a rest is paid by all", []int64{50, 50}, 1, 49},
		{"everything is not enough", []int64{50, 50}, 200, 0},
	} {
		if got := store.LevelOf(row.all, row.excess); got != row.want {
			t.Errorf("%s: the level is %d, want %d", row.reason, got, row.want)
		}
	}
}

// TestFullReadsAreRare asks for full reads of a kind that takes a minute to read.
func TestFullReadsAreRare(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r := &store.Reading{}
	due := func(reason string, want bool, wantWait time.Duration) {
		t.Helper()
		if got, wait := r.Due(now); got != want || wait != wantWait {
			t.Errorf("%s: %t, in %s; want %t, in %s", reason, got, wait, want, wantWait)
		}
	}
	due("nobody requests one", false, 0)
	if !r.Request() || r.Request() {
		t.Error("a request is one only if there is none")
	}
	due("the first is due at once", true, 0)
	due("it is asked for once", false, 0)
	r.Begin(now)
	if r.Request() {
		t.Error("it is being read")
	}
	now = now.Add(time.Minute)
	r.End(now)
	due("nobody requests another one", false, 0)
	r.Request()
	due("it waits ten times as long as the last one took", false, 10*time.Minute)
	now = now.Add(10 * time.Minute)
	due("then it is due", true, 0)
}

var configMaps = result.Kind{Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Kind: "ConfigMap", Namespaced: true}

// team requires a label. Its judgements are made by the test.
func team() usher.PolicyRef {
	return usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: "team"}
}

// An audited is a store with a kind that one policy judges, and its queue.
type audited struct {
	*store.Store

	t     *testing.T
	queue *store.Queue
	kind  *store.Kind
}

func newAudited(t *testing.T) *audited {
	t.Helper()
	p, err := api.Decode([]byte(`{"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterObjectPolicy", "metadata": {"name": "team"}, "spec": {
		"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]},
		"validations": [{"expression": "'team' in object.metadata.?labels.orValue({})"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	q := store.NewQueue()
	s := store.New(q, store.Options{Memory: 64 << 20, Results: 100})
	return &audited{s, t, q, s.Kind(configMaps, judge.New(compile.Order([]compile.Compiled{compile.Policy(p)}), judge.Options{}).Plan(configMaps))}
}

// set sets objects of a namespace with a label.
func (x *audited) set(label string, names ...string) {
	x.t.Helper()
	_, selection := x.kind.Source()
	for _, name := range names {
		text := fmt.Sprintf(`{"metadata": {"labels": {%q: "x"}}}`, label)
		if j := x.kind.Set(selection, types.NamespacedName{Namespace: "a", Name: name}, "", []byte(text)); j != nil {
			x.t.Errorf("%s is to be judged at once", name)
		}
	}
}

// begin returns the next job; nil if there is none.
func (x *audited) begin() *store.Job {
	p, ok := x.queue.Next()
	if !ok {
		return nil
	}
	return x.Begin(p)
}

// finish finishes a job with a message.
func (x *audited) finish(j *store.Job, message string, facts ...fact.Ref) {
	x.Finish(j, []judge.Judgement{{
		Policy: j.Plan.Policies()[0], Results: []result.Result{{Policy: j.Plan.Policies()[0], Status: result.Fail, Message: message}}, Facts: facts,
	}})
}

func (x *audited) expect(reason string, backlog int, want ...string) {
	x.t.Helper()
	results, _ := x.Namespace("a")
	var got []string
	for i := range results {
		got = append(got, results[i].Object.Name+": "+results[i].Message)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		x.t.Errorf("%s (-want +got):\n%s", reason, diff)
	}
	if s := x.Kinds()[0]; s.Backlog != backlog || s.Complete != (backlog == 0) {
		x.t.Errorf("%s: %+v, want a backlog of %d", reason, s, backlog)
	}
}

// TestWhatIsJudged follows the objects of a kind; the test is what judges them.
func TestWhatIsJudged(t *testing.T) {
	t.Parallel()
	x := newAudited(t)
	x.kind.Begin()
	x.set("one", "m1", "m2")
	x.set("other", "m3")
	x.kind.End(false)
	x.expect("nothing is judged", 3)
	j := x.begin()
	if object, err := j.Object(); err != nil || object["metadata"].(map[string]any)["labels"].(map[string]any)["one"] != "x" || j.Policies() != nil {
		t.Errorf("%v: %v is judged by %v", err, object, j.Policies())
	}
	x.finish(j, "no")
	x.expect("equal objects are judged once", 1, "m1: no", "m2: no")
	j = x.begin()
	x.set("one", "m3")
	x.finish(j, "late")
	x.expect("an object that changes while it is judged", 0, "m1: no", "m2: no", "m3: no")
	x.set("other", "m3")
	x.expect("results stay until there are others", 1, "m1: no", "m2: no", "m3: no")
	config := &fact.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "a", Name: "limits"}
	x.finish(x.begin(), "never", config)
	x.expect("all is judged", 0, "m1: no", "m2: no", "m3: never")
	x.FactChanged(configMaps.Resource.GroupVersion().WithKind("ConfigMap"), "a", "others")
	if j := x.begin(); j != nil {
		t.Error("a fact that nobody used has objects judged")
	}
	x.FactChanged(configMaps.Resource.GroupVersion().WithKind("ConfigMap"), "a", "limits")
	x.expect("a fact that was used", 1, "m1: no", "m2: no", "m3: never")
	x.finish(x.begin(), "now", config)
	x.expect("it is judged again", 0, "m1: no", "m2: no", "m3: now")
	x.Expire([]usher.PolicyRef{team()})
	x.expect("an exemption has expired", 3, "m1: no", "m2: no", "m3: now")
	j = x.begin()
	x.Finish(j, j.Fail(nil, errors.New("broken")))
	j = x.begin()
	x.finish(j, "again")
	x.expect("one cannot be judged", 0, "m1: broken", "m2: broken", "m3: again")
	if _, wait := x.Due(time.Now(), time.Hour); wait > time.Minute {
		t.Errorf("it is tried again in %s", wait)
	}
	x.Due(time.Now().Add(time.Hour), time.Hour)
	x.expect("it is tried again", 2, "m1: broken", "m2: broken", "m3: again")
	x.Remove(configMaps)
	if s := x.Stats(); x.begin() != nil || s.Used != 0 {
		t.Errorf("the kind is gone: %+v", s)
	}
}

// TestManyResultsAreCountedNowAndThen: who asks often does not keep the audit from judging.
func TestManyResultsAreCountedNowAndThen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newAudited(t)
		judge := func(objects, want int, reason string) {
			t.Helper()
			for range objects {
				x.finish(x.begin(), "no")
			}
			if got := x.Stats().Results.Fail; got != want {
				t.Errorf("%s: %d results, want %d", reason, got, want)
			}
		}
		for i := range 9_999 {
			x.set(fmt.Sprint("label", i), fmt.Sprint("m", i))
		}
		judge(1, 1, "the first one")
		judge(1, 2, "as long as they are few, all count at once")
		x.set("one more", "more")
		judge(1, 3, "they are many")
		judge(1, 3, "they are not counted again")
		time.Sleep(30 * time.Millisecond)
		judge(0, 4, "after some time they are")
	})
}
