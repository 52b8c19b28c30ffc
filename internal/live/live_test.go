package live_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/live"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/source"
)

func TestDecideBeforeTheFirstUpdate(t *testing.T) {
	t.Parallel()
	_, err := live.New(live.Options{}).Decide(t.Context(), createPod())
	if !errors.Is(err, live.ErrNotLoaded) {
		t.Errorf("error is %v, want ErrNotLoaded", err)
	}
}

func TestWithoutSourcesNothingIsEnforced(t *testing.T) {
	t.Parallel()
	h := start(t)
	if s := h.next(); s.Generation != 1 {
		t.Errorf("generation is %d, want 1", s.Generation)
	}
	h.wantPatch(`null`)
}

func TestEveryUpdateIsInForceAtOnce(t *testing.T) {
	t.Parallel()
	a := newScript()
	h := start(t, a)
	for _, step := range []struct {
		reason string
		set    source.Set
		patch  string
		status live.Status
	}{
		{
			reason: "the first policy",
			set:    set(label("a", "x", "1")),
			patch:  `[{"op":"add","path":"/metadata/labels/x","value":"1"}]`,
			status: live.Status{Generation: 1, Policies: map[string]int{"ClusterOverridePolicy": 1}},
		},
		{
			reason: "an edit",
			set:    set(label("a", "x", "2")),
			patch:  `[{"op":"add","path":"/metadata/labels/x","value":"2"}]`,
			status: live.Status{Generation: 2, Policies: map[string]int{"ClusterOverridePolicy": 1}},
		},
		{
			reason: "a broken edit keeps the last good version, and the other policies go on",
			set:    set(broken("a"), label("b", "y", "1")),
			patch:  `[{"op":"add","path":"/metadata/labels/x","value":"2"},{"op":"add","path":"/metadata/labels/y","value":"1"}]`,
			status: live.Status{
				Generation: 3, Policies: map[string]int{"ClusterOverridePolicy": 2},
				OnLastGood: []usher.PolicyRef{{Kind: "ClusterOverridePolicy", Name: "a"}},
			},
		},
		{
			reason: "the last good version also outlives the next broken edit; what never compiled is not enforced",
			set:    set(broken("a", " "), broken("c")),
			patch:  `[{"op":"add","path":"/metadata/labels/x","value":"2"}]`,
			status: live.Status{
				Generation: 4, Policies: map[string]int{"ClusterOverridePolicy": 2},
				OnLastGood:  []usher.PolicyRef{{Kind: "ClusterOverridePolicy", Name: "a"}},
				NotEnforced: []usher.PolicyRef{{Kind: "ClusterOverridePolicy", Name: "c"}},
			},
		},
		{
			reason: "a policy that is gone is gone, also from the last good versions",
			set:    set(),
			patch:  `null`,
			status: live.Status{Generation: 5, Policies: map[string]int{}},
		},
		{
			reason: "and when it comes back broken nothing is left of it",
			set:    set(broken("a")),
			patch:  `null`,
			status: live.Status{
				Generation: 6, Policies: map[string]int{"ClusterOverridePolicy": 1},
				NotEnforced: []usher.PolicyRef{{Kind: "ClusterOverridePolicy", Name: "a"}},
			},
		},
	} {
		a.update(step.set)
		got := h.next()
		h.wantPatch(step.patch)
		got.Since, got.Problems, got.Rules = time.Time{}, nil, 0
		if d := cmp.Diff(step.status, got); d != "" {
			t.Errorf("%s: status (-want +got):\n%s", step.reason, d)
		}
	}
}

func TestProblemsAreStatusAndLoggedOnce(t *testing.T) {
	t.Parallel()
	a := newScript()
	h := start(t, a)
	a.update(set(broken("a")))
	s := h.next()
	if len(rule.Errors(s.Problems)) != 1 {
		t.Fatalf("problems are %v, want one error", s.Problems)
	}
	p := s.Problems[0]
	if p.File != "a.yaml" || p.Line != 7 || p.Field == "" || p.What == "" {
		t.Errorf("problem is %+v, want file, line, field and reason", p)
	}
	record := h.log.find("policy problem")
	for _, key := range []string{"policy", "file", "line", "field", "what"} {
		if record[key] == nil {
			t.Errorf("log record %v has no %s", record, key)
		}
	}

	a.update(set(broken("a"), label("b", "y", "1")))
	h.next()
	if n := h.log.count("policy problem"); n != 1 {
		t.Errorf("the same problem is logged %d times, want once", n)
	}
	a.update(set(label("a", "x", "1"), label("b", "y", "1")))
	if s := h.next(); len(s.Problems) != 0 {
		t.Errorf("problems are %v, want none any more", s.Problems)
	}
	if n := h.log.count("policy problem resolved"); n != 1 {
		t.Errorf("%d records of resolved problems, want 1", n)
	}
}

func TestAnUpdateThatChangesNothingIsSilent(t *testing.T) {
	t.Parallel()
	a := newScript()
	h := start(t, a)
	a.update(set(label("a", "x", "1")))
	h.next()
	a.update(set(label("a", "x", "1")))
	a.update(set(label("a", "x", "2")))
	if s := h.next(); s.Generation != 2 {
		t.Errorf("generation is %d, want 2: the update in between changed nothing", s.Generation)
	}
}

func TestBookkeepingIsNoChange(t *testing.T) {
	t.Parallel()
	object := func(metadata, status string) api.Policy {
		p, err := api.Decode(fmt.Appendf(nil, `{
			"apiVersion": "policy.kcloudlabs.io/v1alpha1", "kind": "ClusterOverridePolicy",
			"metadata": {"name": "a", "uid": "u", %s},
			"spec": {"overrideRules": [{"overriders": {"plaintext": [{"path": "/x", "op": "add", "value": 1}]}}]},
			"status": {%s}
		}`, metadata, status))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first := object(`"generation": 1, "resourceVersion": "1"`, ``)
	for _, test := range []struct {
		reason  string
		policy  api.Policy
		changes bool
	}{
		{"status is what Usher writes itself", object(`"generation": 1, "resourceVersion": "2"`, `"observedGeneration": 1,
			"conditions": [{"type": "Compiled", "status": "True", "reason": "Compiled", "message": "", "lastTransitionTime": null}]`), false},
		{"who manages which field does not matter", object(`"generation": 1, "managedFields": [{"manager": "usher"}]`, ``), false},
		{"annotations do not matter", object(`"generation": 1, "annotations": {"a": "b"}`, ``), false},
		{"a new generation has to be reported on", object(`"generation": 2, "resourceVersion": "2"`, ``), true},
		{"labels may matter", object(`"generation": 1, "labels": {"a": "b"}`, ``), true},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			a := newScript()
			h := start(t, a)
			a.update(set(first))
			h.next()
			a.update(set(test.policy))
			a.update(set(label("z", "x", "1")))
			want := int64(2)
			if test.changes {
				h.next()
				want = 3
			}
			if s := h.next(); s.Generation != want {
				t.Errorf("generation is %d, want %d", s.Generation, want)
			}
		})
	}
}

func TestPolicies(t *testing.T) {
	t.Parallel()
	from := func(p api.Policy, uid types.UID, generation int64) api.Policy {
		p.Object.SetUID(uid)
		p.Object.SetGeneration(generation)
		p.Locate = nil
		return p
	}
	a, b := newScript(), newScript()
	h := start(t, a, b)
	file := label("shadow", "x", "1")
	file.Object.SetUID("exported")
	a.update(set(file))
	b.update(set(from(label("good", "x", "1"), "g", 1), from(label("bad", "x", "1"), "b", 1)))
	h.next()
	b.update(set(from(label("good", "x", "2"), "g", 2), from(broken("bad"), "b", 2),
		from(broken("never"), "n", 3), from(label("shadow", "x", "2"), "s", 4),
		from(policy("slow", `{"cue": "#P: {op: \"add\", ...}\npatches: [#P & {path: \"/x\", value: 1}]"}`), "w", 1)))
	h.next()
	got := map[string]rule.State{}
	for _, p := range h.live.Policies() {
		if len(p.Problems) > 0 {
			p.Problems = []rule.Problem{{Severity: p.Problems[0].Severity}}
		}
		got[p.Policy.Name+"/"+string(p.UID)] = p
	}
	ref := func(name string) usher.PolicyRef { return usher.PolicyRef{Kind: "ClusterOverridePolicy", Name: name} }
	problem := []rule.Problem{{Severity: rule.Error}}
	want := map[string]rule.State{
		"good/g":   {Admission: true, Action: "Mutate", Kinds: "Pod", Policy: ref("good"), UID: "g", Generation: 2, Compiled: true, Enforced: true, EnforcedGeneration: 2},
		"bad/b":    {Admission: true, Action: "Mutate", Kinds: "Pod", Policy: ref("bad"), UID: "b", Generation: 2, Enforced: true, EnforcedGeneration: 1, Problems: problem},
		"never/n":  {Admission: true, Action: "Mutate", Kinds: "Pod", Policy: ref("never"), UID: "n", Generation: 3, Problems: problem},
		"shadow/":  {Admission: true, Action: "Mutate", Kinds: "Pod", Policy: ref("shadow"), Compiled: true, Enforced: true},
		"shadow/s": {Admission: true, Policy: ref("shadow"), UID: "s", Generation: 4, Compiled: true, Problems: problem},
		"slow/w": {
			Admission: true, Action: "Mutate", Kinds: "Pod", Policy: ref("slow"), UID: "w", Generation: 1, Compiled: true, Enforced: true, EnforcedGeneration: 1,
			Slow: "spec.overrideRules[0] cue: it has a definition (1:1)",
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("policies (-want +got):\n%s", d)
	}

	b.update(set(from(label("shadow", "x", "2"), "s", 5)))
	h.next()
	b.update(set(from(label("shadow", "x", "2"), "s", 6)))
	h.next()
	if p := h.live.Policies()[0]; p.Generation != 6 {
		t.Errorf("generation of the policy that is not in force is %d, want 6", p.Generation)
	}
}

func TestAProblemMovesWithItsLine(t *testing.T) {
	t.Parallel()
	a := newScript()
	h := start(t, a)
	policy := broken("a")
	a.update(set(policy))
	h.next()
	moved := policy
	moved.Locate = func(string, int, int) api.Position { return api.Position{File: "a.yaml", Line: 70} }
	a.update(set(moved))
	if s := h.next(); s.Problems[0].Line != 70 {
		t.Errorf("problem is at line %d, want 70", s.Problems[0].Line)
	}
}

func TestUnreadableFilesKeepTheirPolicies(t *testing.T) {
	t.Parallel()
	a := newScript()
	h := start(t, a)
	a.update(set(label("a", "x", "1"), label("b", "y", "1")))
	h.next()

	a.update(source.Set{Unreadable: []source.Unreadable{{
		Position: api.Position{File: "a.yaml", Line: 3}, Err: errors.New("mapping values are not allowed here"),
	}}})
	s := h.next()
	h.wantPatch(`[{"op":"add","path":"/metadata/labels/x","value":"1"}]`)
	if len(s.Problems) != 1 || s.Problems[0].File != "a.yaml" || s.Problems[0].Line != 3 || !strings.Contains(s.Problems[0].Do, "stay in force") {
		t.Errorf("problems are %v, want the unreadable file", s.Problems)
	}

	a.update(source.Set{Unreadable: []source.Unreadable{{Position: api.Position{File: "c.yaml"}, Err: errors.New("no policies before")}}})
	if s := h.next(); len(s.Problems) != 1 || !strings.HasSuffix(s.Problems[0].Do, "what cannot be read is not in force") {
		t.Errorf("problems are %v, want that nothing of the file is in force", s.Problems)
	}

	a.update(set(label("b", "y", "1")))
	h.next()
	h.wantPatch(`[{"op":"add","path":"/metadata/labels/y","value":"1"}]`)
}

func TestSourcesAreMerged(t *testing.T) {
	t.Parallel()
	a, b := newScript(), newScript()
	h := start(t, a, b)
	a.update(set(label("a", "x", "1")))
	if _, err := h.live.Decide(t.Context(), createPod()); !errors.Is(err, live.ErrNotLoaded) {
		t.Errorf("with one of two sources the error is %v, want ErrNotLoaded", err)
	}
	b.update(set(label("a", "x", "2"), label("b", "y", "1")))
	s := h.next()
	h.wantPatch(`[{"op":"add","path":"/metadata/labels/x","value":"1"},{"op":"add","path":"/metadata/labels/y","value":"1"}]`)
	if len(s.Problems) != 1 || !strings.Contains(s.Problems[0].What, "one that counts") {
		t.Errorf("problems are %v, want the policy that both hold", s.Problems)
	}
}

func TestRunEndsWithASourceThatFails(t *testing.T) {
	t.Parallel()
	fails := sourceFunc(func(context.Context, func(source.Set)) error { return errors.New("no such folder") })
	err := live.New(live.Options{}).Run(t.Context(), fails, newScript())
	if err == nil || !strings.Contains(err.Error(), "no such folder") {
		t.Errorf("error is %v, want that of the source", err)
	}
}

// TestMistakesOfStoredPoliciesDisableNothing: only writing such a policy is refused.
func TestMistakesOfStoredPoliciesDisableNothing(t *testing.T) {
	t.Parallel()
	a := newScript()
	h := start(t, a)
	a.update(set(policy("a", `{"cue": "patches: [{op: \"add\", path: \"/metadata/labels/x\", value: \"1\", vlaue: \"2\"}]"}`)))
	status := h.next()
	if len(status.NotEnforced) > 0 || len(status.Problems) != 1 || status.Problems[0].Severity != rule.Mistake {
		t.Errorf("status %+v, want an enforced policy with a mistake", status)
	}
	h.wantPatch(`[{"op":"add","path":"/metadata/labels/x","value":"1"}]`)
}

func TestDecideWhileUpdating(t *testing.T) {
	t.Parallel()
	a := newScript()
	h := start(t, a)
	a.update(set(label("a", "x", "0")))
	h.next()
	var deciding sync.WaitGroup
	for range 4 {
		deciding.Go(func() {
			for range 50 {
				d, err := h.live.Decide(t.Context(), createPod())
				if err != nil || len(d.Patch) != 1 {
					t.Errorf("decision is %+v, %v, want one operation", d, err)
					return
				}
			}
		})
	}
	for i := range 20 {
		a.update(set(label("a", "x", fmt.Sprint(i+1))))
		h.next()
	}
	deciding.Wait()
}

func BenchmarkUpdateOneOfThousand(b *testing.B) {
	policies := make([]api.Policy, 1000)
	for i := range policies {
		policies[i] = label(fmt.Sprintf("p%d", i), "x", "1")
	}
	a := newScript()
	h := start(b, a)
	a.update(set(policies...))
	h.next()
	for i := 0; b.Loop(); i++ {
		policies[0] = label("p0", "x", fmt.Sprint(i, "-"))
		a.update(set(policies...))
		h.next()
	}
}

func BenchmarkDecide(b *testing.B) {
	a := newScript()
	h := start(b, a)
	a.update(set(label("a", "x", "0")))
	h.next()
	r := createPod()
	for b.Loop() {
		if _, err := h.live.Decide(b.Context(), r); err != nil {
			b.Fatal(err)
		}
	}
}
