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

	"github.com/usher-dev/usher/lang/cue"
	"github.com/usher-dev/usher/rule"
)

// stuck returns a function that does not return before release is closed.
func stuck(release <-chan struct{}) func() (int, error) {
	return func() (int, error) {
		<-release
		return 1, nil
	}
}

func quick() (int, error) { return 2, nil }

func TestOverrun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := cue.NewEvaluator(cue.Limits{Timeout: time.Second, Concurrency: 1})
		release := make(chan struct{})
		start := time.Now()
		_, err := cue.Evaluate(t.Context(), cue.Idle(e), stuck(release))
		if !errors.Is(err, cue.ErrOverrun) || !strings.Contains(err.Error(), "given up after 1s") {
			t.Errorf("error is %v", err)
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("it took %s", took)
		}
		if e.Strays() != 1 {
			t.Errorf("%d strays, not 1", e.Strays())
		}
		if n, err := cue.Evaluate(t.Context(), cue.Idle(e), quick); n != 2 || err != nil {
			t.Errorf("beside a stray: %d, %v", n, err)
		}
		close(release)
		synctest.Wait()
		if e.Strays() != 0 {
			t.Errorf("%d strays are left", e.Strays())
		}
	})
}

func TestStraysAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := cue.NewEvaluator(cue.Limits{Timeout: time.Second, Concurrency: 1})
		release := make(chan struct{})
		for range 3 {
			if _, err := cue.Evaluate(t.Context(), cue.Idle(e), stuck(release)); !errors.Is(err, cue.ErrOverrun) {
				t.Errorf("error is %v", err)
			}
		}
		// Two strays are allowed; the third evaluation keeps the only slot.
		if e.Strays() != 2 {
			t.Errorf("%d strays, not 2", e.Strays())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := cue.Evaluate(ctx, cue.Idle(e), quick)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "wait for one of 1 evaluations") {
			t.Errorf("error is %v", err)
		}
		if _, err := cue.Evaluate(t.Context(), cue.Idle(e), quick); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a wait without end ends with %v", err)
		}
		close(release)
		if n, err := cue.Evaluate(t.Context(), cue.Idle(e), quick); n != 2 || err != nil {
			t.Errorf("afterwards: %d, %v", n, err)
		}
	})
}

func TestContextEndsEvaluation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := cue.NewEvaluator(cue.Limits{Timeout: time.Minute})
		release := make(chan struct{})
		defer close(release)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := cue.Evaluate(ctx, cue.Idle(e), stuck(release)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error is %v", err)
		}
		if _, err := cue.Evaluate(ctx, cue.Idle(e), quick); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a context that is done already: %v", err)
		}
	})
}

func TestSuspension(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := cue.NewEvaluator(cue.Limits{Timeout: time.Second, Overruns: 2, Suspension: 10 * time.Second})
		p := cue.Idle(e)
		release := make(chan struct{})
		defer close(release)
		overrun := func() {
			t.Helper()
			r := make(chan struct{})
			_, err := cue.Evaluate(t.Context(), p, stuck(r))
			if !errors.Is(err, cue.ErrOverrun) {
				t.Errorf("error is %v, not an overrun", err)
			}
			close(r)
		}
		answers := func() {
			t.Helper()
			if _, err := cue.Evaluate(t.Context(), p, quick); err != nil {
				t.Errorf("no answer: %v", err)
			}
		}
		suspended := func(text string) {
			t.Helper()
			_, err := cue.Evaluate(t.Context(), p, quick)
			if !errors.Is(err, cue.ErrSuspended) || !strings.Contains(err.Error(), text) {
				t.Errorf("error is %v, not a suspension with %q", err, text)
			}
		}

		overrun()
		answers()
		overrun()
		suspended("after 2 evaluations that took too long; tried again in 10s")
		time.Sleep(10 * time.Second)
		overrun()
		suspended("after 3 evaluations that took too long; tried again in 20s")
		time.Sleep(20 * time.Second)
		answers()
		answers()
		overrun()
		answers()

		// Overruns long ago do not count.
		time.Sleep(200 * time.Second)
		overrun()
		answers()

		// While one evaluation is tried, others are not.
		overrun()
		time.Sleep(10 * time.Second)
		done := make(chan struct{})
		r := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = cue.Evaluate(t.Context(), p, stuck(r))
		}()
		synctest.Wait()
		suspended("being tried again now")
		close(r)
		<-done
		answers()
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
		{"a caller with a cause of its own", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(ctx, 3*time.Second, errors.New("out of patience"))
		}, true},
		{"a caller that went away", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(3*time.Second, cancel)
			return ctx, cancel
		}, false},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := cue.Idle(cue.NewEvaluator(cue.Limits{Timeout: 10 * time.Second, Overruns: 1}))
				release := make(chan struct{})
				defer close(release)
				ctx, cancel := tt.ctx(t.Context())
				defer cancel()
				if _, err := cue.Evaluate(ctx, p, stuck(release)); err == nil {
					t.Fatal("no error")
				}
				_, err := cue.Evaluate(t.Context(), p, quick)
				if errors.Is(err, cue.ErrSuspended) != tt.counts {
					t.Errorf("afterwards: %v", err)
				}
			})
		})
	}
}

func TestPanicIsAnError(t *testing.T) {
	t.Parallel()
	e := cue.NewEvaluator(cue.Limits{Concurrency: 1})
	for range 3 {
		_, err := cue.Evaluate(context.Background(), cue.Idle(e), func() (int, error) { panic("oh no") })
		if err == nil || !strings.Contains(err.Error(), "the evaluator panicked: oh no") {
			t.Errorf("error is %v", err)
		}
	}
	if n, err := cue.Evaluate(context.Background(), cue.Idle(e), quick); n != 2 || err != nil {
		t.Errorf("afterwards: %d, %v", n, err)
	}
}

// TestRunawaySource is the whole of it with a source that takes too long.
func TestRunawaySource(t *testing.T) {
	t.Parallel()
	e := cue.NewEvaluator(cue.Limits{Timeout: 10 * time.Millisecond, Overruns: 1})
	p := compile(t, "validate/", `import "list"
object: _
validate: valid: len([for i in list.Range(0, object.n, 1) for j in list.Range(0, object.n, 1) {i*j}]) > 0`,
		cue.Options{Evaluator: e}).Slowly()
	in := &rule.Input{Object: map[string]any{"n": int64(100)}}
	if _, err := p.Run(context.Background(), in); !errors.Is(err, cue.ErrOverrun) {
		t.Errorf("error is %v", err)
	}
	if _, err := p.Run(context.Background(), in); !errors.Is(err, cue.ErrSuspended) {
		t.Errorf("then the error is %v", err)
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
		{"field names", cue.Limits{Keys: 9}, all, map[string]any{"data": many(10)}, "more than 9 different ones"},
		{"strings that become field names", cue.Limits{Keys: 2}, `object: _, patches: [{value: {for c in object.l {"\(c.name)": 1}}}]`,
			map[string]any{"l": []any{map[string]any{"name": "a"}, map[string]any{"name": "b"}, map[string]any{"name": "c"}}}, "more than 2 different ones"},
		{"strings that become field names after some work", cue.Limits{Keys: 1},
			"import \"strings\"\nobject: _\nn: strings.ToLower(object.name)\npatches: [{value: {(n): object.kind}}]",
			map[string]any{"name": "A", "kind": "B"}, "more than 1 different ones"},
		{"documents full of field names", cue.Limits{Keys: 3},
			"import \"encoding/json\"\nobject: _\npatches: [json.Unmarshal(object.doc).a]",
			map[string]any{"doc": `{"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}`}, "more than 3 different ones"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			p := compile(t, "override/", tt.source, cue.Options{Evaluator: cue.NewEvaluator(tt.limits)}).Slowly()
			_, err := p.Run(context.Background(), &rule.Input{Object: tt.object})
			if !errors.Is(err, cue.ErrTooLarge) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want %q", err, tt.want)
			}
		})
	}
}

func TestWhatIsNotReadDoesNotCount(t *testing.T) {
	t.Parallel()
	e := cue.NewEvaluator(cue.Limits{Values: 5, Bytes: 40, Keys: 1})
	p := compile(t, "override/", `object: _, patches: [{op: "add", path: "/a", value: object.metadata.name}]`, cue.Options{Evaluator: e}).Slowly()
	object := cart()
	object["data"] = map[string]any{"a": strings.Repeat("x", 1000), "b": "2", "c": "3"}
	if _, err := p.Run(context.Background(), &rule.Input{Object: object}); err != nil {
		t.Error(err)
	}
	if e.Keys() != 0 {
		t.Errorf("%d field names were counted", e.Keys())
	}
}

// TestMemory checks that evaluations leave nothing behind, whatever they read.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const runs, bound = 5000, 1 << 20
	inputs, sources := samples(t), corpus(t)
	for _, name := range []string{"override/loop-over-labels.cue", "override/whole-object.cue", "validate/guard-nested.cue", "validate/guard-and.cue"} {
		p := compile(t, name, sources[name], cue.Options{}).Slowly()
		rounds := func(n int) {
			for i := range n {
				_, _ = p.Run(context.Background(), inputs[i%len(inputs)].input())
			}
		}
		rounds(len(inputs))
		before := heap()
		rounds(runs)
		if grown := heap() - before; grown > bound {
			t.Errorf("%s: the heap grew by %d bytes in %d evaluations", name, grown, runs)
		}
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
