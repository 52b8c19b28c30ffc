package live_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/live"
	"github.com/usher-dev/usher/source"
)

// namespaced is a policy of a namespace that has been there for so many minutes, with a text of so many
// bytes in it.
func namespaced(namespace, name string, age, bytes int) api.Policy {
	p, err := api.Decode(fmt.Appendf(nil, `{
		"apiVersion": "policy.kcloudlabs.io/v1alpha1", "kind": "OverridePolicy", "metadata": {"name": %q, "namespace": %q, "uid": "u-%[1]s", "generation": 1},
		"spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "Pod"}],
			"overrideRules": [{"overriders": {"plaintext": [{"path": "/metadata/labels/%[1]s", "op": "add", "value": %[3]q}]}}]}
	}`, name, namespace, strings.Repeat("x", bytes)))
	if err != nil {
		panic(err)
	}
	p.Object.SetCreationTimestamp(metav1.NewTime(time.Date(2026, 1, 1, 0, -age, 0, 0, time.UTC)))
	return p
}

func inFile(p api.Policy) api.Policy {
	p.Locate = func(string, int, int) api.Position { return api.Position{File: "a.yaml", Line: 1} }
	return p
}

func TestQuota(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		reason   string
		quota    live.Quota
		policies []api.Policy
		surplus  []string
		problem  string
	}{
		{
			"the oldest stay, in whatever order they come", live.Quota{Policies: 2},
			[]api.Policy{namespaced("shop", "new", 1, 1), namespaced("shop", "old", 9, 1), namespaced("shop", "older", 10, 1)},
			[]string{"OverridePolicy shop/new"}, "namespace shop may have 2 policies of this kind, and older ones come first",
		},
		{
			"of those that are as old, the first names stay", live.Quota{Policies: 1},
			[]api.Policy{namespaced("shop", "b", 1, 1), namespaced("shop", "a", 1, 1)},
			[]string{"OverridePolicy shop/b"}, "",
		},
		{
			"what is too long leaves room for younger ones", live.Quota{Bytes: 1000},
			[]api.Policy{namespaced("shop", "a", 3, 500), namespaced("shop", "b", 2, 5000), namespaced("shop", "c", 1, 10)},
			[]string{"OverridePolicy shop/b"}, "namespace shop may have 1000 bytes of policies of this kind",
		},
		{
			"namespaces do not count for each other", live.Quota{Policies: 1},
			[]api.Policy{namespaced("shop", "a", 1, 1), namespaced("bank", "a", 1, 1)}, nil, "",
		},
		{
			"files are not bounded", live.Quota{Policies: 1},
			[]api.Policy{inFile(namespaced("shop", "a", 1, 1)), inFile(namespaced("shop", "b", 1, 1)), namespaced("shop", "c", 1, 1)}, nil, "",
		},
		{
			"nor are policies of the cluster", live.Quota{Policies: 1},
			[]api.Policy{access("a", "Allow", "true"), access("b", "Allow", "true")}, nil, "",
		},
		{
			"no bound", live.Quota{Policies: -1, Bytes: -1},
			[]api.Policy{namespaced("shop", "a", 1, 1), namespaced("shop", "b", 1, 2_000_000)}, nil, "",
		},
		{
			"the bounds that there are otherwise", live.Quota{},
			[]api.Policy{namespaced("shop", "a", 1, 1), namespaced("shop", "b", 1, 2_000_000)}, []string{"OverridePolicy shop/b"}, "--namespace-policy-bytes",
		},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			a := newScript()
			h := startWith(t, live.Options{Quota: tt.quota}, a)
			a.update(set(tt.policies...))
			status := h.next()
			var surplus []string
			for _, ref := range status.Surplus {
				surplus = append(surplus, ref.String())
			}
			if diff := cmp.Diff(tt.surplus, surplus); diff != "" {
				t.Errorf("surplus (-want +got):\n%s", diff)
			}
			if len(status.Problems) != len(tt.surplus) || len(surplus) > 0 && !strings.Contains(status.Problems[0].String(), tt.problem) {
				t.Errorf("problems %v, want %q", status.Problems, tt.problem)
			}
			count := 0
			for _, n := range status.Policies {
				count += n
			}
			if inForce := status.Rules - builtIn(t); count != len(tt.policies) || inForce != count-len(tt.surplus) {
				t.Errorf("%d policies and %d rules of %d", count, inForce, len(tt.policies))
			}
			for _, state := range h.live.Policies() {
				if state.Surplus && (state.Enforced || len(state.Problems) != 1) {
					t.Errorf("state %+v", state)
				}
			}
		})
	}
}

// builtIn is how many rules there are without policies.
func builtIn(t *testing.T) int {
	h := start(t)
	return h.next().Rules
}

func rawPolicy(t *testing.T, p api.Policy) *usher.Object {
	t.Helper()
	text, err := json.Marshal(p.Object)
	if err != nil {
		t.Fatal(err)
	}
	return usher.RawObject(text)
}

// writePolicy is the request that creates a policy.
func writePolicy(t *testing.T, p api.Policy) *usher.Request {
	t.Helper()
	return &usher.Request{
		Phase: usher.Validate, Operation: usher.Create, Namespace: p.Object.GetNamespace(), Name: p.Object.GetName(),
		Kind: schema.GroupVersionKind{Group: "policy.kcloudlabs.io", Version: "v1alpha1", Kind: "OverridePolicy"}, Object: rawPolicy(t, p),
	}
}

// A policy comes into force when the quota allows it.
func TestSurplusPoliciesMoveUp(t *testing.T) {
	t.Parallel()
	a := newScript()
	h := startWith(t, live.Options{Quota: live.Quota{Policies: 1}}, a)
	old, young := namespaced("shop", "old", 2, 1), namespaced("shop", "young", 1, 1)
	for _, step := range []struct {
		set     source.Set
		surplus int
		patch   string
	}{
		{set(young), 0, `[{"op":"add","path":"/metadata/labels/young","value":"x"}]`},
		{set(young, old), 1, `[{"op":"add","path":"/metadata/labels/old","value":"x"}]`},
		{set(young), 0, `[{"op":"add","path":"/metadata/labels/young","value":"x"}]`},
	} {
		a.update(step.set)
		if got := h.next(); len(got.Surplus) != step.surplus {
			t.Errorf("surplus %v", got.Surplus)
		}
		h.wantPatch(step.patch)
	}
}

// The writer of a policy above the quota gets an error.
func TestQuotaAtAdmission(t *testing.T) {
	t.Parallel()
	a := newScript()
	h := startWith(t, live.Options{Quota: live.Quota{Policies: 2, Bytes: 2000}}, a)
	a.update(set(namespaced("shop", "a", 2, 500), namespaced("shop", "b", 1, 700), namespaced("full", "a", 1, 1), namespaced("full", "b", 1, 1)))
	h.next()
	for _, tt := range []struct {
		reason string
		policy api.Policy
		old    *api.Policy
		want   string
	}{
		{"another one where there are enough", namespaced("full", "c", 0, 1), nil, "OverridePolicy full/c: namespace full may have 2 policies of this kind, and has 2"},
		{"a change where there are enough", namespaced("full", "a", 0, 2), new(namespaced("full", "a", 0, 1)), ""},
		{"the first of a namespace", namespaced("new", "a", 0, 1), nil, ""},
		{"the first one, but too long", namespaced("new", "a", 0, 3000), nil, "namespace new may have 2000 bytes of policies of this kind"},
		{"one that gets too long", namespaced("shop", "a", 0, 1500), new(namespaced("shop", "a", 0, 500)), "(delete or shorten some, or ask an operator of Usher to raise --namespace-policy-bytes)"},
		{"one that gets shorter and is too long", namespaced("shop", "c", 0, 5000), new(namespaced("shop", "c", 0, 6000)), ""},
	} {
		r := writePolicy(t, tt.policy)
		if tt.old != nil {
			r.Operation, r.OldObject = usher.Update, rawPolicy(t, *tt.old)
		}
		d, err := h.live.Decide(t.Context(), r)
		if err != nil || (d.Verdict == usher.Deny) != (tt.want != "") || !strings.Contains(d.Message, tt.want) {
			t.Errorf("%s: %s %q, %v, want %q", tt.reason, d.Verdict, d.Message, err, tt.want)
		}
	}
}

// What was admitted counts before the sources have it, once, and not for long if they never do.
func TestQuotaCountsAdmittedPolicies(t *testing.T) {
	t.Parallel()
	var c clock
	c.set(end)
	a := newScript()
	h := startWith(t, live.Options{Quota: live.Quota{Policies: 2, Bytes: 2000}, Engine: engine.Options{Now: c.now}}, a)
	a.update(set(namespaced("shop", "a", 1, 1)))
	h.next()
	dry := func(r *usher.Request) *usher.Request {
		r.DryRun = true
		return r
	}
	wrong := func(r *usher.Request) *usher.Request {
		raw, err := r.Object.Raw()
		if err != nil {
			t.Fatal(err)
		}
		r.Object = usher.RawObject(bytes.ReplaceAll(raw, []byte(`"op":"add"`), []byte(`"op":"no"`)))
		return r
	}
	for _, step := range []struct {
		reason string
		before func()
		do     *usher.Request
		denied bool
	}{
		{"a dry run does not count", nil, dry(writePolicy(t, namespaced("shop", "dry", 0, 1))), false},
		{"nor does what is refused", nil, wrong(writePolicy(t, namespaced("shop", "wrong", 0, 1))), true},
		{"the second", nil, writePolicy(t, namespaced("shop", "b", 0, 1)), false},
		{"the second again", nil, writePolicy(t, namespaced("shop", "b", 0, 2)), false},
		{"the third, before a source has the second", nil, writePolicy(t, namespaced("shop", "c", 0, 1)), true},
		{"a dry run of it", nil, dry(writePolicy(t, namespaced("shop", "c", 0, 1))), true},
		{"another namespace", nil, writePolicy(t, namespaced("bank", "c", 0, 1)), false},
		{"the second was never stored", func() { c.set(end.Add(time.Minute)) }, writePolicy(t, namespaced("shop", "c", 0, 1)), false},
		{"a source has it, and it is deleted", func() {
			a.update(set(namespaced("shop", "a", 1, 1), namespaced("shop", "c", 0, 1)))
			h.next()
			a.update(set(namespaced("shop", "a", 1, 1)))
			h.next()
		}, writePolicy(t, namespaced("shop", "d", 0, 1)), false},
	} {
		if step.before != nil {
			step.before()
		}
		d, err := h.live.Decide(t.Context(), step.do)
		if err != nil || (d.Verdict == usher.Deny) != step.denied {
			t.Errorf("%s: %s %q, %v", step.reason, d.Verdict, d.Message, err)
		}
	}
}

// What is admitted and never stored, since somebody refuses it after Usher, is not kept for good.
func TestQuotaForgetsWhatIsNeverStored(t *testing.T) {
	t.Parallel()
	var c clock
	c.set(end)
	a := newScript()
	h := startWith(t, live.Options{Engine: engine.Options{Now: c.now}}, a)
	a.update(set())
	h.next()
	for i := range 20 {
		c.set(end.Add(time.Duration(i) * time.Minute))
		d, err := h.live.Decide(t.Context(), writePolicy(t, namespaced("shop", fmt.Sprint("p", i), 0, 1)))
		if err != nil || d.Verdict == usher.Deny {
			t.Fatalf("write %d: %s %q, %v", i, d.Verdict, d.Message, err)
		}
	}
	if n := live.Admitted(h.live); n != 1 {
		t.Errorf("%d are kept, want the last one", n)
	}
}
