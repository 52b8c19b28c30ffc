package engine_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

// A brief program is one that nobody has to leave.
type brief struct{ program }

func (brief) Brief() bool { return true }

// A glancer knows at a glance what out is, unless it is nil.
type glancer struct {
	program
	out *rule.Outcome
}

func (g glancer) Glance(context.Context, *rule.Input) (rule.Outcome, bool) {
	if g.out == nil {
		return rule.Outcome{}, false
	}
	return *g.out, true
}

// rules makes rules of programs, the first of policy a.
func rulesOf(programs ...rule.Program) []rule.Rule {
	var rules []rule.Rule
	for i, p := range programs {
		rules = append(rules, rule.Rule{Policy: policy(string(rune('a' + i))), Name: "spec.rules[0]", Steps: []rule.Step{{Name: "fake", Program: p}}})
	}
	return rules
}

// goroutine names the goroutine that calls it.
func goroutine() string {
	stack := make([]byte, 64)
	name, _, _ := strings.Cut(string(stack[:runtime.Stack(stack, false)]), " [")
	return name
}

// TestWhereProgramsRun: brief ones on the goroutine of the caller, all others, and what comes after them, on one that
// can be left.
func TestWhereProgramsRun(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason   string
		phase    usher.Phase
		programs string
		want     string
	}{
		{"brief ones", usher.Validate, "bbb", "here here here"},
		{"brief ones that change the object", usher.Mutate, "bb", "here here"},
		{"another one", usher.Validate, "n", "there"},
		{"another one among brief ones", usher.Validate, "bbnb", "here here there there"},
		{"others with an object that changes", usher.Mutate, "bn", "there there"},
		{"one that knows at a glance", usher.Validate, "gb", "here"},
		{"one that does not", usher.Validate, "bub", "here there there"},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			caller := goroutine()
			var ran []string
			where := program(func(context.Context, *rule.Input) (rule.Outcome, error) {
				at := "there"
				if goroutine() == caller {
					at = "here"
				}
				ran = append(ran, at)
				return rule.Outcome{}, nil
			})
			var programs []rule.Program
			for _, sort := range row.programs {
				programs = append(programs, map[rune]rule.Program{'b': brief{where}, 'n': where, 'g': glancer{where, &rule.Outcome{}}, 'u': glancer{where, nil}}[sort])
			}
			d := decide(t, newEngine(row.phase, guarded(), nil, rulesOf(programs...)...), request(row.phase, usher.Create))
			if diff := cmp.Diff(row.want, strings.Join(ran, " ")); diff != "" {
				t.Errorf("they ran -want +got:\n%s", diff)
			}
			if len(d.Findings) != len(programs) {
				t.Errorf("findings %v", found(d.Findings))
			}
		})
	}
}

// TestQuickFindings are those that rules have which run as all do.
func TestQuickFindings(t *testing.T) {
	t.Parallel()
	skipped := &rule.Outcome{Skipped: "it is for others", Condition: "mine"}
	panics := program(func(context.Context, *rule.Input) (rule.Outcome, error) { panic("oops") })
	rules := rulesOf(brief{pass()}, brief{deny("no")}, brief{fail(errBroken)}, brief{panics}, glancer{deny("never"), skipped}, brief{say(*skipped)}, brief{warn("w")})
	rules = append(rules, builtIn(rulesOf(brief{pass()})[0]))
	d := decide(t, newEngine(usher.Validate, guarded(), nil, rules...), request(usher.Validate, usher.Create))
	equalFindings(t, []string{
		"a passed", "b rejected no", "c failed fake: broken", "d failed fake: panicked: oops", "e skipped it is for others", "f skipped it is for others", "g passed",
	}, d.Findings)
	if got := d.Findings[4].Condition; got != "mine" {
		t.Errorf("condition %q", got)
	}
	if diff := cmp.Diff([]string{"w"}, d.Warnings); diff != "" {
		t.Errorf("warnings -want +got:\n%s", diff)
	}
}

// TestBriefProgramsRunOnce, although a program after them never ends and the request is evaluated again.
func TestBriefProgramsRunOnce(t *testing.T) {
	t.Parallel()
	for _, phase := range []usher.Phase{usher.Validate, usher.Mutate} {
		synctest.Test(t, func(t *testing.T) {
			ran := 0
			counted := program(func(context.Context, *rule.Input) (rule.Outcome, error) { ran++; return rule.Outcome{}, nil })
			rules := rulesOf(brief{counted}, stuck(t), brief{counted})
			rules[1].FailurePolicy = usher.Ignore
			rules[1].Pass, rules[2].Pass = 1, 1
			within(t, 500*time.Millisecond, func(ctx context.Context) {
				d, err := newEngine(phase, guarded(), nil, rules...).Decide(ctx, request(phase, usher.Create))
				if err != nil {
					t.Error(err)
				}
				equalFindings(t, []string{"a passed", "b failed ignored fake: " + overRequest, "c failed " + unreached}, d.Findings)
			})
			if ran != 1 {
				t.Errorf("%s: ran %d times", phase, ran)
			}
		})
	}
}

// TestManyBriefPrograms of a tenant end with the request: there are ten thousand, each of which takes a while.
func TestManyBriefPrograms(t *testing.T) {
	t.Parallel()
	const most = 16
	for _, row := range []struct {
		reason string
		ends   error
	}{{"its time is over", context.DeadlineExceeded}, {"nobody waits", context.Canceled}} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				ran := 0
				slow := brief{func(context.Context, *rule.Input) (rule.Outcome, error) {
					if ran++; ran == 100 && errors.Is(row.ends, context.Canceled) {
						cancel()
					}
					time.Sleep(time.Minute / 100)
					return rule.Outcome{}, nil
				}}
				var rules []rule.Rule
				for range 10_000 {
					rules = append(rules, rulesOf(slow)...)
				}
				d, err := newEngine(usher.Validate, guarded(), nil, rules...).Decide(ctx, request(usher.Validate, usher.Create))
				if denied := d.Verdict == usher.Deny; errors.Is(row.ends, context.Canceled) != errors.Is(err, context.Canceled) || denied == errors.Is(row.ends, context.Canceled) {
					t.Errorf("decided %s, %v", d.Verdict, err)
				}
				if ran > 100+most {
					t.Errorf("%d ran", ran)
				}
			})
		})
	}
}
