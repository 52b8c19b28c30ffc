package cue_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/usher-dev/usher/internal/attack"
	"github.com/usher-dev/usher/internal/lang/cue"
	"github.com/usher-dev/usher/internal/lang/worker"
	"github.com/usher-dev/usher/internal/rule"
)

// attackWith has a hostile program checked and run, and returns whether it got as far as that.
func attackWith(ctx context.Context, h attack.Program, e *cue.Evaluator, tenant string) (problems []rule.Problem, err error) {
	p, problems := cue.Compile(ctx, h.Source, cue.Override, cue.Options{Evaluator: e, Tenant: tenant})
	if p == nil {
		return rule.Errors(problems), nil
	}
	in := &rule.Input{Object: h.Object}
	if _, err := p.Run(ctx, in); err != nil && !limited(err) && !isOfCUE(err) {
		return nil, err
	}
	_, err = p.Slowly().Run(ctx, in)
	return nil, err
}

// isOfCUE reports whether an error is CUE's answer, and no failure of ours.
func isOfCUE(err error) bool {
	return err != nil && !strings.Contains(err.Error(), "worker")
}

const honestSource = `#Team: =~"^[a-z]+$"
object: _
validate: {
	valid:  (object.metadata.name & #Team) != _|_
	reason: "bad name"
}`

// TestHostilePrograms has all of them checked and run. Whatever becomes of them, this process stays
// as it is, and what others ask is answered.
func TestHostilePrograms(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	t.Parallel()
	programs := attack.Programs()
	if len(programs) < 80 {
		t.Errorf("there are %d programs, fewer than 80", len(programs))
	}
	pool := worker.New(worker.Options{})
	t.Cleanup(pool.Close)
	e := cue.OnWorkers(pool, cue.Limits{Timeout: 200 * time.Millisecond, CompileTimeout: 200 * time.Millisecond})
	honest := compile(t, "validate/", honestSource, cue.Options{
		Evaluator: cue.OnWorkers(pool, cue.Limits{Timeout: time.Minute, CompileTimeout: time.Minute}), Tenant: "honest",
	})
	if honest.SlowPath() == "" {
		t.Fatal("the honest program needs no evaluator")
	}
	ended := map[string]int{}
	for i, h := range programs {
		// A tenant would rest after those that have to be ended.
		problems, err := attackWith(t.Context(), h, e, fmt.Sprint("hostile-", i))
		switch {
		case len(problems) > 0:
			ended["refused"]++
		case err == nil:
			ended["answered"]++
		case limited(err), isOfCUE(err):
			ended["failed"]++
		default:
			t.Errorf("%s: %v", h.Reason, err)
		}
		if _, err := honest.Run(t.Context(), &rule.Input{Object: map[string]any{"metadata": map[string]any{"name": "red"}}}); err != nil {
			t.Errorf("%s: then %v", h.Reason, err)
		}
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	t.Logf("%d programs: %v; this process holds %d MB", len(programs), ended, m.HeapAlloc>>20)
	if ended["refused"] == 0 || ended["failed"] == 0 || ended["answered"] == 0 {
		t.Errorf("all programs end alike: %v", ended)
	}
}

// BenchmarkHonestBesideHostile asks an honest program 200 times a second, in turns alone and while
// another tenant does what it can: it checks hostile programs, and runs those that are accepted.
func BenchmarkHonestBesideHostile(b *testing.B) {
	for _, attackers := range []int{1, 8} {
		b.Run(fmt.Sprintf("attackers=%d", attackers), func(b *testing.B) {
			pool := worker.New(worker.Options{})
			defer pool.Close()
			e := cue.OnWorkers(pool, cue.Limits{Timeout: time.Second})
			honest := compile(b, "validate/", honestSource, cue.Options{Evaluator: e, Tenant: "honest"})
			programs := attack.Programs()
			var attacks atomic.Int64
			var alone, beside rounds
			for range 10 {
				alone.add(pace(b, 200, b.N/10+1, honest))
				ctx, stop := context.WithCancel(b.Context())
				var group sync.WaitGroup
				for range attackers {
					group.Go(func() {
						for ctx.Err() == nil {
							_, _ = attackWith(ctx, programs[int(attacks.Add(1))%len(programs)], e, "hostile")
						}
					})
				}
				beside.add(pace(b, 200, b.N/10+1, honest))
				stop()
				group.Wait()
			}
			b.Logf("beside %d attackers: p50 %s, p99 %s; alone: p50 %s, p99 %s; %d attacks",
				attackers, median(beside.p50), median(beside.p99), median(alone.p50), median(alone.p99), attacks.Load())
			if b.N >= 1000 && median(beside.p99) > 2*median(alone.p99) {
				b.Errorf("the p99 beside attackers is more than twice that alone")
			}
			b.ReportMetric(float64(median(beside.p99))/float64(median(alone.p99)), "p99-ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// Rounds have the quantiles of each round. On a machine that others use, some rounds tell nothing.
type rounds struct{ p50, p99 []time.Duration }

func (r *rounds) add(took []time.Duration) {
	slices.Sort(took)
	r.p50, r.p99 = append(r.p50, took[len(took)/2]), append(r.p99, took[len(took)*99/100])
}

func median(d []time.Duration) time.Duration { return slices.Sorted(slices.Values(d))[len(d)/2] }

// pace runs a program n times, so many times a second, and returns how long after it was due each was
// answered.
func pace(b *testing.B, perSecond, n int, p *cue.Program) []time.Duration {
	b.Helper()
	took := make([]time.Duration, n)
	var group sync.WaitGroup
	start := time.Now()
	for i := range n {
		due := start.Add(time.Duration(i) * time.Second / time.Duration(perSecond))
		time.Sleep(time.Until(due))
		group.Go(func() {
			if _, err := p.Run(b.Context(), &rule.Input{Object: map[string]any{"metadata": map[string]any{"name": "red"}}}); err != nil {
				b.Errorf("an honest program fails: %v", err)
			}
			took[i] = time.Since(due)
		})
	}
	group.Wait()
	return took
}
