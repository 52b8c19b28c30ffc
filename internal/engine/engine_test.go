package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/rule"
)

func TestObjectsThatNoRuleLooksAtAreNotDecoded(t *testing.T) {
	t.Parallel()
	onSecrets := one("a", pass())
	onSecrets.Match.Selectors = []rule.Selector{{APIVersion: "v1", Kind: "Secret"}}
	denied := usher.Decision{Verdict: usher.Deny, Code: 400}
	tests := []struct {
		reason string
		phase  usher.Phase
		rules  []rule.Rule
		change func(*usher.Request)
		want   usher.Decision
	}{
		{"no rules", usher.Validate, nil, nil, usher.Allowed()},
		{"no rule is for the kind", usher.Validate, []rule.Rule{onSecrets}, nil, usher.Allowed()},
		{"the kind is not told", usher.Validate, []rule.Rule{onSecrets}, func(r *usher.Request) { r.Kind.Kind = "" }, denied},
		{"the version is not told", usher.Validate, []rule.Rule{onSecrets}, func(r *usher.Request) { r.Kind.Version = "" }, denied},
		{"a rule is for every kind", usher.Validate, []rule.Rule{one("a", pass())}, nil, denied},
		{"mutate", usher.Mutate, []rule.Rule{one("a", pass())}, nil, denied},
		{
			"changes to what is deleted are of no importance", usher.Mutate, []rule.Rule{one("a", pass())},
			func(r *usher.Request) { r.Operation, r.Object, r.OldObject = usher.Delete, nil, r.Object }, usher.Allowed(),
		},
		{
			"whether to delete is", usher.Validate, []rule.Rule{one("a", pass())},
			func(r *usher.Request) { r.Operation, r.Object, r.OldObject = usher.Delete, nil, r.Object }, denied,
		},
		{
			"an old object", usher.Validate, []rule.Rule{one("a", pass())},
			func(r *usher.Request) {
				r.Operation, r.Object, r.OldObject = usher.Update, usher.TreeObject(podTree()), r.Object
			}, denied,
		},
		{
			"an old object, to change the new one", usher.Mutate, []rule.Rule{one("a", pass())},
			func(r *usher.Request) {
				r.Operation, r.Object, r.OldObject = usher.Update, usher.TreeObject(podTree()), r.Object
			}, denied,
		},
		{
			"an old object when no rule matches", usher.Validate, []rule.Rule{onLabel("no", "such", one("a", pass()))},
			func(r *usher.Request) {
				r.Operation, r.Object, r.OldObject = usher.Update, usher.TreeObject(podTree()), r.Object
			}, usher.Allowed(),
		},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			r := request(tt.phase, usher.Create)
			r.Object = usher.RawObject([]byte(`{"kind":`))
			if tt.change != nil {
				tt.change(r)
			}
			got := decide(t, newEngine(tt.phase, engine.Options{}, nil, tt.rules...), r)
			if tt.want.Verdict == usher.Deny && !strings.Contains(got.Message, "decode object") {
				t.Errorf("message %q does not say what is wrong", got.Message)
			}
			got.Message = ""
			equalDecision(t, tt.want, got)
		})
	}
}

func TestPrograms(t *testing.T) {
	t.Parallel()
	other := podTree()
	other["spec"] = map[string]any{"replicas": int64(1)}
	tests := []struct {
		reason      string
		operation   usher.Operation
		object, old map[string]any
		wantObject  map[string]any
		wantOld     map[string]any
	}{
		{"create", usher.Create, podTree(), nil, podTree(), nil},
		{"update", usher.Update, podTree(), other, podTree(), other},
		{"delete: the object that is about to go", usher.Delete, nil, other, other, nil},
		{"nothing at all", usher.Connect, nil, nil, nil, nil},
	}
	for _, tt := range tests {
		for _, phase := range []usher.Phase{usher.Mutate, usher.Validate} {
			t.Run(string(phase)+"/"+tt.reason, func(t *testing.T) {
				t.Parallel()
				r := &usher.Request{Phase: phase, Operation: tt.operation, Object: usher.TreeObject(tt.object), OldObject: usher.TreeObject(tt.old)}
				var in rule.Input
				spy := program(func(_ context.Context, i *rule.Input) (rule.Outcome, error) {
					in = *i
					return rule.Outcome{}, nil
				})
				decide(t, newEngine(phase, engine.Options{}, nil, one("a", spy)), r)
				if diff := cmp.Diff(tt.wantObject, in.Object); diff != "" {
					t.Errorf("Object: -want +got:\n%s", diff)
				}
				if diff := cmp.Diff(tt.wantOld, in.OldObject); diff != "" {
					t.Errorf("OldObject: -want +got:\n%s", diff)
				}
				if in.Request != r || in.Facts == nil {
					t.Errorf("Request %p is not %p, or there are no Facts: %v", in.Request, r, in.Facts)
				}
			})
		}
	}
}

func TestPanics(t *testing.T) {
	t.Parallel()
	panics := program(func(context.Context, *rule.Input) (rule.Outcome, error) { panic(errBroken) })
	got := decide(t, newEngine(usher.Validate, engine.Options{}, nil, one("a", panics), one("b", deny("no"))), request(usher.Validate, usher.Create))
	if want := "fake: panicked: broken (P a spec.rules[0]); no"; got.Message != want || got.Code != 500 {
		t.Errorf("got %d %q, want 500 %q", got.Code, got.Message, want)
	}
	err := got.Findings[0].Err
	p, ok := errors.AsType[*engine.PanicError](err)
	if !ok || !errors.Is(err, errBroken) {
		t.Fatalf("error %#v is no panic of %v", err, errBroken)
	}
	if !strings.Contains(string(p.Stack), "TestPanics") {
		t.Errorf("the stack does not show where it happened:\n%s", p.Stack)
	}
}

func TestARuleThatOverruns(t *testing.T) {
	t.Parallel()
	tests := []struct {
		reason  string
		program program
		want    string
	}{
		{"it waits for its context", wait, "took too long: overran its time of 2s"},
		{"it polls its context, and has words of its own", func(ctx context.Context, _ *rule.Input) (rule.Outcome, error) {
			for ctx.Err() == nil {
				time.Sleep(time.Second)
			}
			return rule.Outcome{}, errBroken
		}, "took too long: overran its time of 2s: broken"},
		{"it tells the cause", func(ctx context.Context, _ *rule.Input) (rule.Outcome, error) {
			<-ctx.Done()
			return rule.Outcome{}, context.Cause(ctx)
		}, "took too long: overran its time of 2s"},
		{"it hands its context on", func(ctx context.Context, _ *rule.Input) (rule.Outcome, error) {
			below, cancel := context.WithCancel(ctx)
			defer cancel()
			return wait(below, nil)
		}, "took too long: overran its time of 2s"},
		{"an error in time is not an overrun", fail(errBroken), "broken"},
		{"a deadline of its own is not the rule's", fail(context.DeadlineExceeded), "context deadline exceeded"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEngine(usher.Validate, engine.Options{RuleTimeout: 2 * time.Second}, nil, one("slow", tt.program), one("next", deny("no")))
				got := decide(t, e, request(usher.Validate, usher.Create))
				if want := "fake: " + tt.want + " (P slow spec.rules[0]); no"; got.Message != want {
					t.Errorf("message %q, want %q", got.Message, want)
				}
				if _, overran := errors.AsType[*engine.OverrunError](got.Findings[0].Err); overran != strings.Contains(tt.want, "overran") {
					t.Errorf("OverrunError: %t", overran)
				}
			})
		})
	}
}

func TestTheTimeOfARuleIsSharedByItsSteps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		idle := program(func(ctx context.Context, _ *rule.Input) (rule.Outcome, error) {
			time.Sleep(600 * time.Millisecond)
			return rule.Outcome{}, ctx.Err()
		})
		e := newEngine(usher.Validate, engine.Options{}, nil, one("a", idle), one("b", idle, idle))
		got := decide(t, e, request(usher.Validate, usher.Create))
		equalFindings(t, []string{"a passed", "b failed fake: took too long: overran its time of 1s"}, got.Findings)
		// Nobody has waited for the second step.
		time.Sleep(time.Second)
	})
}

func TestProgramsKnowTheirDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct{ request, want time.Duration }{{time.Minute, time.Second}, {time.Millisecond, time.Millisecond}} {
			var left time.Duration
			spy := program(func(ctx context.Context, _ *rule.Input) (rule.Outcome, error) {
				deadline, _ := ctx.Deadline()
				left = time.Until(deadline)
				return rule.Outcome{}, nil
			})
			ctx, cancel := context.WithTimeout(t.Context(), tt.request)
			if _, err := newEngine(usher.Validate, engine.Options{}, nil, one("a", spy)).Decide(ctx, request(usher.Validate, usher.Create)); err != nil {
				t.Errorf("Decide: %v", err)
			}
			cancel()
			if left != tt.want {
				t.Errorf("a request with %v left gave the program %v, want %v", tt.request, left, tt.want)
			}
		}
	})
}

func TestTheContextOfAProgramEndsWithItsRule(t *testing.T) {
	t.Parallel()
	var ctx context.Context
	spy := program(func(c context.Context, _ *rule.Input) (rule.Outcome, error) {
		ctx = c
		c.Done()
		return rule.Outcome{}, c.Err()
	})
	got := decide(t, newEngine(usher.Validate, engine.Options{RuleTimeout: time.Hour}, nil, one("a", spy)), request(usher.Validate, usher.Create))
	equalFindings(t, []string{"a passed"}, got.Findings)
	if !errors.Is(ctx.Err(), context.Canceled) {
		t.Errorf("afterwards Err is %v", ctx.Err())
	}
}

func TestAContextThatIsCancelledLeavesNoDecision(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errBroken)
	for _, phase := range []usher.Phase{usher.Mutate, usher.Validate} {
		t.Run(string(phase), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEngine(phase, engine.Options{FailurePolicy: usher.Ignore}, nil, one("a", pass()), one("slow", wait), one("c", pass()))
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(10*time.Millisecond, cancel)
				d, err := e.Decide(ctx, request(phase, usher.Create))
				if want := "decide request: P slow spec.rules[0]: context canceled"; err == nil || err.Error() != want {
					t.Errorf("error %v, want %s", err, want)
				}
				if diff := cmp.Diff(usher.Decision{}, d); diff != "" {
					t.Errorf("there is a decision: %s", diff)
				}
			})
		})
		t.Run(string(phase)+"/before", func(t *testing.T) {
			t.Parallel()
			_, err := newEngine(phase, engine.Options{}, nil, one("a", pass())).Decide(ended, request(phase, usher.Create))
			if !errors.Is(err, errBroken) {
				t.Errorf("error %v is not the cause, %v", err, errBroken)
			}
		})
	}
}

func TestAContextThatEndsBlocksNoDeletionWhenMutating(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(usher.Mutate, engine.Options{}, nil, one("slow", wait), one("b", label("x", "1")))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		got, err := e.Decide(ctx, request(usher.Mutate, usher.Delete))
		if err != nil {
			t.Fatalf("Decide: %v", err)
		}
		equalDecision(t, usher.Decision{Verdict: usher.Allow, Audit: map[string]string{"failed-by": "P slow spec.rules[0]; P b spec.rules[0]"}}, got)
		over := "took too long: the request's time of 10ms is over"
		equalFindings(t, []string{"slow failed ignored fake: " + over, "b failed ignored " + over + " before the rule was reached"}, got.Findings)
	})
}

func TestOtherPhases(t *testing.T) {
	t.Parallel()
	e := newEngine(usher.Validate, engine.Options{}, nil, one("a", pass()))
	if d := decide(t, e, &usher.Request{Phase: usher.Authorize}); d.Verdict != usher.NoOpinion {
		t.Errorf("a request to authorize got %s", d.Verdict)
	}
	if d, err := e.Decide(t.Context(), &usher.Request{Phase: "bake"}); err == nil {
		t.Errorf("an unknown phase got %+v", d)
	}
}

func TestAuditAnnotationsAreBounded(t *testing.T) {
	t.Parallel()
	var rules []rule.Rule
	for i := range 200 {
		rules = append(rules, one(fmt.Sprintf("policy-%03d", i), deny("no")))
	}
	got := decide(t, newEngine(usher.Validate, engine.Options{}, nil, rules...), request(usher.Validate, usher.Create))
	for key, value := range got.Audit {
		if errs := validation.IsQualifiedName("webhook.example/" + key); errs != nil {
			t.Errorf("key %q: %v", key, errs)
		}
		if len(value) > 1200 || !strings.HasSuffix(value, " more") || !strings.HasPrefix(value, "P policy-000 spec.rules[0]; P policy-001 ") {
			t.Errorf("%s: %d bytes: %s", key, len(value), value)
		}
	}
	if len(got.Audit) != 1 {
		t.Errorf("annotations %v", got.Audit)
	}
}

func TestConcurrentRequests(t *testing.T) {
	t.Parallel()
	e := newEngine(usher.Mutate, engine.Options{}, nil,
		one("a", label("x", "1")), one("b", label("y", "1")), inPass(1, onLabel("x", "1", one("c", label("z", "1")))))
	shared := request(usher.Mutate, usher.Update)
	var done sync.WaitGroup
	for range 8 {
		done.Go(func() {
			for range 50 {
				d, err := e.Decide(t.Context(), shared)
				if err != nil || len(d.Patch) != 4 {
					t.Errorf("got %+v, %v", d, err)
				}
			}
		})
	}
	done.Wait()
}

func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{0, 1, 100} {
		for _, phase := range []usher.Phase{usher.Mutate, usher.Validate} {
			var rules []rule.Rule
			for i := range n {
				rules = append(rules, one(fmt.Sprintf("p%d", i), pass()))
			}
			e := newEngine(phase, engine.Options{}, nil, rules...)
			r := request(phase, usher.Create)
			b.Run(fmt.Sprintf("%s/%d", phase, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := e.Decide(b.Context(), r); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
	e := newEngine(usher.Mutate, engine.Options{}, nil, one("a", label("x", "1")))
	r := request(usher.Mutate, usher.Create)
	b.Run("mutate/changing", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := e.Decide(b.Context(), r); err != nil {
				b.Fatal(err)
			}
		}
	})
}
