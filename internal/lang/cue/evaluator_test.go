package cue_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/lang/cue"
	"github.com/usher-dev/usher/internal/lang/worker"
	"github.com/usher-dev/usher/internal/rule"
)

// takes returns a place where each evaluation takes as long as took holds when it begins.
func takes(took *time.Duration) func(context.Context, time.Duration) (time.Duration, error) {
	return func(ctx context.Context, limit time.Duration) (time.Duration, error) {
		begin := time.Now()
		timer := time.NewTimer(min(*took, limit))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return time.Since(begin), ctx.Err()
		}
		if *took > limit {
			return limit, cue.ErrOverrun
		}
		return max(*took, 1), nil
	}
}

func TestSuspension(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var took time.Duration
		p := cue.Idle(cue.Fake(cue.Limits{Timeout: time.Second, Overruns: 2, Suspension: 10 * time.Second}, takes(&took)))
		overrun := func() {
			t.Helper()
			took = time.Minute
			if err := cue.Evaluate(t.Context(), p, "jane"); !errors.Is(err, cue.ErrOverrun) {
				t.Errorf("error is %v, not an overrun", err)
			}
		}
		answers := func(writer string) {
			t.Helper()
			took = 0
			if err := cue.Evaluate(t.Context(), p, writer); err != nil {
				t.Errorf("no answer for %s: %v", writer, err)
			}
		}
		suspended := func(writer, text string) {
			t.Helper()
			took = 0
			err := cue.Evaluate(t.Context(), p, writer)
			if !errors.Is(err, cue.ErrSuspended) || !strings.Contains(err.Error(), text) {
				t.Errorf("error is %v, not a suspension with %q", err, text)
			}
		}

		overrun()
		answers("jane")
		overrun()
		suspended("jane", "after 2 evaluations that took too much; tried again in 10s, for objects that jane writes")
		answers("joe")
		time.Sleep(10 * time.Second)
		overrun()
		suspended("jane", "after 3 evaluations that took too much; tried again in 20s")
		time.Sleep(20 * time.Second)
		answers("jane")
		answers("jane")
		overrun()
		answers("jane")

		// Overruns long ago do not count.
		time.Sleep(200 * time.Second)
		overrun()
		answers("jane")

		// While one evaluation is tried, others are not.
		overrun()
		time.Sleep(10 * time.Second)
		done := make(chan struct{})
		took = 500 * time.Millisecond
		go func() {
			defer close(done)
			_ = cue.Evaluate(t.Context(), p, "jane")
		}()
		synctest.Wait()
		suspended("jane", "being tried again now")
		<-done
		answers("jane")
	})
}

// Writers take a program from nobody else, however many they are.
func TestSuspensionIsOfOneWriter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var took time.Duration
		p := cue.Idle(cue.Fake(cue.Limits{Timeout: time.Second, Overruns: 2, Suspension: 10 * time.Second}, takes(&took)))
		for i := range 2000 {
			took = time.Minute
			eve := fmt.Sprintf("account %d\x00evil", i/2)
			_ = cue.Evaluate(t.Context(), p, eve)
			took = 0
			if err := cue.Evaluate(t.Context(), p, "joe\x00shop"); err != nil {
				t.Fatalf("after %d overruns of other writers: %v", i+1, err)
			}
			if err := cue.Evaluate(t.Context(), p, eve); i%2 == 1 && (!errors.Is(err, cue.ErrSuspended) || !strings.HasSuffix(err.Error(), "writes")) {
				t.Fatalf("after two overruns of a writer: %v", err)
			}
		}
	})
}

func TestWhatCountsAsOverrun(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		reason string
		ctx    func(context.Context) (context.Context, context.CancelFunc)
		counts bool
	}{
		{"a caller with little time", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		}, false},
		{"a caller with a fair share of the time", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 3*time.Second)
		}, true},
		{"a caller that went away", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(3*time.Second, cancel)
			return ctx, cancel
		}, false},
		{"nobody waits for it", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(worker.InBackground(ctx), 3*time.Second)
		}, false},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				took := time.Minute
				p := cue.Idle(cue.Fake(cue.Limits{Timeout: 10 * time.Second, Overruns: 1}, takes(&took)))
				ctx, cancel := tt.ctx(t.Context())
				defer cancel()
				if err := cue.Evaluate(ctx, p, ""); err == nil {
					t.Fatal("no error")
				}
				took = 0
				err := cue.Evaluate(t.Context(), p, "")
				if errors.Is(err, cue.ErrSuspended) != tt.counts {
					t.Errorf("afterwards: %v", err)
				}
			})
		})
	}
}

// TestRunawaySource is the whole of it with a source that takes too long.
func TestRunawaySource(t *testing.T) {
	t.Parallel()
	const source = `import "list"
object: _
validate: valid: len([for i in list.Range(0, object.n, 1) for j in list.Range(0, object.n, 1) {i*j}]) > 0`
	limits := cue.Limits{Timeout: 50 * time.Millisecond, Overruns: 1}
	for _, tt := range []struct {
		reason    string
		evaluator *cue.Evaluator
	}{
		{"on workers", onWorkers(t, limits)},
		{"in process", cue.InProcess(limits)},
	} {
		p := compile(t, "validate/", source, cue.Options{Evaluator: tt.evaluator}).Slowly()
		in := &rule.Input{Object: map[string]any{"n": int64(300)}}
		if _, err := p.Run(context.Background(), in); !errors.Is(err, cue.ErrOverrun) {
			t.Errorf("%s: error is %v", tt.reason, err)
		}
		// On a busy machine it may hardly have had the processor, which does not count.
		_, err := p.Run(context.Background(), in)
		for deadline := time.Now().Add(time.Minute); errors.Is(err, cue.ErrOverrun) && time.Now().Before(deadline); {
			_, err = p.Run(context.Background(), in)
		}
		if !errors.Is(err, cue.ErrSuspended) {
			t.Errorf("%s: then the error is %v", tt.reason, err)
		}
	}
}

// Without an evaluator there are closures, and nothing else.
func TestWithoutEvaluator(t *testing.T) {
	t.Parallel()
	o := cue.Options{Evaluator: cue.None()}
	p, problems := cue.Compile(t.Context(), "object: _\nvalidate: valid: object.n > 1", cue.Validate, o)
	if p == nil {
		t.Fatal(problems)
	}
	outcome, err := p.Run(t.Context(), &rule.Input{Object: map[string]any{"n": int64(1)}})
	if err != nil || outcome.Verdict != usher.Deny {
		t.Errorf("outcome %v, error %v", outcome, err)
	}
	if _, err := p.Run(t.Context(), &rule.Input{Object: map[string]any{"n": "1"}}); !errors.Is(err, cue.ErrNoEvaluator) {
		t.Errorf("what closures leave to the evaluator: %v", err)
	}
	p, problems = cue.Compile(t.Context(), "#A: 1\nobject: _\nvalidate: valid: object.n == #A", cue.Validate, o)
	if p != nil || len(problems) != 1 || !strings.Contains(problems[0].What, "it has a definition") || !strings.Contains(problems[0].Do, "live.Main") {
		t.Errorf("program %v, problems %v", p, problems)
	}
}

// A source that cannot be checked now may be in order.
func TestPending(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p, problems := cue.Compile(ctx, "validate: {}", cue.Validate, cue.Options{})
	if p != nil || len(problems) != 1 || !problems[0].Pending || problems[0].Severity != rule.Error {
		t.Errorf("program %v, problems %v", p, problems)
	}
}

func TestInputLimits(t *testing.T) {
	t.Parallel()
	many := func(n int) map[string]any {
		m := map[string]any{}
		for i := range n {
			m[fmt.Sprint("key", i)] = int64(1)
		}
		return m
	}
	deep := map[string]any{}
	for range 1100 {
		deep = map[string]any{"d": deep}
	}
	const all = `object: _, patches: [for k, v in object.data {op: "add", path: "/\(k)", value: v}]`
	for _, tt := range []struct {
		reason string
		limits cue.Limits
		source string
		object map[string]any
		want   string
	}{
		{"values", cue.Limits{Values: 10}, all, map[string]any{"data": many(10)}, "more than 10 values"},
		{"bytes of names", cue.Limits{Bytes: 30}, all, map[string]any{"data": many(10)}, "more than 30 bytes"},
		{"bytes of strings", cue.Limits{Bytes: 30}, `object: _, patches: [object.s]`, map[string]any{"s": strings.Repeat("x", 31)}, "more than 30 bytes"},
		{"depth", cue.Limits{}, `object: _, patches: [object.d]`, deep, "levels deep"},
		{"bytes of the result", cue.Limits{Result: 1000}, `patches: [{op: "add", path: "/a", value: 1000*"x"}]`, map[string]any{}, "the result has more than 1000 bytes"},
		{"values of the result", cue.Limits{}, `import "strings"
part: strings.Split(1000*",", ",")
patches: [{op: "add", path: "/a", value: [for _ in strings.Split(50*",", ",") {part}]}]`, map[string]any{}, "the result has more than 50000 values"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			tt.limits.Timeout, tt.limits.CompileTimeout = time.Minute, time.Minute
			p := compile(t, "override/", tt.source, cue.Options{Evaluator: onWorkers(t, tt.limits)}).Slowly()
			_, err := p.Run(context.Background(), &rule.Input{Object: tt.object})
			if !errors.Is(err, cue.ErrTooLarge) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want %q", err, tt.want)
			}
		})
	}
}

func TestWhatIsNotReadDoesNotCount(t *testing.T) {
	t.Parallel()
	e := onWorkers(t, cue.Limits{Values: 5, Bytes: 40})
	p := compile(t, "override/", `object: _, patches: [{op: "add", path: "/a", value: object.metadata.name}]`, cue.Options{Evaluator: e}).Slowly()
	object := cart()
	object["data"] = map[string]any{"a": strings.Repeat("x", 1000), "b": "2", "c": "3"}
	if _, err := p.Run(context.Background(), &rule.Input{Object: object}); err != nil {
		t.Error(err)
	}
}

// TestPlacesAgree runs the corpora in this process and on workers.
func TestPlacesAgree(t *testing.T) {
	t.Parallel()
	inputs := samples(t)
	here := cue.InProcess(cue.Limits{Timeout: time.Minute, CompileTimeout: time.Minute})
	there := onWorkers(t, cue.Limits{Timeout: 5 * time.Second, CompileTimeout: time.Minute})
	for name, source := range allPrograms(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var extra map[string]any
			options := cue.Options{Evaluator: here, ExtraParams: func(*rule.Input) (map[string]any, error) { return extra, nil }}
			p, problems := cue.Compile(t.Context(), source, formOf(name), options)
			options.Evaluator = there
			other, otherProblems := cue.Compile(t.Context(), source, formOf(name), options)
			if diff := cmp.Diff(problems, otherProblems); diff != "" {
				t.Fatalf("problems differ (-in process +on workers):\n%s", diff)
			}
			if p == nil {
				return
			}
			p, other = p.Slowly(), other.Slowly()
			for i := range inputs {
				extra = inputs[i].ExtraParams
				otherOutcome, otherErr := other.Run(context.Background(), inputs[i].input())
				if limited(otherErr) {
					// Here it could not be stopped.
					continue
				}
				outcome, err := p.Run(context.Background(), inputs[i].input())
				if diff := cmp.Diff(outcome, otherOutcome); diff != "" || fmt.Sprint(err) != fmt.Sprint(otherErr) {
					t.Errorf("%s: errors %v and %v, outcomes (-in process +on workers):\n%s", inputs[i].Name, err, otherErr, diff)
				}
			}
		})
	}
}

// FuzzAnswer reads answers that no evaluator would give.
func FuzzAnswer(f *testing.F) {
	for _, answer := range []string{
		"", "{}", "null", "[]", `{"patch": [{"op": "add", "path": "/a", "value": {"a": [1, 1.5, 1e400]}}]}`, `{"patch": [{"op": "move"}]}`,
		`{"unknown": true}`, `{"fetch": {"Method": "GET", "Timeout": -1}}`, strings.Repeat(`{"a":`, 20000), strings.Repeat("[", 99999),
		`{"problems": [{"severity": "x"}]}`, `{"denied": 1}`,
	} {
		f.Add([]byte(answer))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_ = cue.Decode(answer, 1<<20)
		runtime.ReadMemStats(&after)
		if taken := after.TotalAlloc - before.TotalAlloc; taken > 256<<20 {
			t.Errorf("reading %d bytes takes %d", len(answer), taken)
		}
	})
}
