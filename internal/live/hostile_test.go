package live_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/lang/worker"
	"github.com/usher-dev/usher/internal/live"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/trial"
	"github.com/usher-dev/usher/internal/trial/isolated"
)

// spin is what is in policies that workers of these tests never end to compile.
const spin = "never ends"

// harm is what the workers of these tests do with policies.
func harm(text []byte, depth compile.Depth) {
	for bytes.Contains(text, []byte(spin)) {
		runtime.Gosched()
	}
	isolated.Try(text, depth)
}

// object is a policy for the pods of a namespace, with a message.
func object(namespace, name, message string) api.Policy {
	p, err := api.Decode(fmt.Appendf(nil, `{
		"apiVersion": "usher.dev/v1alpha1", "kind": "ObjectPolicy", "metadata": {"name": %[1]q, "namespace": %[2]q, "uid": "%[2]s-%[1]s", "generation": 1},
		"spec": {"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]},
			"validations": [{"expression": "!object.metadata.name.startsWith('x')", "message": %[3]q}]}
	}`, name, namespace, message))
	if err != nil {
		panic(err)
	}
	return p
}

// many are a thousand policies of one tenant that never end to compile, and one honest policy of each of
// twenty others.
func many() []api.Policy {
	var all []api.Policy
	for i := range 1000 {
		all = append(all, object("mallory", fmt.Sprint("h", i), fmt.Sprint(spin, i)))
	}
	for i := range 20 {
		all = append(all, object(fmt.Sprint("team", i), "honest", "m"))
	}
	return all
}

// ofTenant returns the states of the policies of a tenant, and of the others.
func ofTenant(l *live.Live, namespace string) (its, others []rule.State) {
	for _, s := range l.Policies() {
		if s.Policy.Namespace == namespace {
			its = append(its, s)
		} else {
			others = append(others, s)
		}
	}
	return its, others
}

// A gate is a checker that stops the policies that never end, without any process, and says that each
// has taken two seconds.
type gate struct {
	mu sync.Mutex
	// checked counts the policies of a namespace.
	checked map[string]int
}

func newGate() *gate { return &gate{checked: map[string]int{}} }

func (g *gate) Check(ctx context.Context, p api.Policy, _ compile.Depth) compile.Checked {
	if ctx.Err() != nil {
		return compile.Checked{Problem: rule.Problem{Pending: true, What: "not yet"}}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.checked[p.Object.GetNamespace()]++
	if o, ok := p.Object.(*usherv1alpha1.ObjectPolicy); ok && strings.Contains(o.Spec.Validations[0].Message, spin) {
		return compile.Checked{Took: 2 * time.Second, Problem: rule.Problem{
			What: "it takes longer than 2s to compile", Stopped: rule.Stopped{Reason: v1alpha1.ReasonCompileTimeout, Spec: "0123"},
		}}
	}
	return compile.Checked{Took: time.Millisecond}
}

func (g *gate) count(namespace string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.checked[namespace]
}

// unlimited is a quota that allows everything.
var unlimited = live.Quota{Policies: -1, Bytes: -1}

// The first update waits for the policies of everybody else, and for a tenant no longer than its budget.
func TestHostilePoliciesDoNotDelayOthers(t *testing.T) {
	t.Parallel()
	a, g := newScript(), newGate()
	h := startWith(t, live.Options{Quota: unlimited, Compile: compile.Options{Checker: g}}, a)
	a.update(set(many()...))
	status := h.next()
	its, others := ofTenant(h.live, "mallory")
	for _, s := range others {
		if !s.Compiled || !s.Enforced {
			t.Errorf("%s: compiled %t, in force %t", s.Policy, s.Compiled, s.Enforced)
		}
	}
	for _, s := range its {
		if s.Enforced || s.Compiled {
			t.Errorf("%s is in force", s.Policy)
		}
	}
	if len(its) != 1000 || len(others) != 20 || len(status.NotEnforced) != 1 || len(status.Pending) != 999 {
		t.Errorf("of %d policies, %d were stopped before the server was ready, and %d are pending", len(its), len(status.NotEnforced), len(status.Pending))
	}
	for len(status.Pending) > 0 {
		status = h.next()
	}
	if n := g.count("mallory"); n != 1000 {
		t.Errorf("%d policies were compiled in the end", n)
	}
}

// A pending policy fails in its own namespace, and one that was stopped is not in force; the last good
// version of it is.
func TestStoppedPoliciesAreAlone(t *testing.T) {
	t.Parallel()
	a := newScript()
	h := startWith(t, live.Options{Compile: compile.Options{Checker: newGate()}}, a)
	good, stays := object("shop", "p", "before"), object("shop", "q", "q")
	a.update(set(good, stays))
	h.next()
	next := object("shop", "p", spin)
	next.Object.SetGeneration(2)
	a.update(set(next, stays))
	status := h.next()
	if len(status.OnLastGood) != 1 || len(status.Problems) != 1 || status.Problems[0].Stopped.Reason != v1alpha1.ReasonCompileTimeout {
		t.Errorf("on last good %v, problems %v", status.OnLastGood, status.Problems)
	}
	d := decidePod(t, h, "shop", "x")
	if d.Verdict != usher.Deny || !strings.Contains(d.Message, "before") || !strings.Contains(d.Message, "q") {
		t.Errorf("%s %q", d.Verdict, d.Message)
	}
	a.update(set(object("shop", "r", spin), stays))
	// No update waits for the namespace now.
	for status = h.next(); len(status.Pending) > 0; {
		status = h.next()
	}
	if len(status.NotEnforced) != 1 {
		t.Errorf("not enforced %v", status.NotEnforced)
	}
	if d := decidePod(t, h, "shop", "y"); d.Verdict != usher.Allow {
		t.Errorf("%s %q", d.Verdict, d.Message)
	}
}

func decidePod(t *testing.T, h *harness, namespace, name string) usher.Decision {
	t.Helper()
	r := createPod()
	r.Phase, r.Namespace, r.Name = usher.Validate, namespace, name
	r.Object = usher.RawObject(fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": %q, "namespace": %q}}`, name, namespace))
	d, err := h.live.Decide(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// While policies of a tenant are compiled, those of others change.
func TestNoLockWhileCompiling(t *testing.T) {
	t.Parallel()
	a, b, g := newScript(), newScript(), newGate()
	checker := &blocking{gate: g, of: "mallory", begun: make(chan struct{}, 1)}
	h := startWith(t, live.Options{Compile: compile.Options{Checker: checker}}, a, b)
	a.update(set(label("a", "x", "1")))
	b.update(set())
	h.next()
	a.update(set(label("a", "x", "1"), object("mallory", "p", "m")))
	<-checker.begun
	b.update(set(label("b", "y", "2")))
	h.next()
	h.wantPatch(`[{"op":"add","path":"/metadata/labels/x","value":"1"},{"op":"add","path":"/metadata/labels/y","value":"2"}]`)
	h.live.Known(nil)
}

// A blocking checker never ends with the policies of one namespace.
type blocking struct {
	*gate
	of    string
	begun chan struct{}
}

func (b *blocking) Check(ctx context.Context, p api.Policy, depth compile.Depth) compile.Checked {
	if p.Object.GetNamespace() == b.of {
		select {
		case b.begun <- struct{}{}:
		default:
		}
		<-ctx.Done()
	}
	return b.gate.Check(ctx, p, depth)
}

// TestReadyBesideHostilePolicies is the same with real processes: all honest policies are in force before the
// hostile ones are compiled. A busy machine may take more than the first update for it.
func TestReadyBesideHostilePolicies(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it waits for policies to be stopped")
	}
	pool := worker.New(worker.Options{Workers: 2})
	t.Cleanup(pool.Close)
	checker := isolated.New(pool, isolated.Options{})
	begin := time.Now()
	a := newScript()
	h := startWith(t, live.Options{Quota: unlimited, Compile: compile.Options{Checker: checker}, Stored: trial.New(trial.Options{})}, a)
	a.update(set(many()...))
	status := h.next()
	t.Logf("ready after %s, %d pending, workers %+v", time.Since(begin), len(status.Pending), pool.Stats())
	for pendingOthers(status, "mallory") {
		status = h.next()
	}
	_, others := ofTenant(h.live, "mallory")
	for _, s := range others {
		if !s.Compiled || !s.Enforced {
			t.Errorf("%s: compiled %t, in force %t: %v", s.Policy, s.Compiled, s.Enforced, s.Problems)
		}
	}
	if len(status.Pending) < 900 {
		t.Errorf("%d policies are pending", len(status.Pending))
	}
	// The first hostile policy has what time is left to it.
	for stopped(h.live, "mallory") != v1alpha1.ReasonCompileTimeout {
		h.next()
	}
}

// pendingOthers reports whether policies are pending that are not of a tenant.
func pendingOthers(status live.Status, tenant string) bool {
	return slices.ContainsFunc(status.Pending, func(ref usher.PolicyRef) bool { return ref.Namespace != tenant })
}

// stopped returns why compiling a policy of a namespace was stopped.
func stopped(l *live.Live, namespace string) string {
	its, _ := ofTenant(l, namespace)
	for _, s := range its {
		if !s.Pending && len(s.Problems) > 0 {
			return s.Problems[0].Stopped.Reason
		}
	}
	return ""
}

// A stopped policy is tried again after a while, and is in force if it compiles then.
func TestStoppedPoliciesAreTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, begin := newScript(), time.Now()
		h := startWith(t, live.Options{Compile: compile.Options{Checker: checkerFunc(func(ctx context.Context) compile.Checked {
			switch {
			case ctx.Err() != nil:
				return compile.Checked{Problem: rule.Problem{Pending: true, What: "not yet"}}
			case time.Since(begin) < compile.Again:
				return compile.Checked{Problem: rule.Problem{What: "it takes too long", Stopped: rule.Stopped{Reason: v1alpha1.ReasonCompileTimeout, Spec: "0123"}}}
			}
			return compile.Checked{}
		})}}, a)
		a.update(set(object("shop", "p", "m")))
		if status := h.next(); len(status.NotEnforced) != 1 || len(status.Pending) != 0 {
			t.Errorf("not enforced %v, pending %v", status.NotEnforced, status.Pending)
		}
		time.Sleep(2 * compile.Again)
		synctest.Wait()
		status := h.live.Status()
		if status.Generation != 2 || len(status.NotEnforced)+len(status.Problems) != 0 {
			t.Errorf("generation %d, not enforced %v, problems %v", status.Generation, status.NotEnforced, status.Problems)
		}
	})
}

type checkerFunc func(context.Context) compile.Checked

func (f checkerFunc) Check(ctx context.Context, _ api.Policy, _ compile.Depth) compile.Checked {
	return f(ctx)
}
