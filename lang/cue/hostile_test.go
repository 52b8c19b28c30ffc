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
	"github.com/usher-dev/usher/lang/cue"
	"github.com/usher-dev/usher/lang/cue/worker"
	"github.com/usher-dev/usher/rule"
)

// attackWith has a hostile program checked and run, and returns whether it got as far as that.
func attackWith(ctx context.Context, h attack.Program, e *cue.Evaluator) (problems []rule.Problem, err error) {
	p, problems := cue.Compile(ctx, h.Source, cue.Override, cue.Options{Evaluator: e, Tenant: "hostile"})
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
	for _, h := range programs {
		problems, err := attackWith(t.Context(), h, e)
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

// BenchmarkHonestBesideHostile asks an honest program 200 times a second, alone and while another
// tenant does what it can: it checks hostile programs, and runs those that are accepted.
func BenchmarkHonestBesideHostile(b *testing.B) {
	for _, attackers := range []int{0, 1, 8} {
		b.Run(fmt.Sprintf("attackers=%d", attackers), func(b *testing.B) {
			pool := worker.New(worker.Options{})
			defer pool.Close()
			e := cue.OnWorkers(pool, cue.Limits{Timeout: time.Second})
			honest := compile(b, "validate/", honestSource, cue.Options{Evaluator: e, Tenant: "honest"})
			ctx, stop := context.WithCancel(b.Context())
			var group sync.WaitGroup
			programs := attack.Programs()
			var attacks atomic.Int64
			for range attackers {
				group.Go(func() {
					for ctx.Err() == nil {
						_, _ = attackWith(ctx, programs[int(attacks.Add(1))%len(programs)], e)
					}
				})
			}
			took, failed := pace(b, 200, honest)
			stop()
			group.Wait()
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
			b.ReportMetric(float64(failed), "failed")
			b.ReportMetric(float64(attacks.Load()), "attacks")
		})
	}
}

// pace runs a program b.N times, so many times a second.
func pace(b *testing.B, perSecond int, p *cue.Program) (took []time.Duration, failed int) {
	took = make([]time.Duration, b.N)
	var group sync.WaitGroup
	var failures atomic.Int64
	ticker := time.NewTicker(time.Second / time.Duration(perSecond))
	defer ticker.Stop()
	for i := range b.N {
		<-ticker.C
		group.Go(func() {
			begin := time.Now()
			if _, err := p.Run(b.Context(), &rule.Input{Object: map[string]any{"metadata": map[string]any{"name": "red"}}}); err != nil {
				failures.Add(1)
				b.Log(err)
			}
			took[i] = time.Since(begin)
		})
	}
	group.Wait()
	return took, int(failures.Load())
}
