package live_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/live"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/trial"
	"github.com/usher-dev/usher/internal/trial/lockout"
)

// TestDefinitionsChange: policies are published again if a definition changes what is found about one of them, and only
// then.
func TestDefinitionsChange(t *testing.T) {
	t.Parallel()
	recorded := kind.Recorded()
	gadgets := func(size string) *kind.Set {
		defined, err := kind.Defined([]map[string]any{{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "gadgets.example.com"},
			"spec": map[string]any{
				"group": "example.com", "scope": "Namespaced", "names": map[string]any{"kind": "Gadget", "plural": "gadgets", "singular": "gadget"},
				"versions": []any{map[string]any{
					"name": "v1", "served": true, "storage": true,
					"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{
						"spec": map[string]any{"type": "object", "properties": map[string]any{"size": map[string]any{"type": size}}},
					}}},
				}},
			},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return recorded.With(defined)
	}
	about, err := api.Decode([]byte(`{
		"apiVersion": "usher.dev/v1alpha1", "kind": "ObjectPolicy", "metadata": {"name": "size", "namespace": "shop", "uid": "a", "generation": 1},
		"spec": {"matchConstraints": {"resourceRules": [{"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["gadgets"]}]},
			"validations": [{"expression": "!has(object.spec) || !has(object.spec.size) || object.spec.size > 0"}]}
	}`))
	if err != nil {
		t.Fatal(err)
	}
	sets := map[string]*kind.Set{"integer": gadgets("integer"), "number": gadgets("number"), "string": gadgets("string")}
	synctest.Test(t, func(t *testing.T) {
		var known atomic.Pointer[kind.Set]
		var asked atomic.Int32
		known.Store(sets["integer"])
		begin := make(chan struct{})
		try := trial.New(trial.Options{Kinds: func(context.Context, *kind.Set, []schema.GroupVersionKind) *kind.Set {
			<-begin
			asked.Add(1)
			return known.Load()
		}})
		a := newScript()
		h := startWith(t, live.Options{Stored: try}, a)
		a.update(set(about))
		h.next()
		if !h.live.Policies()[0].Untried {
			t.Error("it is said to be tried before it is")
		}
		close(begin)
		h.next()
		if h.live.Policies()[0].Untried {
			t.Error("it is said not to be tried when it has been")
		}
		synctest.Wait()
		for _, row := range []struct {
			size              string
			published, warned bool
		}{
			{"integer", false, false},
			{"number", false, false},
			{"string", true, true},
		} {
			before := asked.Load()
			known.Store(sets[row.size])
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			published := false
			select {
			case <-h.updates:
				published = true
			default:
			}
			if warned := len(h.live.Policies()[0].Problems) > 0; published != row.published || warned != row.warned || asked.Load() == before {
				t.Errorf("size is of type %s: published again: %t, warned: %t, the kinds were read %d times", row.size, published, warned, asked.Load()-before)
			}
		}
	})
}

// TestMistakesOfSuspendedPolicies: a mistake that is found only by trying a policy keeps a suspended one from being in
// force again, and its state says so. One that is in force stays so.
func TestMistakesOfSuspendedPolicies(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason, suspend, field string
		compiled               bool
		severity               rule.Severity
	}{
		{"in force", "false", "metdata", true, rule.Mistake},
		{"suspended", "true", "metdata", false, rule.Error},
		{"suspended, without mistakes", "true", "metadata", true, rule.Warning},
	} {
		policy, err := api.Decode(fmt.Appendf(nil, `{
			"apiVersion": "usher.dev/v1alpha1", "kind": "ObjectPolicy", "metadata": {"name": "p", "namespace": "shop", "uid": "a", "generation": 1},
			"spec": {"suspend": %s, "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]},
			"validations": [{"expression": "object.%s.name != 'x'"}]}
		}`, row.suspend, row.field))
		if err != nil {
			t.Fatal(err)
		}
		a := newScript()
		h := startWith(t, live.Options{Stored: trial.New(trial.Options{})}, a)
		a.update(set(policy))
		h.next()
		go func() {
			for {
				select {
				case <-h.updates:
				case <-t.Context().Done():
					return
				}
			}
		}()
		if err := h.live.WaitTried(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := h.live.Policies()[0]
		if len(got.Problems) == 0 || got.Problems[len(got.Problems)-1].Severity != row.severity || got.Compiled != row.compiled {
			t.Errorf("%s: compiled: %t, problems %v", row.reason, got.Compiled, got.Problems)
		}
	}
}

// TestLockoutIsKept: a policy of the cluster that refuses requests without which the cluster cannot recover says so as
// long as it is in force, and not only when it is written; one that is suspended refuses nothing.
func TestLockoutIsKept(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason, kind, namespace, spec string
		warned                        bool
	}{
		{"it denies pods", "ClusterObjectPolicy", "", `"validations": [{"expression": "false"}]`, true},
		{"it warns", "ClusterObjectPolicy", "", `"validationActions": ["Warn"], "validations": [{"expression": "false"}]`, false},
		{"suspended", "ClusterObjectPolicy", "", `"suspend": true, "validations": [{"expression": "false"}]`, false},
		{"with a mistake", "ClusterObjectPolicy", "", `"validations": [{"expression": "object.metdata.name != 'x'"}]`, false},
		{"of a namespace", "ObjectPolicy", "kube-system", `"validations": [{"expression": "false"}]`, false},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			policy, err := api.Decode(fmt.Appendf(nil, `{
				"apiVersion": "usher.dev/v1alpha1", "kind": %q, "metadata": {"name": "p", "namespace": %q, "uid": "a", "generation": 1},
				"spec": {"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]}, %s}
			}`, row.kind, row.namespace, row.spec))
			if err != nil {
				t.Fatal(err)
			}
			a := newScript()
			h := startWith(t, live.Options{Stored: trial.New(trial.Options{}), Lockout: &lockout.Options{}}, a)
			a.update(set(policy))
			h.next()
			go func() {
				for {
					select {
					case <-h.updates:
					case <-t.Context().Done():
						return
					}
				}
			}()
			if err := h.live.WaitTried(t.Context()); err != nil {
				t.Fatal(err)
			}
			warned := false
			for _, p := range h.live.Policies()[0].Problems {
				warned = warned || p.Severity == rule.Warning && lockout.Is(p.What)
			}
			if warned != row.warned {
				t.Errorf("%v", h.live.Policies()[0].Problems)
			}
		})
	}
}

// TestSlowRulesAreTold: a rule on which the time to try its policy is spent is warned of when the policy is written, and in its
// state, with the same words.
func TestSlowRulesAreTold(t *testing.T) {
	version := func(generation int) api.Policy {
		policy, err := api.Decode(fmt.Appendf(nil, `{
			"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterObjectPolicy", "metadata": {"name": "p", "uid": "a", "generation": %d},
			"spec": {"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]},
			"validations": [{"expression": "lists.range(1000).all(a, lists.range(1000).all(b, object.metadata.name != string(a * b)))"}]}
		}`, generation))
		if err != nil {
			t.Fatal(err)
		}
		return policy
	}
	try := trial.New(trial.Options{})
	a := newScript()
	h := startWith(t, live.Options{Stored: try}, a)
	go func() {
		for {
			select {
			case <-h.updates:
			case <-t.Context().Done():
				return
			}
		}
	}()
	// That it costs too much on what it was tried on is said of where that is.
	ofAll := func(all []rule.Problem) []rule.Problem {
		return slices.DeleteFunc(slices.Clone(all), func(p rule.Problem) bool { return p.Field != "spec" })
	}
	var written, stored []rule.Problem
	// While the machine is busy, there may be no time to try it at all.
	for generation := 1; generation <= 10 && (len(written) == 0 || len(stored) == 0); generation++ {
		policy := version(generation)
		func() {
			ctx, cancel := context.WithTimeout(t.Context(), compile.LongestTrial)
			defer cancel()
			written = ofAll(lockout.With(try.Problems, lockout.Options{})(ctx, compile.Policy(policy)))
		}()
		a.update(set(policy))
		if err := h.live.WaitTried(t.Context()); err != nil {
			t.Fatal(err)
		}
		stored = ofAll(h.live.Policies()[0].Problems)
	}
	if len(written) != 1 || written[0].Severity != rule.Warning || written[0].Field != "spec" || written[0].Policy.Name != "p" {
		t.Errorf("when it is written: %v", written)
	}
	if diff := cmp.Diff(written, stored); diff != "" {
		t.Errorf("when it is stored (-written +stored):\n%s", diff)
	}
}
