package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/overrun"
	"github.com/usher-dev/usher/internal/rule"
)

// stuck returns a program that does not return before the end of the test, whatever its context says.
func stuck(t *testing.T) program {
	t.Helper()
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	return func(context.Context, *rule.Input) (rule.Outcome, error) {
		<-end
		return rule.Outcome{}, nil
	}
}

// A milder is a program of a policy that warns.
type milder struct{ program }

func (milder) IfFailed(*rule.Input) (denied, warned bool) { return false, true }

// TestWhatWarnsDoesNotDenyIfItFails: nor does it if it is not reached, and the users are told.
func TestWhatWarnsDoesNotDenyIfItFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		warns := func(name string, p program) rule.Rule {
			r := one(name, p)
			r.Steps[0].Program = milder{p}
			return r
		}
		e := newEngine(usher.Validate, guarded(), nil, warns("a", stuck(t)), warns("b", pass()))
		within(t, 500*time.Millisecond, func(ctx context.Context) {
			d, err := e.Decide(ctx, request(usher.Validate, usher.Create))
			if err != nil || d.Verdict != usher.Allow {
				t.Errorf("decided %s %q, %v", d.Verdict, d.Message, err)
			}
			equalFindings(t, []string{"a failed ignored fake: " + overRequest, "b failed ignored " + unreached}, d.Findings)
			want := []string{"fake: " + overRequest + " (P a spec.rules[0])", unreached + " (P b spec.rules[0])"}
			if diff := cmp.Diff(want, d.Warnings); diff != "" {
				t.Errorf("warnings, -want +got:\n%s", diff)
			}
		})
	})
}

// within fails a test whose decision takes longer than its deadline and what is reserved for the response.
func within(t *testing.T, deadline time.Duration, f func(ctx context.Context)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	began := time.Now()
	f(ctx)
	if took := time.Since(began); took > deadline+100*time.Millisecond {
		t.Errorf("it took %s of %s", took, deadline)
	}
}

const (
	overLimit   = "fake: took too long: overran its time of 1s"
	overRequest = "took too long: the request's time of 500ms is over"
	late        = "took too long: the request's time of 0s is over before the rule was reached"
	unreached   = overRequest + " before the rule was reached"
)

// TestProgramsThatNeverEnd: a decision is made in time, by what the other rules say and by the failure
// policies.
func TestProgramsThatNeverEnd(t *testing.T) {
	t.Parallel()
	ignored := func(r rule.Rule) rule.Rule { r.FailurePolicy = usher.Ignore; return r }
	for _, tt := range []struct {
		reason    string
		phase     usher.Phase
		operation usher.Operation
		deadline  time.Duration
		rules     func(stuck program) []rule.Rule
		verdict   usher.Verdict
		message   string
		findings  []string
		patch     int
	}{
		{
			"the other rules decide as if it had failed", usher.Validate, usher.Create, 10 * time.Second,
			func(p program) []rule.Rule {
				return []rule.Rule{one("a", deny("no")), one("b", p), one("c", deny("nor")), one("d", warn("w"))}
			},
			usher.Deny, "no; " + overLimit + " (P b spec.rules[0]); nor",
			[]string{"a rejected no", "b failed " + overLimit, "c rejected nor", "d passed"}, 0,
		},
		{
			"it is let through if its failure is ignored", usher.Validate, usher.Create, 10 * time.Second,
			func(p program) []rule.Rule {
				return []rule.Rule{one("a", pass()), ignored(one("b", p)), one("c", pass())}
			},
			usher.Allow, "", []string{"a passed", "b failed ignored " + overLimit, "c passed"}, 0,
		},
		{
			"several take the time of each", usher.Validate, usher.Create, 10 * time.Second,
			func(p program) []rule.Rule {
				return []rule.Rule{ignored(one("a", p)), ignored(one("b", p)), one("c", deny("no"))}
			},
			usher.Deny, "no", []string{"a failed ignored " + overLimit, "b failed ignored " + overLimit, "c rejected no"}, 0,
		},
		{
			"the request's time is over", usher.Validate, usher.Create, 500 * time.Millisecond,
			func(p program) []rule.Rule {
				return []rule.Rule{one("a", warn("w")), ignored(one("b", p)), ignored(one("c", deny("no")))}
			},
			usher.Allow, "", []string{"a passed", "b failed ignored fake: " + overRequest, "c failed ignored " + unreached}, 0,
		},
		{
			"rules that were not reached fail, too", usher.Validate, usher.Create, 500 * time.Millisecond,
			func(p program) []rule.Rule { return []rule.Rule{ignored(one("a", p)), one("b", pass())} },
			usher.Deny, unreached + " (P b spec.rules[0])", []string{"a failed ignored fake: " + overRequest, "b failed " + unreached}, 0,
		},
		{
			"changes are dropped on Fail", usher.Mutate, usher.Create, 10 * time.Second,
			func(p program) []rule.Rule {
				return []rule.Rule{one("a", label("x", "1")), one("b", p), one("c", label("y", "1"))}
			},
			usher.Deny, overLimit + " (P b spec.rules[0])", []string{"a changed", "b failed " + overLimit}, 0,
		},
		{
			"changes are kept on Ignore, and those of its own steps dropped", usher.Mutate, usher.Create, 10 * time.Second,
			func(p program) []rule.Rule {
				return []rule.Rule{one("a", label("x", "1")), ignored(one("b", label("z", "1"), p)), one("c", label("y", "1"))}
			},
			usher.Allow, "", []string{"a changed", "b failed ignored " + overLimit, "c changed"}, 3,
		},
		{
			"deletions are not blocked by what has no effect", usher.Mutate, usher.Delete, 500 * time.Millisecond,
			func(p program) []rule.Rule { return []rule.Rule{one("a", p), one("b", pass())} },
			usher.Allow, "", []string{"a failed ignored fake: " + overRequest, "b failed ignored " + unreached}, 0,
		},
		{
			"deletions are denied by what has an effect", usher.Validate, usher.Delete, 10 * time.Second,
			func(p program) []rule.Rule { return []rule.Rule{one("a", p)} },
			usher.Deny, overLimit + " (P a spec.rules[0])", []string{"a failed " + overLimit}, 0,
		},
		{
			"a panic after it", usher.Validate, usher.Create, 10 * time.Second,
			func(p program) []rule.Rule {
				return []rule.Rule{ignored(one("a", p)), ignored(one("b", func(context.Context, *rule.Input) (rule.Outcome, error) { panic("oops") }))}
			},
			usher.Allow, "", []string{"a failed ignored " + overLimit, "b failed ignored fake: panicked: oops"}, 0,
		},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEngine(tt.phase, guarded(), nil, tt.rules(stuck(t))...)
				within(t, tt.deadline, func(ctx context.Context) {
					d, err := e.Decide(ctx, request(tt.phase, tt.operation))
					if err != nil || d.Verdict != tt.verdict || d.Message != tt.message || len(d.Patch) != tt.patch {
						t.Errorf("decided %s %q with %d operations, %v", d.Verdict, d.Message, len(d.Patch), err)
					}
					equalFindings(t, tt.findings, d.Findings)
				})
			})
		})
	}
}

// TestEachWithAProgramThatNeverEnds tells each finding once, and none after the call.
func TestEachWithAProgramThatNeverEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(usher.Validate, guarded(), nil, one("a", pass()), one("b", stuck(t)), one("c", deny("no")))
		var told []usher.Finding
		within(t, 10*time.Second, func(ctx context.Context) {
			if err := e.Each(ctx, request(usher.Validate, usher.Create), func(f *usher.Finding) { told = append(told, *f) }); err != nil {
				t.Error(err)
			}
		})
		equalFindings(t, []string{"a passed", "b failed " + overLimit, "c rejected no"}, told)
	})
}

// TestAnEvaluationThatHasNotBegun when its time is over, as on a machine under load, is nobody else's: what
// it finds is told to nobody, and it shares nothing with the evaluation that decides. The race detector watches.
func TestAnEvaluationThatHasNotBegun(t *testing.T) {
	t.Parallel()
	e := newEngine(usher.Validate, guarded(), nil, one("a", pass()), one("b", deny("no")))
	ctx, cancel := context.WithTimeout(t.Context(), -time.Second)
	defer cancel()
	want := []string{"a failed " + late, "b failed " + late}
	for range 200 {
		var told []usher.Finding
		if err := e.Each(ctx, request(usher.Validate, usher.Create), func(f *usher.Finding) { told = append(told, *f) }); err != nil {
			t.Fatal(err)
		}
		equalFindings(t, want, told)
	}
}

// TestFactsAreAskedForOnce: what a request has learned is not asked for again, since services may change
// something when they are asked.
func TestFactsAreAskedForOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		facts := fact.ResolverFunc(func(context.Context, fact.Ref) (any, error) { asked++; return "no", nil })
		e := newEngine(usher.Validate, guarded(), facts, one("a", ask(configMap("x"))), one("b", stuck(t)), one("c", ask(configMap("x"))))
		d := decide(t, e, request(usher.Validate, usher.Create))
		equalFindings(t, []string{"a rejected no", "b failed " + overLimit, "c rejected no"}, d.Findings)
		if asked != 1 {
			t.Errorf("asked %d times", asked)
		}
	})
}

// TestFactsAreForATenant: who resolves facts knows the namespace of the policy that asks.
func TestFactsAreForATenant(t *testing.T) {
	t.Parallel()
	var tenants []string
	facts := fact.ResolverFunc(func(ctx context.Context, _ fact.Ref) (any, error) {
		tenants = append(tenants, fact.Tenant(ctx))
		return "no", nil
	})
	bound := one("b", ask(configMap("y")))
	bound.Policy.Namespace = "shop"
	decide(t, newEngine(usher.Validate, engine.Options{}, facts, one("a", ask(configMap("x"))), bound), request(usher.Validate, usher.Create))
	if diff := cmp.Diff([]string{"", "shop"}, tenants); diff != "" {
		t.Errorf("asked for (-want +got):\n%s", diff)
	}
}

// TestAResolverThatNeverEnds does not keep a request longer than its time.
func TestAResolverThatNeverEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		defer close(end)
		facts := fact.ResolverFunc(func(context.Context, fact.Ref) (any, error) { <-end; return "late", nil })
		e := newEngine(usher.Validate, guarded(), facts, one("a", pass()), one("b", ask(configMap("x"))), one("c", pass()))
		within(t, 500*time.Millisecond, func(ctx context.Context) {
			d, err := e.Decide(ctx, request(usher.Validate, usher.Create))
			if err != nil {
				t.Error(err)
			}
			equalFindings(t, []string{"a passed", "b failed fake: " + overRequest, "c failed " + unreached}, d.Findings)
		})
	})
}

// TestARequestThatIsCancelled with a program that never ends has an error.
func TestARequestThatIsCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		e := newEngine(usher.Validate, engine.Options{FailurePolicy: usher.Ignore, Overruns: overrun.New(overrun.Options{})}, nil, one("a", stuck(t)))
		if d, err := e.Decide(ctx, request(usher.Validate, usher.Create)); !errors.Is(err, context.Canceled) {
			t.Errorf("decided %+v, %v", d, err)
		}
	})
}

// TestSuspension: who has made a rule go on after its time is not heard for a while, and others are.
func TestSuspension(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		var ran atomic.Int64
		slow := program(func(_ context.Context, in *rule.Input) (rule.Outcome, error) {
			ran.Add(1)
			if in.Request.User.Name == "mallory" {
				<-end
			}
			return rule.Outcome{}, nil
		})
		watch := overrun.New(overrun.Options{})
		e := newEngine(usher.Validate, engine.Options{Overruns: watch}, nil, one("a", slow))
		says := func(user string) string {
			r := request(usher.Validate, usher.Create)
			r.User.Name = user
			return strings.Join(found(decide(t, e, r).Findings), "; ")
		}
		expect := func(reason, user, want string) {
			t.Helper()
			if diff := cmp.Diff(want, says(user)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", reason, diff)
			}
		}
		expect("at first", "mallory", "a failed "+overLimit)
		expect("it still runs", "mallory", "a failed fake: not run: took too long, and has not ended yet")
		time.Sleep(time.Second)
		if late := watch.State().Late; len(late) != 1 || late[0].Policy != policy("a") || late[0].User != "mallory" {
			t.Errorf("late are %+v", late)
		}
		expect("others are heard", "alice", "a passed")
		close(end)
		synctest.Wait()
		suspended := "a failed fake: not run: suspended after 1 evaluations that took too much; tried again in 29s, for objects that mallory in shop writes"
		expect("it has ended, and is suspended", "mallory", suspended)
		time.Sleep(31 * time.Second)
		expect("it is tried again", "mallory", "a passed")
		expect("and goes on", "mallory", "a passed")
		if late := watch.State().Late; len(late) != 0 || ran.Load() != 4 {
			t.Errorf("late are %+v, it ran %d times", late, ran.Load())
		}
	})
}

// A choosy program is for objects with a name of their own only.
type choosy struct {
	program
	name string
}

func (c choosy) Skips(in *rule.Input) (string, error) {
	if in.Request.Name == "broken" {
		return "", errBroken
	}
	if in.Request.Name != c.name {
		return "it is for " + c.name, nil
	}
	return "", nil
}

// TestSuspensionIsForWhatAPolicySelects: objects that a policy is not for have nothing to do with its suspension.
func TestSuspensionIsForWhatAPolicySelects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		watch := overrun.New(overrun.Options{})
		e := newEngine(usher.Validate, engine.Options{Overruns: watch}, nil, rule.Rule{Policy: policy("a"), Name: "spec.rules[0]", Steps: []rule.Step{{Name: "fake", Program: choosy{stuck(t), "cart"}}}})
		for _, row := range []struct{ reason, name, want string }{
			{"it never ends", "cart", "a failed " + overLimit},
			{"another object", "other", "a skipped it is for cart"},
			{"the same object", "cart", "a failed fake: not run: took too long, and has not ended yet"},
			{"nobody can tell", "broken", "a failed fake: broken"},
		} {
			r := request(usher.Validate, usher.Create)
			r.Name = row.name
			if got := strings.Join(found(decide(t, e, r).Findings), "; "); got != row.want {
				t.Errorf("%s: %s, want %s", row.reason, got, row.want)
			}
		}
	})
}

// TestPodsWithRulesThatNeverEnd: a rule that changes pods and never ends leaves the pod as the workload has it, and
// one for the pod fails by itself.
func TestPodsWithRulesThatNeverEnd(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		reason string
		rules  func(stuck program) []rule.Rule
		want   []string
	}{
		{"a rule for the pod", func(p program) []rule.Rule { return []rule.Rule{forPods(one("a", p)), forPods(one("b", deny("no")))} },
			[]string{"a failed " + overLimit, "b rejected no"}},
		{"a rule that changes the pod", func(p program) []rule.Rule {
			return []rule.Rule{changing(one("a", p)), forPods(one("b", deny("no"))), forPods(one("c", pass()))}
		}, []string{"b rejected no", "c passed"}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := engine.New(index.New(tt.rules(stuck(t))), nil, guarded())
				within(t, 10*time.Second, func(ctx context.Context) {
					d, err := e.Decide(ctx, workloadRequest(t, "Deployment", deployment(template)))
					if err != nil {
						t.Error(err)
					}
					equalFindings(t, tt.want, d.Findings)
				})
			})
		})
	}
}

// TestExemptionsThatNeverEnd exempt from nothing, whatever the failure policy of the rule says.
func TestExemptionsThatNeverEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		exempt := func(name string, p program) rule.Exempting {
			x := &rule.Exemption{Ref: usher.PolicyRef{Kind: "ClusterPolicyExemption", Name: name}, Expires: time.Now().Add(time.Hour)}
			x.Applies = []rule.Rule{{Policy: x.Ref, Name: "spec", Steps: []rule.Step{{Program: p}}}}
			return rule.Exempting{Exemption: x}
		}
		a, b := one("a", deny("no")), one("b", deny("nor"))
		a.FailurePolicy, a.Exemptions = usher.Ignore, []rule.Exempting{exempt("x", stuck(t))}
		b.Exemptions = []rule.Exempting{exempt("y", pass())}
		d := decide(t, newEngine(usher.Validate, guarded(), nil, a, b), request(usher.Validate, usher.Create))
		equalFindings(t, []string{"a rejected no", "b exempted nor"}, d.Findings)
	})
}

// TestInspectionsThatNeverEnd change no verdict, and keep nobody from inspecting other objects.
func TestInspectionsThatNeverEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		facts := fact.ResolverFunc(func(context.Context, fact.Ref) (any, error) {
			return &fact.Sampled{Total: 1, Objects: []fact.Item{{Decoded: map[string]any{"metadata": map[string]any{"name": "x"}}}}}, nil
		})
		end := stuck(t)
		var judged atomic.Bool
		judge := program(func(ctx context.Context, in *rule.Input) (rule.Outcome, error) {
			if in.Request.User.Name != "ann" {
				return end(ctx, in)
			}
			judged.Store(true)
			return rule.Outcome{}, nil
		})
		e := newEngine(usher.Validate, guarded(), facts, one("a", inspecting(judge)), one("b", warn("w")))
		for _, user := range []string{"eve", "mallory", "trudy"} {
			r := labelling()
			r.User.Name = user
			d := decide(t, e, r)
			equalFindings(t, []string{"b passed", "a failed ignored the objects that exist were not judged: evaluating the request took too long"}, d.Findings)
		}
		r := labelling()
		r.User.Name = "ann"
		decide(t, e, r)
		if !judged.Load() {
			t.Error("inspections that never end keep others waiting")
		}
	})
}

// guarded are the options of an engine that leaves programs which do not end.
func guarded() engine.Options { return engine.Options{Overruns: overrun.New(overrun.Options{})} }
