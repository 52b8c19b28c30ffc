package isolated_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/lang/cue"
	"github.com/usher-dev/usher/internal/lang/worker"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/trial/isolated"
)

func TestMain(m *testing.M) {
	worker.Main(map[worker.Kind]worker.Handler{worker.CUE: cue.Handler(), worker.Policies: isolated.Handler(behave)})
	os.Exit(m.Run())
}

// kept is what workers of these tests keep.
var kept [][]byte

// behave harms the worker if the policy says so, and compiles it otherwise.
func behave(text []byte, depth compile.Depth) {
	switch {
	case bytes.Contains(text, []byte("spin")), depth == compile.Trying && bytes.Contains(text, []byte("try forever")):
		for {
			runtime.Gosched()
		}
	case bytes.Contains(text, []byte("allocate")):
		for {
			kept = append(kept, bytes.Repeat([]byte("x"), 1<<20))
		}
	case bytes.Contains(text, []byte("exit")):
		os.Exit(0)
	case bytes.Contains(text, []byte("panic")):
		panic("oh no")
	}
	isolated.Try(text, depth)
}

// policy is one that denies with a message, in a namespace or for the cluster.
func policy(namespace, message string) api.Policy {
	kind := "ObjectPolicy"
	if namespace == "" {
		kind = "ClusterObjectPolicy"
	}
	p, err := api.Decode(fmt.Appendf(nil, `{
		"apiVersion": "usher.dev/v1alpha1", "kind": %q, "metadata": {"name": "p", "namespace": %q, "generation": 3},
		"spec": {"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]},
			"validations": [{"expression": "object.metadata.name == 'a'", "message": %q}]}
	}`, kind, namespace, message))
	if err != nil {
		panic(err)
	}
	return p
}

// A bench has a checker whose clock a test sets.
type bench struct {
	t       *testing.T
	pool    *worker.Pool
	checker *isolated.Checker
	now     time.Time
}

// newBench returns a bench whose checker gives up after a while.
func newBench(t *testing.T, timeout time.Duration) *bench {
	t.Helper()
	b := &bench{t: t, pool: worker.New(worker.Options{Workers: 2, Memory: 64 << 20}), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	t.Cleanup(b.pool.Close)
	b.checker = isolated.New(b.pool, isolated.Options{Timeout: timeout, Now: func() time.Time { return b.now }})
	return b
}

// check checks a policy until it is not pending: on a busy machine a worker may not get the processor.
func (b *bench) check(p api.Policy, depth compile.Depth) rule.Problem {
	b.t.Helper()
	for {
		checked := b.checker.Check(b.t.Context(), p, depth)
		if !checked.Problem.Pending {
			return checked.Problem
		}
	}
}

// requests counts the requests to workers so far.
func (b *bench) requests() int {
	s := b.pool.Stats()
	return s.Answered + s.Overran + s.OutOfMemory + s.Crashed
}

func TestPoliciesThatHarm(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		reason string
		policy api.Policy
		depth  compile.Depth
		want   string
		what   string
	}{
		{"an honest one", policy("shop", "honest"), compile.Compiling, "", ""},
		{"an honest one, tried", policy("shop", "honest"), compile.Trying, "", ""},
		{"an honest one of the cluster", policy("", "honest"), compile.Trying, "", ""},
		{"it never ends", policy("shop", "spin"), compile.Compiling, v1alpha1.ReasonCompileTimeout, "it takes longer than 1s to compile"},
		{"one of the cluster that never ends", policy("", "spin"), compile.Compiling, v1alpha1.ReasonCompileTimeout, "it takes longer than 1s to compile"},
		{"it takes all memory", policy("shop", "allocate"), compile.Compiling, v1alpha1.ReasonCompileMemory, "it needs more than 64 MiB to compile"},
		{"it ends the worker", policy("shop", "exit"), compile.Compiling, v1alpha1.ReasonCompileCrash, "the process that was to compile it crashed"},
		{"a panic is found where it is compiled next", policy("shop", "panic"), compile.Compiling, "", ""},
		{"it is the trial that never ends", policy("shop", "try forever"), compile.Trying, v1alpha1.ReasonCompileTimeout, "it takes longer than 1s to compile and try on sample objects"},
		{"that trial is not asked for", policy("shop", "try forever"), compile.Compiling, "", ""},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			timeout := time.Second
			if tt.want == v1alpha1.ReasonCompileMemory {
				// A busy machine allocates slowly.
				timeout = time.Minute
			}
			b := newBench(t, timeout)
			got := b.check(tt.policy, tt.depth)
			if got.Stopped.Reason != tt.want || !strings.HasPrefix(got.What, tt.what) {
				t.Errorf("problem %+v, want %s, %q", got, tt.want, tt.what)
			}
			compiled := compile.Options{Checker: b.checker, Depth: tt.depth}.Policy(t.Context(), tt.policy)
			if harmless := tt.want == ""; (len(compiled.Problems) == 0) != harmless || (len(compiled.Rules) > 0) != harmless || compiled.Stopped() != got.Stopped {
				t.Errorf("%d rules, problems %v", len(compiled.Rules), compiled.Problems)
			}
			before := b.requests()
			if again := b.check(tt.policy, tt.depth); again.Stopped != got.Stopped || b.requests() != before {
				t.Errorf("tried again: %v", again)
			}
		})
	}
}

// What is known about a policy holds until its spec changes, or until an hour has passed.
func TestWhatIsRemembered(t *testing.T) {
	t.Parallel()
	b := newBench(t, time.Second)
	stopped := b.check(policy("shop", "exit"), compile.Compiling)
	for _, tt := range []struct {
		reason string
		policy api.Policy
		depth  compile.Depth
		after  time.Duration
		asked  int
	}{
		{"the same", policy("shop", "exit"), compile.Compiling, 0, 0},
		{"the same spec in another namespace", policy("bank", "exit"), compile.Compiling, 0, 0},
		{"the same spec, to be tried as well", policy("shop", "exit"), compile.Trying, 0, 0},
		{"another kind", policy("", "exit"), compile.Compiling, 0, 1},
		{"another spec", policy("shop", "exit, too"), compile.Compiling, 0, 1},
		{"shortly before an hour is over", policy("shop", "exit"), compile.Compiling, time.Hour - time.Second, 0},
		{"after an hour", policy("shop", "exit"), compile.Compiling, time.Second, 1},
		{"once in an hour", policy("shop", "exit"), compile.Compiling, time.Second, 0},
		{"one that compiles", policy("shop", "honest"), compile.Compiling, 0, 1},
		{"one that compiles, to be tried", policy("shop", "honest"), compile.Trying, 0, 1},
		{"one that was tried", policy("shop", "honest"), compile.Compiling, 24 * time.Hour, 0},
	} {
		before := b.requests()
		b.now = b.now.Add(tt.after)
		b.check(tt.policy, tt.depth)
		if asked := b.requests() - before; asked != tt.asked {
			t.Errorf("%s: %d requests, want %d", tt.reason, asked, tt.asked)
		}
	}
	if n := b.checker.Stopped()["crash"]; n != 4 || stopped.Stopped.Spec == "" {
		t.Errorf("counted %v", b.checker.Stopped())
	}
}

// A replica that starts believes what the leader has written into the status of a policy of a namespace,
// about this spec and this program, for an hour.
func TestStatusIsRemembered(t *testing.T) {
	t.Parallel()
	b := newBench(t, time.Second)
	spec := b.check(policy("shop", "exit"), compile.Compiling).Stopped.Spec
	for _, tt := range []struct {
		reason string
		policy api.Policy
		status metav1.Condition
		want   string
	}{
		{"what was written", policy("shop", "exit"), metav1.Condition{Reason: v1alpha1.ReasonCompileTimeout, ObservedGeneration: 3, Message: "(spec " + spec + ")"}, v1alpha1.ReasonCompileTimeout},
		{"of another generation", policy("shop", "exit"), metav1.Condition{Reason: v1alpha1.ReasonCompileTimeout, ObservedGeneration: 2, Message: spec}, v1alpha1.ReasonCompileCrash},
		{"of another version of the program", policy("shop", "exit"), metav1.Condition{Reason: v1alpha1.ReasonCompileTimeout, ObservedGeneration: 3, Message: "0123456789abcdef"}, v1alpha1.ReasonCompileCrash},
		{"an unknown reason", policy("shop", "exit"), metav1.Condition{Reason: "Compiled", ObservedGeneration: 3, Message: spec}, v1alpha1.ReasonCompileCrash},
		{"a forged one cannot vouch for a policy", policy("shop", "exit"), metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonCompiled, ObservedGeneration: 3, Message: spec}, v1alpha1.ReasonCompileCrash},
	} {
		checker := isolated.New(b.pool, isolated.Options{Now: func() time.Time { return b.now }})
		p := tt.policy.Object.(*usherv1alpha1.ObjectPolicy)
		tt.status.Type = v1alpha1.ConditionCompiled
		p.Status.Conditions = []metav1.Condition{tt.status}
		if got := checker.Check(t.Context(), tt.policy, compile.Compiling).Problem; got.Stopped.Reason != tt.want {
			t.Errorf("%s: %+v, want %s", tt.reason, got, tt.want)
		}
	}
	checker := isolated.New(b.pool, isolated.Options{})
	cluster := policy("", "honest")
	cluster.Object.(*usherv1alpha1.ClusterObjectPolicy).Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionCompiled, Reason: v1alpha1.ReasonCompileTimeout, ObservedGeneration: 3, Message: checked(t, b, "").Spec,
	}}
	if got := checker.Check(t.Context(), cluster, compile.Compiling).Problem; got != (rule.Problem{}) {
		t.Errorf("the status of a cluster policy is believed: %v", got)
	}
}

// checked identifies a policy that was stopped.
func checked(t *testing.T, b *bench, namespace string) rule.Stopped {
	t.Helper()
	return b.check(policy(namespace, "exit"), compile.Compiling).Stopped
}

// A policy that is not compiled in time fails in its own namespace until it is, as its failure policy
// says; one of the cluster is compiled here.
func TestPendingPolicies(t *testing.T) {
	t.Parallel()
	b := newBench(t, time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o := compile.Options{Checker: b.checker}
	for _, tt := range []struct {
		reason, namespace string
		change            func(*usherv1alpha1.ObjectPolicySpec)
		denied            bool
	}{
		{"in its namespace", "shop", func(*usherv1alpha1.ObjectPolicySpec) {}, true},
		{"in another one", "bank", func(*usherv1alpha1.ObjectPolicySpec) {}, false},
		{"with the failure policy Ignore", "shop", func(s *usherv1alpha1.ObjectPolicySpec) { s.FailurePolicy = "Ignore" }, false},
		{"one that mutates", "shop", func(s *usherv1alpha1.ObjectPolicySpec) {
			s.Validations, s.Mutations = nil, []usherv1alpha1.Mutation{{PatchType: "MergePatch"}}
		}, true},
		{"whatever its conditions say, which are not compiled either", "shop", func(s *usherv1alpha1.ObjectPolicySpec) {
			s.MatchConditions = []admissionv1.MatchCondition{{Name: "never", Expression: "false"}}
		}, true},
	} {
		p := policy("shop", "honest")
		tt.change(&p.Object.(*usherv1alpha1.ObjectPolicy).Spec)
		compiled := o.Policy(ctx, p)
		if !compiled.Pending() {
			t.Errorf("%s: problems %v", tt.reason, compiled.Problems)
		}
		decider := engine.New(index.New(compile.Order([]compile.Compiled{compiled})), nil, engine.Options{})
		denied := false
		for _, phase := range []usher.Phase{usher.Mutate, usher.Validate} {
			d, err := decider.Decide(t.Context(), &usher.Request{
				Phase: phase, Operation: usher.Create, Namespace: tt.namespace, Name: "a",
				Kind: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"},
				Object: usher.RawObject(fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": %q}}`, tt.namespace)),
			})
			if err != nil {
				t.Fatal(err)
			}
			if d.Verdict == usher.Deny {
				denied = true
				if !strings.Contains(d.Message, "the policy is not compiled yet") {
					t.Errorf("%s: %s", tt.reason, d.Message)
				}
			}
		}
		if denied != tt.denied {
			t.Errorf("%s: denied %t", tt.reason, denied)
		}
	}
	// Policies of the cluster are compiled here, where the time is over, too.
	if here := o.Policy(ctx, policy("", "honest")); !here.Pending() {
		t.Errorf("%d rules, problems %v", len(here.Rules), here.Problems)
	}
	if n := b.requests(); n > 0 {
		t.Errorf("%d requests", n)
	}
}

// A worker that starts spends what the first policy would otherwise take longer for, on policies that compile.
func TestUsualPolicies(t *testing.T) {
	t.Parallel()
	for text := range bytes.Lines(isolated.Usual) {
		p, err := api.Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		compiled := compile.Options{}.Policy(t.Context(), p)
		if len(compiled.Problems) > 0 || len(compiled.Rules) == 0 {
			t.Errorf("%s: %d rules, %v", text, len(compiled.Rules), compiled.Problems)
		}
	}
}
